"""The identity under which the propagator writes on a member, and what it may write there."""
