"""A module for each system that can be migrated from."""
