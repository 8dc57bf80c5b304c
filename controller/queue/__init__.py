"""The scheduling queue, and the events that bring an unschedulable Workload back to it."""
