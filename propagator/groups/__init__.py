"""Gangs on the members' side: which Workloads are in a group, and what its gate allows."""
