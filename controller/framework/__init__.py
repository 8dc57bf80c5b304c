"""The scheduling framework: extension points, the plugins at them, the registry of plugins."""
