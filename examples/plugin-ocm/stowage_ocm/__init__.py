"""Open Cluster Management as a source of decisions and scores for Stowage."""
