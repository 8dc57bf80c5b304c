"""Commands that prepare a hub and its members: install, join, and the rights that they need."""
