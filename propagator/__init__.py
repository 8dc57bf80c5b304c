"""The propagator: registers members, writes to them what the placements say, brings status back."""
