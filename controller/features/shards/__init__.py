"""Shards of the propagator, as far as the controller tells of them."""
