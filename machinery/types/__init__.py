"""Small parts of Kubernetes' API, exact and bounded: metadata, quantities, selectors."""
