"""WorkloadQuota: the amounts that a namespace may take over all clusters."""
