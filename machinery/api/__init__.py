"""HTTP to an API server: the client, its verbs, and the meaning of answers."""
