"""A staged rollout at the command line: how far it has come, and what a person may do about it."""
