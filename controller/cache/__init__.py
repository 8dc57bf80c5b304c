"""Everything that a pass reads, kept by informers and by the controller's own decisions."""
