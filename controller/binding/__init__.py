"""From a decision to one write, and back if the write fails."""
