"""Chaos of staged rollouts: images are edited, bad ones too, while leaders die and members stop."""
