"""The propagator's accounts, tokens and credentials on members."""
