"""The base of both processes: HTTP to API servers, informers, queues, leases, Kubernetes types.

It knows nothing of Workloads. `crds` lies below, `controller` and `propagator` above.
"""
