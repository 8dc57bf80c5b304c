"""What differs on some clusters: the author's overrides, and the images of a cluster. Pure."""
