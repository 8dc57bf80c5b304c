"""The controller's decisions without a controller."""
