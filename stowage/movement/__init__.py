"""Moves, made and foreseen: `drain`, `rebalance` and `simulate`."""
