"""WorkloadSpread: ordered subsets of clusters for one Workload, wholly in this folder."""
