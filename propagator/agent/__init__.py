"""The agent: the member side of the propagator, beside the member, in mode Pull."""
