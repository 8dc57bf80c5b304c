"""Chaos with gangs: forty groups of Workloads on three members without room for all of them.

The leading controller is killed thirty times and the leading propagator thirty times, members are
stopped and go on, and members are removed and come back, while users make, edit and end gangs. A
watchman reads the members themselves all the time: each gang has either nothing there or at least
its quorum. In the end every gang that fits runs.
"""
