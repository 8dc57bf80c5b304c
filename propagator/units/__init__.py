"""Writes to the pods themselves that run a Workload's units: their deletion costs."""
