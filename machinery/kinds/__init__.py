"""Kinds of workloads: one table for the controller, the propagator and commands."""
