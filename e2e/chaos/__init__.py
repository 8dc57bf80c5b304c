"""Chaos: users edit Workloads on three members while everything under them breaks.

`python -m e2e.chaos --seconds 300 --seed 7` churns sixty Workloads; the seed, which is printed,
decides the order of faults and edits. During the run and at the end the promises of the design are
checked on the members themselves: no object lost, doubled or left behind, the last copy never
removed, no Job run twice, no ordinal there twice, no claim lost, no foreign object touched, no
exception in a log. `gangs` and `rollouts` are other lists of wishes for the same engine.
"""
