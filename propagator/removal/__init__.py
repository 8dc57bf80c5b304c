"""What is no longer wanted on a member goes, in order, and only then the finalizer."""
