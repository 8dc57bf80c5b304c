"""Making a hub and a member ready: install, join, and the rights that they need."""
