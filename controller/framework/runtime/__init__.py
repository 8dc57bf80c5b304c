"""The runtime of plugins and features: their sources, and their calls."""
