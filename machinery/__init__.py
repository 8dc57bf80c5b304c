"""What both processes use: HTTP to API servers, informers, queues, leases, types of Kubernetes.

Nothing here knows what a Workload is. `crds` lies below, `controller` and `propagator` above.
"""
