"""The programs of a control plane, built from their Go modules."""
