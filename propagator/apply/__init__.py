"""A Workload's share becomes objects on a member."""
