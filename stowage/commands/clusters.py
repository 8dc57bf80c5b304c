"""`stowage cordon`, `uncordon` and `clean` for single clusters, and `shards` for all of them."""

from __future__ import annotations

from typing import Any

import click

from stowage.commands.options import (
    CLUSTER,
    OUTPUT,
    SYSTEM,
    HubOptions,
    home_options,
    hub_options,
    with_hub,
)


@click.command()
@click.argument("clusters", nargs=-1, required=True, type=CLUSTER, metavar="CLUSTER...")
@hub_options
def cordon(clusters: tuple[str, ...], hub: HubOptions) -> None:
    """Have no new replicas go to clusters; what runs there stays."""
    _cordon(hub, clusters, wanted=True)


@click.command()
@click.argument("clusters", nargs=-1, required=True, type=CLUSTER, metavar="CLUSTER...")
@hub_options
def uncordon(clusters: tuple[str, ...], hub: HubOptions) -> None:
    """Have new replicas go to clusters again.

    A drain goes on: `stowage drain CLUSTER --undo` takes that back, with its cordon.
    """
    _cordon(hub, clusters, wanted=False)


def _cordon(hub: HubOptions, clusters: tuple[str, ...], *, wanted: bool) -> None:
    from stowage.setup import taint

    with_hub(hub.written(), lambda api: taint.cordon(api, clusters, wanted=wanted))


@click.command()
@click.option("--member-kubeconfig", type=click.Path(exists=True), required=True)
@click.option("--member-context", help="The context in the member's kubeconfig.")
@SYSTEM
@click.option("--hub", "uid", metavar="UID", help="What Workloads of that hub have there, instead.")
@click.option("--claims", is_flag=True, help="With --hub: also what holds data.")
@click.option("--yes", is_flag=True, help="Without asking.")
def clean(
    member_kubeconfig: str,
    member_context: str | None,
    system_namespace: str,
    uid: str | None,
    claims: bool,
    yes: bool,
) -> None:
    """Remove what join made on a member that is unjoined, or whose hub is gone.

    It shows what would go, and asks. It refuses while a hub serves the member, as the hub's Lease
    there tells. What Workloads run there stays, unless --hub names the hub that they are of, by the
    UID of its kube-system: then that goes, and claims are listed and kept.
    """
    from machinery.clock import SystemClock
    from stowage.setup import clean as cleaning
    from stowage.setup import hub_traces

    if claims and not uid:
        raise click.UsageError("--claims is for --hub: say both")

    def confirmed() -> bool:
        return yes or click.confirm("Remove them?")

    now = SystemClock().now
    member = HubOptions(member_kubeconfig, member_context).written(called="member")
    if uid:
        with_hub(
            member,
            lambda api: hub_traces.clean(
                api,
                system_namespace,
                uid,
                claims=claims,
                now=now,
                confirmed=confirmed,
            ),
        )
        return
    with_hub(
        member,
        lambda api: cleaning.clean(api, system_namespace, now=now, confirmed=confirmed),
    )


@click.command()
@click.argument("number", required=False, type=click.IntRange(1, 64), metavar="[N]")
@click.option("--dry-run", is_flag=True, help="Show which members would change their shard.")
@OUTPUT
@home_options
@click.pass_context
def shards(
    command: click.Context, number: int | None, dry_run: bool, output: str, hub: HubOptions
) -> None:
    """Show the shards of the propagator, or set how many there are.

    Each shard is a process that serves its part of the members. With N, the Deployment gets a
    process more than shards. The exit code is 1 where a shard has no holder, or the ConfigMap with
    the number is gone or says none.
    """
    from stowage.console.output import show, table
    from stowage.console.terminal import say
    from stowage.setup import shards as sharding

    if number is not None and not dry_run:

        async def write(api: Any) -> None:
            await sharding.set_number(api, hub.system_namespace, number, say=say)

        with_hub(hub.written(), write)
        return

    async def look(api: Any) -> None:
        found = await sharding.read(api, hub.system_namespace)
        loads = sharding.Loads()
        if output == "table":  # programs are told neither
            loads = await sharding.loads(api, hub.system_namespace, found.shards)
        columns = ["shard", "holder", "term", "members", "workloads", "memory", "state"]
        lines = [table(sharding.table_rows(found, number, loads), columns)]
        if number is not None:
            lines.append(
                f"{found.moved(number):,} of {len(found.members):,} members change their shard; "
                "nothing on a member is written for it"
            )
        if found.fault:
            lines.append(found.fault)
        show(found.to_dict(number), output, text="\n".join(lines))
        unheld = any(each["state"] == "Unheld" for each in found.rows())
        command.exit(1 if number is None and (unheld or found.fault) else 0)

    with_hub(hub.connection(), look)
