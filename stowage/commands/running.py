"""`stowage restart`, `pods` and `logs`: what runs of a Workload on its members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stowage.commands.options import (
    CLUSTER,
    OBJECTS,
    REFERENCE,
    Command,
    HubOptions,
    member_files,
    object_options,
    with_hub,
    workload_name,
)

if TYPE_CHECKING:
    from machinery.config.kubeconfig import Connection
    from machinery.types.metadata import Key
    from stowage.report.memberpods import Members


def _of_members(command: Command) -> Command:
    """Add the Workload, the hub, and how its members are reached."""
    for option in (
        member_files("files"),
        click.option("--cluster", type=CLUSTER, default="", metavar="NAME", help="That one alone."),
        object_options("Of the Workload; the context's."),
        click.argument("reference", nargs=-1, required=True, type=REFERENCE, metavar="wl/NAME"),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("reference", nargs=-1, required=True, type=REFERENCE, metavar="wl/NAME")
@object_options("Of the Workload; the context's.")
def restart(reference: tuple[str, ...], hub: HubOptions) -> None:
    """Have the pods of a Workload replaced by new ones, as kubectl rollout restart has it.

    The time is written into the pod template, so each member replaces the pods as it does for any
    edit of it, and a staged rollout goes wave by wave.
    """
    from machinery.clock import SystemClock
    from stowage.setup import restart as restarting

    name = workload_name(reference, "restarted")
    at = hub.written()
    key = (hub.namespace or at.namespace, name)
    with_hub(at, lambda api: restarting.restart(api, key, clock=SystemClock()))


@click.command()
@_of_members
@OBJECTS
@click.pass_context
def pods(
    command: click.Context,
    reference: tuple[str, ...],
    hub: HubOptions,
    files: dict[str, str],
    cluster: str,
    output: str,
) -> None:
    """Show the pods of a Workload on its members, with your own credentials of them.

    A member that cannot be asked is told below, and the exit code is 1 then.
    """
    from stowage.report import memberpods

    at, about, members = _asked(hub, reference, files, "told with their pods")
    command.exit(0 if memberpods.show(at, about, members, cluster, output) else 1)


@click.command()
@_of_members
@click.option("-c", "--container", default="", help="Of that container.  [default: the pod's own]")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until interrupted.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="The last lines of each pod alone."
)
@click.pass_context
def logs(
    command: click.Context,
    reference: tuple[str, ...],
    hub: HubOptions,
    files: dict[str, str],
    cluster: str,
    container: str,
    follow: bool,
    tail: int | None,
) -> None:
    """Print the logs of a Workload's pods on its members, with your own credentials of them.

    Each line begins with cluster/pod. A log that cannot be read is told, and the exit code is 1
    then.
    """
    from stowage.report import memberpods

    at, about, members = _asked(hub, reference, files, "told with their logs")
    asked = memberpods.LogRequest(container, follow, tail)
    command.exit(0 if memberpods.logs(at, about, members, cluster, asked) else 1)


def _asked(
    hub: HubOptions, reference: tuple[str, ...], files: dict[str, str], done: str
) -> tuple[Connection, Key, Members]:
    """Return the hub, the key of the Workload, and how its members are reached."""
    from stowage.report.memberpods import Members

    name, at = workload_name(reference, done), hub.quick()
    return at, (hub.namespace or at.namespace, name), Members(hub.kubeconfig, files)
