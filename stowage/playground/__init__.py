"""A hub and members on this machine: real control planes, for trying things out and for tests."""
