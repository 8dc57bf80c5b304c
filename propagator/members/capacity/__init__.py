"""From the pods and nodes of a member to the room that its cluster publishes."""
