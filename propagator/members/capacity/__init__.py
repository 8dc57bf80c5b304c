"""Computes the published room of a cluster from the pods and nodes of the member."""
