"""Kinds that stand on the framework and that the core does not know by name: a folder each."""
