"""From a key to decisions: the cycle, the sets, the decision and its outcome."""
