"""What leaves a cluster: by its taints, by its loss, and what comes back."""
