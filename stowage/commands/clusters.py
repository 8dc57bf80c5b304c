"""`stowage cordon` and `uncordon`: what a person says of single clusters."""

from __future__ import annotations

import click

from stowage.commands.options import CLUSTER, HubOptions, hub_options, with_hub


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
