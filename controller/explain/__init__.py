"""The record of a decision in words: what is pending, and what would help."""
