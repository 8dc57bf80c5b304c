"""Under which identity the propagator writes on a member, and what it may write there."""
