"""Snapshots of the member clusters, as one decision reads them: columns, frozen."""
