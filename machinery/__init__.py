"""What both processes stand on: HTTP to an API server, informers, queues, leases and the small facts of Kubernetes.

Nothing here knows what a Workload is. `crds` lies below, `controller` and `propagator` above.
"""
