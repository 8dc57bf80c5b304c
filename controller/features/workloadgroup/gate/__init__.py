"""The gate of a WorkloadGroup: which of its placements go to members, and its status."""
