"""Gangs: the Workloads of a WorkloadGroup get clusters together, or none of them does."""
