"""Chaos: sixty Workloads are churned over three members while everything under them breaks.

`python -m e2e.chaos --seconds 300 --seed 7` runs it; the seed decides which faults and which edits
come in which order, and is printed. On the way and at the end the promises of the design are
checked on the members themselves: nothing lost, nothing doubled, nothing left behind, the last copy
never removed, nobody else's objects touched, no exception in a log.
"""
