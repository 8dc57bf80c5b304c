"""The hub's kinds as the propagator reads them."""
