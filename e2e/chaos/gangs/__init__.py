"""Chaos with gangs: forty groups of Workloads on three members without room for all of them.

`python -m e2e.chaos.gangs --seed 7` kills the leading controller thirty times and the leading
propagator thirty times, stops members and lets them go on, and removes members and brings them
back, while users make, edit and end gangs. A watchman reads the members themselves all the time:
each gang has either nothing there or at least its quorum. In the end every gang that fits runs.
"""
