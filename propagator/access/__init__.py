"""As whom the propagator acts on a member, and what it may bring there."""
