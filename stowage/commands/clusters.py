"""`stowage cordon`, `uncordon` and `clean`: what a person does with single clusters."""

from __future__ import annotations

import click

from stowage.commands.options import CLUSTER, SYSTEM, HubOptions, hub_options, with_hub


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
    from stowage.setup import cordon as cordoning

    with_hub(hub.written(), lambda api: cordoning.cordon(api, clusters, wanted=wanted))


@click.command()
@click.option("--member-kubeconfig", type=click.Path(exists=True), required=True)
@click.option("--member-context", help="The context in the member's kubeconfig.")
@SYSTEM
@click.option("--yes", is_flag=True, help="Without asking.")
def clean(
    member_kubeconfig: str, member_context: str | None, system_namespace: str, yes: bool
) -> None:
    """Remove what join made on a member that is unjoined, or whose hub is gone.

    It shows what would go, and asks. It refuses while a hub serves the member, as the hub's Lease
    there tells. What Workloads run there stays.
    """
    from datetime import UTC, datetime

    from stowage.setup import clean as cleaning

    def confirmed() -> bool:
        return yes or click.confirm("Remove them?")

    member = HubOptions(member_kubeconfig, member_context).written(called="member")
    with_hub(
        member,
        lambda api: cleaning.clean(
            api, system_namespace, now=datetime.now(UTC), confirmed=confirmed
        ),
    )
