"""`stowage drain`, `taint`, `rebalance`, `simulate`: replicas move, or are seen to before that."""

from __future__ import annotations

import click

from stowage.commands.options import (
    CLUSTER,
    CONFIG,
    OUTPUT,
    PLUGINS,
    REFERENCE,
    TIMEOUT,
    HubOptions,
    files_option,
    fleet_options,
    hub_options,
    object_options,
    with_hub,
    workload_name,
)
from stowage.console.terminal import say


@click.command()
@click.argument("cluster", type=CLUSTER)
@hub_options
@click.option("--dry-run", is_flag=True, help="Only tell what would leave, and where to.")
@click.option(
    "--undo", is_flag=True, help="Take a drain back; a Single Workload stays where it went."
)
@click.option("--force", is_flag=True, help="Pass over the PodDisruptionBudgets of the member.")
@click.option(
    "--wait",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=True,
    show_default=True,
    help="Show how it goes until it is drained.",
)
@TIMEOUT
@CONFIG
@PLUGINS
@OUTPUT
@click.pass_context
def drain(
    command: click.Context,
    cluster: str,
    hub: HubOptions,
    dry_run: bool,
    undo: bool,
    force: bool,
    wait: bool,
    timeout: float,
    output: str,
) -> None:
    """Cordon a cluster, and have what runs there go elsewhere.

    Exit code 0 when it is drained, 1 on a time-out or when all that is left is blocked.
    """
    from stowage.simulation import drain as draining

    if undo and (dry_run or force):
        raise click.UsageError("--undo takes a drain back: leave --dry-run and --force out")
    if dry_run:
        command.exit(0 if draining.preview(cluster, hub.where(), output) else 1)
    if output != "table":
        raise click.UsageError("-o is for --dry-run: leave it out")
    if undo:
        with_hub(hub.written(), lambda api: draining.undo(api, cluster), moves=True)
        return
    asked = draining.Drain(cluster=cluster, force=force, wait=wait, seconds=timeout)
    told = (
        f"a drain that has begun goes on; `stowage drain {cluster}` shows it again, and "
        f"`stowage drain {cluster} --undo` takes it back"
    )
    done = with_hub(
        hub.written(), lambda api: draining.drain(api, asked), interrupted=told, moves=True
    )
    command.exit(0 if done else 1)


@click.command()
@click.argument("cluster", type=CLUSTER)
@click.argument("taints", nargs=-1, required=True, metavar="KEY[=VALUE]:EFFECT|KEY[:EFFECT]-...")
@hub_options
def taint(cluster: str, taints: tuple[str, ...], hub: HubOptions) -> None:
    """Set taints of a cluster, or remove them; all others stay."""
    from stowage.setup import taint as tainting

    edits = [tainting.TaintEdit.of(each) for each in taints]
    with_hub(hub.written(), lambda api: tainting.taint(api, cluster, edits), moves=True)


@click.command()
@click.argument("references", nargs=-1, type=REFERENCE, metavar="[wl/NAME]...")
@click.option("--all", "everything", is_flag=True, help="All Workloads of the namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All Workloads of the hub.")
@object_options("Of the Workloads; the context's.")
@click.option("--dry-run", is_flag=True, help="Only tell what would move.")
@CONFIG
@PLUGINS
@OUTPUT
def rebalance(
    references: tuple[str, ...],
    everything: bool,
    all_namespaces: bool,
    hub: HubOptions,
    dry_run: bool,
    output: str,
) -> None:
    """Plan Workloads anew, once, and have their replicas move to where that plan wants them."""
    from machinery.clock import SystemClock
    from stowage.console import output as printing
    from stowage.simulation import rebalance as balance

    names = [workload_name((each,), "rebalanced") for each in references]
    if bool(names) + everything + all_namespaces != 1:
        raise click.UsageError(
            "say which Workloads: their names as wl/NAME, --all for those of the namespace, or -A "
            "for all of the hub"
        )
    found = balance.planned(hub.where(), names, everywhere=all_namespaces, clock=SystemClock())
    for note in found.notes:
        say(f"note: {note}", err=True)
    if not dry_run:
        with_hub(hub.written(), lambda api: balance.request(api, found), moves=True)
    verb = "would move" if dry_run else "move"
    printing.show(found.to_dict(), output, text=found.table(verb=verb))


@click.command()
@click.option(
    "--lose",
    multiple=True,
    metavar="CLUSTER|KEY=VALUE",
    help="A cluster that answers no more, or all with a label; may be given again.",
)
@click.option(
    "--cordon",
    type=CLUSTER,
    multiple=True,
    metavar="CLUSTER",
    help="A cluster that nothing new comes to.",
)
@click.option(
    "--drain", type=CLUSTER, multiple=True, metavar="CLUSTER", help="A cluster that is drained."
)
@click.option("--add", multiple=True, metavar="FILE", help="MemberClusters that come.")
@click.option(
    "--scale",
    multiple=True,
    metavar="NAMESPACE/WORKLOAD=REPLICAS",
    help="Other numbers of replicas.",
)
@files_option("Files that are applied", required=False)
@click.option(
    "--each",
    is_flag=False,
    flag_value="stowage.dev/cluster",
    default="",
    metavar="[KEY]",
    help="Lose the clusters of each value of this label by themselves, a row for each; without a "
    "key each cluster.",
)
@fleet_options
@click.pass_context
def simulate(
    command: click.Context,
    lose: tuple[str, ...],
    cordon: tuple[str, ...],
    drain: tuple[str, ...],
    add: tuple[str, ...],
    scale: tuple[str, ...],
    files: tuple[str, ...],
    each: str,
    hub: HubOptions,
    output: str,
) -> None:
    """Show where replicas would go if all of this happened at once; touch nothing.

    Exit code 0 when every replica has a place then, 1 when one has none.
    """
    from stowage.simulation import simulate as simulation

    if not (lose or cordon or drain or add or scale or files or each):
        options = "--lose, --cordon, --drain, --add, --scale, -f or --each"
        raise click.UsageError(f"say what happens: {options}")
    lose = tuple(each if "=" in each else CLUSTER.convert(each, None, None) for each in lose)
    where = hub.where()
    try:
        units = simulation.scales(scale, where.namespace)
    except ValueError as e:
        raise click.UsageError(f"--scale: {e}") from e
    scenario = simulation.Scenario(
        lose=lose, cordon=cordon, drain=drain, add=add, scale=units, files=files, each=each
    )
    command.exit(0 if simulation.show(scenario, where, output) else 1)
