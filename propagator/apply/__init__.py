"""Renders a Workload's share, and applies its objects on a member."""
