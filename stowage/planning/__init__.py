"""Decisions of now and their reasons, from files or from a hub, without a controller."""
