"""Objects that pods name go along with their Workload, where it says so."""
