"""Computes the room that a cluster publishes from the pods and nodes of the member."""
