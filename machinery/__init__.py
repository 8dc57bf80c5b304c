"""The base of both processes: HTTP to API servers, informers, queues, leases, Kubernetes types.

Nothing here knows what a Workload is. `crds` lies below, `controller` and `propagator` above.
"""
