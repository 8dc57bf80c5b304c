"""A hub and its members on this machine: real control planes, no container registry needed.

`binaries` says where the programs lie and `build` builds them from Go modules, `controlplanes`
starts and stops clusters of them, `processes` keeps hold of what was started. Tests stand on the
same code as `stowage playground`, so what a test runs against is what a user tries.
"""
