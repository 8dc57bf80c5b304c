"""Commands that only read: `plan`, `explain`, `status`, `kinds`, `import` and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stowage.commands.options import (
    CLUSTER,
    OUTPUT,
    PATH,
    PLUGINS,
    REFERENCE,
    SYSTEM,
    Commands,
    HubOptions,
    files_option,
    fleet_options,
    looking,
    named,
    object_options,
)

if TYPE_CHECKING:
    from pathlib import Path

    from machinery.config.kubeconfig import Connection


@click.command()
@files_option("Workloads: a file, a folder, or - for standard input")
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option(
    "--diff",
    "differences",
    is_flag=True,
    help="Print what differs between the clusters instead: overrides, patches, images.",
)
@click.option(
    "--server",
    metavar="CONTEXT",
    help="Also ask this member by a dry run, and print what its API server refuses.",
)
@click.option(
    "--exit-code", is_flag=True, help="Exit with 0 if no share changes, and with 2 if one does."
)
@fleet_options
@click.pass_context
def plan(
    command: click.Context,
    files: tuple[str, ...],
    more: tuple[str, ...],
    differences: bool,
    server: str | None,
    exit_code: bool,
    hub: HubOptions,
    output: str,
) -> None:
    """Show what would be placed where if these files were applied; touch nothing.

    Exit code 1 for an error, and when a member would refuse something that is planned.
    """
    if differences and output != "table":
        raise click.UsageError("--diff is for people: leave -o out")
    where = hub.where()
    if differences:
        from stowage.simulation import differences as between

        between.show_plan((*files, *more), where)
        return
    from stowage.simulation import dry_run
    from stowage.simulation import plan as planning

    member = HubOptions(hub.kubeconfig, server).connection() if server else None
    made = planning.show((*files, *more), where, output)
    if dry_run.show(made, member):
        command.exit(1)
    command.exit(2 if exit_code and made.changes else 0)


@click.command()
@click.argument("reference", nargs=-1, required=True, type=REFERENCE, metavar="wl/NAME")
@files_option("Explain what a plan of these Workloads would decide", required=False)
@click.option(
    "--controller",
    "url",
    metavar="URL",
    help="Ask this controller what would be decided now: https, or an address of this machine.",
)
@click.option(
    "--token-file",
    type=PATH,
    help="The bearer token for a controller that asks for one.",
)
@click.option("--all", "everything", is_flag=True, help="Print every cluster.")
@click.option(
    "--cluster", type=CLUSTER, metavar="NAME", help="The cluster that --rendered is about."
)
@click.option(
    "--rendered",
    is_flag=True,
    help="Print the objects of a Workload as they would be sent to that cluster, as YAML.",
)
@fleet_options
def explain(
    reference: tuple[str, ...],
    files: tuple[str, ...],
    cluster: str | None,
    rendered: bool,
    url: str | None,
    token_file: Path | None,
    everything: bool,
    hub: HubOptions,
    output: str,
) -> None:
    """Say why a Workload is where it is, and what would be now.

    Also of a Reservation (rsv/NAME) or of a WorkloadGroup (wg/NAME): what it needs and lacks.

    The rule of each replica is that of the decision that placed it, read from the hub.
    """
    about = named(reference)
    if rendered != (cluster is not None):
        raise click.UsageError("--rendered and --cluster go together: give both")
    if rendered and (url or files):
        raise click.UsageError("--rendered is about an object that is stored: leave the others out")
    if cluster is not None:
        from stowage.simulation import differences

        differences.show(about, hub.where(), cluster)
        return
    if token_file and not url:
        raise click.UsageError("--token-file is for a controller: name it with --controller")
    if url and (files or hub.fleet):
        raise click.UsageError("--controller knows nothing of files: leave -f and --fleet out")
    if files or hub.fleet:
        from stowage.simulation import explain as deciding

        deciding.show(about, hub.where(), files=files, form=output, everything=everything)
        return
    from stowage.report import explain as reading

    at = hub.quick()
    asked = reading.ExplainRequest(
        at,
        hub.namespace or at.namespace,
        about,
        _controller(url, token_file) if url else None,
        hub.config_file,
        hub.plugins,
    )
    reading.show(asked, form=output, everything=everything)


def _controller(url: str, token_file: Path | None) -> Connection:
    from stowage.simulation.explain import controller

    return controller(url, token_file)


@click.command()
@click.argument("reference", nargs=-1, required=True, type=REFERENCE, metavar="wl/NAME")
@object_options("Of the Workload; the context's.")
@OUTPUT
def history(
    reference: tuple[str, ...],
    hub: HubOptions,
    output: str,
) -> None:
    """Show the last changes of a placement: when, what set them off, from, to, why.

    Of a Workload (wl/NAME) or of a Reservation (rsv/NAME).
    """
    from stowage.report import history as reading

    about = named(reference)
    at = hub.quick()
    reading.show(at, hub.namespace or at.namespace, about, output)


@click.command()
@click.argument("reference", nargs=-1, type=REFERENCE, metavar="[wl/NAME]")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all Workloads of the hub.")
@object_options("Of the Workloads; the context's.")
@OUTPUT
@click.pass_context
def drift(
    command: click.Context,
    reference: tuple[str, ...],
    all_namespaces: bool,
    hub: HubOptions,
    output: str,
) -> None:
    """Show what others changed on members: of a Workload (wl/NAME), or of all in a namespace.

    Exit code 0 when no change stands, 1 when one is left as it is or is fought over, 2 when the hub
    could not be asked.
    """
    from stowage.report import drift as reading

    if all_namespaces and (hub.namespace or reference):
        raise click.UsageError("-A goes with no namespace and no Workload")
    about = named(reference) if reference else None
    with looking():
        at = hub.quick()
        where = None if all_namespaces else hub.namespace or at.namespace
        stands = reading.show(at, where, about, output)
    command.exit(1 if stands else 0)


@click.command()
@object_options("Only the Workloads of this namespace.  [default: all]")
@SYSTEM
@click.option("-w", "--watch", is_flag=True, help="Keep it on the screen, until interrupted.")
@click.option("--all", "everything", is_flag=True, help="Print every row of each list.")
@OUTPUT
@click.pass_context
def status(
    command: click.Context,
    hub: HubOptions,
    watch: bool,
    everything: bool,
    output: str,
) -> None:
    """Show the fleet and what is wrong in it.

    Exit code 0 when nothing needs a person, 1 when something does, 2 when the hub could not be
    asked, or not in that way.
    """
    from stowage.report import status as reading

    if watch and output != "table":
        raise click.UsageError("-w is for people: leave -o out")
    with looking():
        fleet = (hub.quick(), hub.namespace, hub.system_namespace)
        if watch:
            urgent = reading.keep(*fleet, everything=everything)
        else:
            urgent = reading.show(*fleet, output, everything=everything)
    command.exit(1 if urgent else 0)


@click.command("plugins")
@click.option(
    "--config",
    "config_file",
    type=PATH,
    help="A SchedulerConfiguration; without it, what runs without one.",
)
@PLUGINS
@OUTPUT
def plugins_(config_file: Path | None, plugins: tuple[str, ...], output: str) -> None:
    """Show the plugins of each profile at each point: weights, origins, arguments.

    They stand in the order in which a pass calls them. Below are those that are installed and that
    no point enables. A configuration that the controller would refuse is refused with its words.
    """
    from stowage.report import plugins as planning

    planning.show(config_file, plugins, output)


@click.command("import")
@files_option("Objects to import: a file, a folder, or - for standard input", required=False)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option(
    "--from",
    "system",
    type=click.Choice(["karmada", "ocm", "kubefleet", "kubefed", "argocd"]),
    help="Read the objects of this system from its hub instead, by get and list alone.",
)
@click.option("--kubeconfig", type=click.Path(), help="The kubeconfig file of that hub.")
@click.option("--context", help="The context in it.")
@click.option(
    "-n",
    "--namespace",
    default="",
    help="Of objects in files that name none; of the objects that are read from a hub.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Read all namespaces of the hub.")
@click.option(
    "-l", "--selector", default="", help="Only objects with these labels; rules are read anyhow."
)
@click.option(
    "--lossy", is_flag=True, help="Print also where something that was asked for is lost."
)
@click.option(
    "--report",
    default="",
    metavar="FILE",
    help="Write the fate of each field into this file, as JSON.",
)
def import_(
    files: tuple[str, ...],
    more: tuple[str, ...],
    system: str | None,
    kubeconfig: str | None,
    context: str | None,
    all_namespaces: bool,
    **asked: Any,
) -> None:
    """Turn objects of other systems that place workloads into Stowage's; touch nothing.

    They are Karmada, OCM, KubeFleet, KubeFed, Argo CD, OpenKruise, Kosmos, Koordinator and
    scheduler-plugins. The YAML goes to standard output. Notes on standard error say of each field
    that changed what became of it. Where something cannot be kept true, nothing is printed and the
    exit code is 1.
    """
    from stowage.importing import command

    if bool(files or more) == bool(system):
        raise click.UsageError("give files by -f, or a hub by --from, and one of the two")
    if not system and (kubeconfig or context or all_namespaces):
        raise click.UsageError("--kubeconfig, --context and -A are for --from")
    if not system:
        command.run(command.Asked((*files, *more), **asked))
        return
    from stowage.hub import connection
    from stowage.importing import live

    hub = connection(kubeconfig, context)
    space = "" if all_namespaces else asked["namespace"] or hub.namespace
    command.run(command.Asked(documents=live.read(system, hub, space), **asked))


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
