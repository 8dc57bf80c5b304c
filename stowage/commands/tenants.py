"""`stowage tenant add`, `remove` and `list`: the namespaces whose Secrets may be read."""

from __future__ import annotations

import click

from stowage.commands.options import (
    OUTPUT,
    hub_connection,
    hub_options,
    with_hub,
    written_connection,
)
from stowage.console.output import manifests
from stowage.console.terminal import say


@click.group()
def tenant() -> None:
    """Name the namespaces of the hub whose Secrets Stowage may read."""


@tenant.command()
@click.argument("namespaces", nargs=-1, required=True, metavar="NAMESPACE...")
@hub_options
@click.option("--dry-run", is_flag=True, help="Print what would be applied.")
def add(
    namespaces: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    dry_run: bool,
) -> None:
    """Let Workloads there bring Secrets along, and Reservations hold: Member."""
    from stowage.setup import tenants  # noqa: PLC0415 - see stowage.cli

    if dry_run:
        for each in namespaces:
            tenants.refuse(each)
        made = [made for each in namespaces for made in tenants.bindings(each, home=namespace)]
        manifests(made)
        return
    with_hub(
        written_connection(kubeconfig, context),
        lambda hub: tenants.add(hub, namespaces, home=namespace, say=say),
    )


@tenant.command()
@click.argument("namespaces", nargs=-1, required=True, metavar="NAMESPACE...")
@hub_options
def remove(
    namespaces: tuple[str, ...], kubeconfig: str | None, context: str | None, namespace: str
) -> None:
    """Take the rights back; what lies on members stays as it is."""
    from stowage.setup import tenants  # noqa: PLC0415 - see stowage.cli

    with_hub(
        written_connection(kubeconfig, context),
        lambda hub: tenants.remove(hub, namespaces, home=namespace, say=say),
    )


@tenant.command("list")
@hub_options
@OUTPUT
def list_(kubeconfig: str | None, context: str | None, namespace: str, output: str) -> None:
    """Show the tenants, and the namespaces in which something waits to be in one."""
    from dataclasses import asdict  # noqa: PLC0415 - see stowage.cli
    from typing import Any  # noqa: PLC0415 - as above

    from stowage.console.output import show, table  # noqa: PLC0415 - as above
    from stowage.setup import tenants  # noqa: PLC0415 - as above

    async def whole(hub: Any) -> None:
        those = await tenants.found(hub, home=namespace)
        rows = [
            {**asdict(each), "tenant": each.tenant or those.everywhere} for each in those.namespaces
        ]
        text = table(rows, ("namespace", "tenant", "workloads", "reservations", "clusters"))
        if those.everywhere:
            text = f"Every namespace is a tenant.\n{text}"
        show({"allNamespaces": those.everywhere, "namespaces": rows}, output, text=text)

    with_hub(hub_connection(kubeconfig, context), whole)
