"""Brings what is seen on the members into the status of a Workload."""
