"""`stowage kinds` and `stowage kinds try`: what is known of the kinds of workloads."""

from __future__ import annotations

import click

from stowage.commands.options import OUTPUT, Commands, HubOptions, files_option, object_options


@click.group(cls=Commands, invoke_without_command=True)
@object_options("Of the Workloads that are counted; all without it.")
@OUTPUT
@click.pass_context
def kinds(command: click.Context, hub: HubOptions, output: str) -> None:
    """List the kinds of workloads, and where what is known of each comes from.

    Exit code 1 when the kind of a Workload is unknown, or its WorkloadKind cannot be used.
    """
    if command.invoked_subcommand is not None:
        return
    from stowage.report import kinds as listing

    command.exit(0 if listing.show(hub.quick(), hub.namespace, output) else 1)


@kinds.command(name="try")
@files_option("Objects, and WorkloadKinds to read them by")
@click.pass_context
def try_(command: click.Context, files: tuple[str, ...]) -> None:
    """Show what a kind makes of an object: replicas, pods, and whether it is ready.

    No hub is asked. Exit code 1 for an object of an unknown kind, and for one that is malformed.
    """
    from stowage.report import kinds as listing

    command.exit(0 if listing.try_(files) else 1)
