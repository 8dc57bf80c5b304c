"""Both processes, a hub and members in memory, under faults that a seed gives, by a clock of theirs.

As a chaos run of `e2e.chaos`, some hundred times as fast, and the same each time: but the API
servers are as they are played here. Runs by `python -m tests.simulation SEED...`.
"""
