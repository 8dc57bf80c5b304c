"""How a process runs plugins and features: where they come from, how they are called."""
