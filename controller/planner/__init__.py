"""How a number of replicas becomes shares: integers only, pure, standard library and numpy."""
