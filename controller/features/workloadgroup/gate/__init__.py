"""The gate of a WorkloadGroup: what of it may go to members, and what its status says."""
