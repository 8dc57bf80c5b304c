"""Talking to an API server: the client, what it may be asked, and what its answers mean."""
