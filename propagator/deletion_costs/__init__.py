"""Writes to the pods themselves that run a Workload's replicas: their deletion costs."""
