"""What the propagator reads from the hub and writes to it."""
