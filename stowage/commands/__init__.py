"""The subcommands of `stowage`, by what they are about; see `stowage.cli`."""
