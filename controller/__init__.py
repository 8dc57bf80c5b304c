"""The hub's scheduler: which member clusters run how many replicas of a Workload, and why.

The controller reads Workloads and MemberClusters and writes Workload.status. It never holds a
member's credential and never talks to a member.
"""
