"""What is seen on the members becomes the status of a Workload."""
