"""ClusterProfiles of the Cluster Inventory API: imported as MemberClusters, and exported."""
