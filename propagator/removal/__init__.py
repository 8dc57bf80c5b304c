"""Removes from members what is no longer wanted, in order, and the finalizer only after that."""
