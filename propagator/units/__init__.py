"""What is written on the pods themselves that run a Workload's units: what it costs to lose one."""
