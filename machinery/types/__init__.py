"""Small facts of Kubernetes, exact and bounded: metadata, quantities, selectors."""
