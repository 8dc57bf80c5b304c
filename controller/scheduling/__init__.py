"""The scheduling cycle: from a key to decisions on one Workload or on a set."""
