"""The member clusters: sessions, health, and what is seen there."""
