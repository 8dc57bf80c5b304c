"""What a kind of workload is: one table, asked by the controller, the propagator and commands."""
