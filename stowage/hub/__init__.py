"""The hub for commands that only read: quick to import, one request after the other."""
