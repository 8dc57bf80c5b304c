"""What the propagator shows a member: accounts, tokens, credentials."""
