"""Decisions for other tools: ClusterDecision and PlacementDecision, written as Workloads ask."""
