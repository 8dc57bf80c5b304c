"""How the scheduler is extended: points, the plugins at them, the registry that makes plugins."""
