"""The hub as the commands reach it that only read: quickly, one request after the other."""
