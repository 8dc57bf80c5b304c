"""The state that decisions read, kept by informers and by the controller's own decisions."""
