"""The record of a decision as text: pending replicas and remedies."""
