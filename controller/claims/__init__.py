"""Claims on a quota, in the status of the object that bounds: for schedulers of several names."""
