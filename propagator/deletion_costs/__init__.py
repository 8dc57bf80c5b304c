"""Writes deletion costs to the pods that run a Workload's replicas."""
