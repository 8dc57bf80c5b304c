"""How a number of units becomes shares: integers only, pure, standard library and numpy."""
