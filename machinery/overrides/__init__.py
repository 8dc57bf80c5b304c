"""Differences between clusters: an author's overrides, and the images of a cluster. Pure."""
