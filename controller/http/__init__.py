"""The controller's HTTP face: who may ask it, and what it answers."""
