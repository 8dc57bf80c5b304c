"""Pull mode: a share as an Assignment on the hub, and what the agent of a member tells of it."""
