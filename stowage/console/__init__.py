"""The output of the commands: tables, JSON and YAML, progress."""
