"""The runtime of plugins and features: where they come from, how they are called."""
