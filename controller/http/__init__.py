"""The controller's HTTP server: the guard, and the endpoints."""
