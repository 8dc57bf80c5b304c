"""WorkloadKinds: whether each can be used, and how many Workloads are of its kind."""
