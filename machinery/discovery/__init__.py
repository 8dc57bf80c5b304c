"""What a server offers and enforces: its kinds, its rights, its admission policies."""
