"""The propagator's reads from the hub, and its writes to it."""
