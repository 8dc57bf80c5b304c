"""WorkloadPolicy: quotas for the domains of a topology, wholly in this folder."""
