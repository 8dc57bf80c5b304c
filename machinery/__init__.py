"""The base of both processes: HTTP to API servers, informers, queues, leases, Kubernetes types."""
