"""From a decision to one write, and back where that comes to nothing."""
