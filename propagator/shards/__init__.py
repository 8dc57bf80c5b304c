"""Shards: a process holds at most one, and serves the members that the hash gives to it."""
