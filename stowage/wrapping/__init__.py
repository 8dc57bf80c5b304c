"""`stowage wrap`: plain objects, such as a rendered chart, become Workloads that hold them."""
