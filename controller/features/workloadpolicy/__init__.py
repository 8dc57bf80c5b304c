"""WorkloadPolicy: quotas for the domains of a topology."""
