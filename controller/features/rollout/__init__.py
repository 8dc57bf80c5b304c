"""Staged rollout: a change of the template goes from wave to wave of clusters."""
