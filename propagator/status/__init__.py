"""Writes the observed state of the members into the status of a Workload."""
