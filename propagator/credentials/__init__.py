"""What the propagator presents to a member: accounts, tokens, credentials."""
