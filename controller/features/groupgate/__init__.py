"""The gate of WorkloadGroups, and what their statuses say: of the feature, a room of its own."""
