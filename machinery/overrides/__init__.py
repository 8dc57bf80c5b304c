"""What differs on some clusters: the author's overrides, and the images of a cluster. Pure.

Both processes read it here: the controller before a Workload is placed, the propagator when it
writes.
"""
