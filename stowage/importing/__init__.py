"""`stowage import`: objects of other systems become ours, and every field is accounted for."""
