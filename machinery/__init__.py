"""What both processes stand on: HTTP to API servers, informers, queues, leases, small facts.

Nothing here knows what a Workload is. `crds` lies below, `controller` and `propagator` above.
"""
