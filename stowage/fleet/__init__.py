"""The objects that decisions are made of, from files or from a hub."""
