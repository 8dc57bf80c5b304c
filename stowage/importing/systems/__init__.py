"""The systems that can be imported: a module for each, and its helper modules."""
