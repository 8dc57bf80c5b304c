"""Calls of plugins: guarded against what they raise, how long they take and what they return."""
