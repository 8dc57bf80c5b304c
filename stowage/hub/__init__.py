"""The hub for commands: reads, quick to import, and edits on the version that was read."""
