"""Claims on a quota, for schedulers of several names."""
