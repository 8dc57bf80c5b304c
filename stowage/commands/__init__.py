"""The subcommands of `stowage`, by topic; see `stowage.cli`."""
