"""Evictions by taints and by loss of a cluster, and returns."""
