"""`stowage migrate`: what another control plane runs becomes Stowage's, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stowage.commands.options import (
    OUTPUT,
    PATH,
    REFERENCE,
    Command,
    Commands,
    HubOptions,
    home_options,
    workload_name,
)

if TYPE_CHECKING:
    from pathlib import Path


def _maps(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        cluster, _sign, member = text.partition("=")
        if not (cluster and member):
            raise click.BadParameter(f"{text!r} is not of the form CLUSTER=MEMBER", param=option)
    return dict(text.split("=", 1) for text in texts)


def _arguments(command: Command) -> Command:
    """Add the Workloads, the peer, and how the servers are reached."""
    for option in (
        OUTPUT,
        home_options,
        click.option("--lossy", is_flag=True, help="Also where something asked for is lost."),
        click.option(
            "--with-secrets",
            "secrets",
            is_flag=True,
            help="Copy the Secrets that the hub lacks from the peer's hub.",
        ),
        click.option(
            "--member-kubeconfigs",
            "folder",
            type=PATH,
            metavar="DIR",
            help="Your kubeconfigs of the members, DIR/NAME.kubeconfig; without it, the contexts"
            " of their names in the hub's.",
        ),
        click.option(
            "--map",
            "mapping",
            multiple=True,
            metavar="CLUSTER=MEMBER",
            callback=_maps,
            help="Which MemberCluster a cluster of the peer is, if their UIDs do not tell.",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces."),
        click.option("-n", "--namespace", help="Of the objects; the context's of the peer."),
        click.option(
            "--from-kubeconfig",
            required=True,
            type=click.Path(exists=True),
            help="The kubeconfig file of the peer's hub.",
        ),
        click.option(
            "--from",
            "system",
            required=True,
            type=click.Choice(["karmada", "ocm", "kubefleet", "kubefed"]),
            help="The system that runs them.",
        ),
        click.argument("references", nargs=-1, type=REFERENCE, metavar="[wl/NAME]..."),
    ):
        command = option(command)
    return command


@click.group(cls=Commands)
def migrate() -> None:
    """Migrate what another control plane runs to Stowage, in steps that can be undone.

    The steps are adopt, release, take and finish. `plan` shows what they would do, and what is in
    the way. In between the objects run on, and no two control planes hold one. Each step may be run
    again, and `undo` takes the last one back. Exit code 1 where a Workload cannot go on; the others
    do.
    """


@migrate.command()
@_arguments
def plan(**given: Any) -> None:
    """Show what a migration would do and what is in its way; write nothing.

    Members are asked by dry runs. Exit code 1 when a Workload cannot be migrated.
    """
    _run("plan", **given)


@migrate.command()
@_arguments
def adopt(**given: Any) -> None:
    """Make the Workloads, with the placements that the peer has; members are only read."""
    _run("adopt", **given)


@migrate.command()
@_arguments
def release(**given: Any) -> None:
    """Have the peer let go of what the Workloads run, and see that proven.

    What is changed is kept in Secrets first. The objects run on, and no control plane holds them.
    """
    _run("release", **given)


@migrate.command()
@_arguments
def take(**given: Any) -> None:
    """Have Stowage bring the Workloads, where each object is as they render it."""
    _run("take", **given)


@migrate.command()
@_arguments
def finish(**given: Any) -> None:
    """Delete the peer's objects of the Workloads, and take its marks off.

    Each Workload has to be Ready for a minute, and its members have to answer. Only a backup of the
    peer undoes this.
    """
    _run("finish", **given)


@migrate.command()
@_arguments
def undo(**given: Any) -> None:
    """Take back the last step of the Workloads."""
    _run("undo", **given)


@migrate.command()
@_arguments
def status(**given: Any) -> None:
    """Show the step of each Workload, and how many are at each.

    Exit code 1 when a step was cut off, or does not hold any more.
    """
    _run("status", **given)


def _run(
    step: str,
    *,
    references: tuple[str, ...],
    system: str,
    from_kubeconfig: str,
    all_namespaces: bool,
    mapping: dict[str, str],
    folder: Path | None,
    secrets: bool,
    lossy: bool,
    hub: HubOptions,
    output: str,
) -> None:
    from stowage.migrating import command
    from stowage.migrating.survey import Asked

    if all_namespaces and (hub.namespace or references):
        raise click.UsageError("-A goes with no namespace and no Workload")
    names = frozenset(workload_name((each,), "migrated") for each in references)
    peer = command.peer_named(system)
    of_peer = HubOptions(from_kubeconfig)
    reads = step in ("plan", "status")
    theirs = of_peer.connection() if reads else of_peer.written(called=system)
    ours = hub.connection() if reads else hub.written()
    servers = command.Servers(
        hub=ours,
        kubeconfig=hub.kubeconfig,
        theirs=theirs,
        folder=folder,
        home=hub.system_namespace,
    )
    asked = Asked(
        namespace="" if all_namespaces else hub.namespace or theirs.namespace,
        names=names,
        clusters=mapping,
        secrets=secrets,
        lossy=lossy,
    )
    well = command.run(step, peer, servers, asked, output)
    click.get_current_context().exit(0 if well else 1)
