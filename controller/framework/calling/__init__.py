"""How a plugin is asked: what it raises, how long it takes and what it answers are looked at."""
