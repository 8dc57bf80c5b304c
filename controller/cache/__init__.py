"""What a decision reads of Workloads, kept by informers and by the controller's own decisions."""
