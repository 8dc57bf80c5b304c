"""WorkloadSpread: ordered subsets of clusters for one Workload."""
