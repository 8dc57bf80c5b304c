"""Admission beyond the schemas: policies for the API server, and the same rules in Python."""
