"""Who is decided next, and which events bring a waiting Workload back."""
