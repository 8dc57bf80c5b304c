"""What would be placed where, and why: from files or from a hub, without a controller."""
