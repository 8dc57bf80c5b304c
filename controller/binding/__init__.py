"""From a decision to one write, and back where the write fails."""
