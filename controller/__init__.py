"""The hub's scheduler: which member clusters run how many replicas of a Workload.

The controller reads Workloads and MemberClusters and writes Workload.status.
"""
