"""`stowage tenant add`, `remove` and `list`: the namespaces whose Secrets may be read."""

from __future__ import annotations

import click

from stowage.commands.options import (
    NAMESPACE,
    OBJECTS,
    Commands,
    HubOptions,
    home_options,
    with_hub,
)
from stowage.console.terminal import say


@click.group(cls=Commands)
def tenant() -> None:
    """Name the namespaces of the hub whose Secrets Stowage may read."""


@tenant.command()
@click.argument("namespaces", nargs=-1, required=True, type=NAMESPACE, metavar="NAMESPACE...")
@home_options
@click.option("--dry-run", is_flag=True, help="Print what would be applied.")
def add(
    namespaces: tuple[str, ...],
    hub: HubOptions,
    dry_run: bool,
) -> None:
    """Let Workloads there bring Secrets along, and Reservations hold: Member."""
    from stowage.console import output
    from stowage.setup import tenants

    if dry_run:
        for each in namespaces:
            tenants.refuse(each)
        made = [
            made
            for each in namespaces
            for made in tenants.bindings(each, home=hub.system_namespace)
        ]
        output.manifests(made)
        return
    with_hub(
        hub.written(),
        lambda api: tenants.add(api, namespaces, home=hub.system_namespace, say=say),
    )


@tenant.command()
@click.argument("namespaces", nargs=-1, required=True, type=NAMESPACE, metavar="NAMESPACE...")
@home_options
def remove(namespaces: tuple[str, ...], hub: HubOptions) -> None:
    """Take the rights back; what lies on members stays as it is."""
    from stowage.setup import tenants

    with_hub(
        hub.written(),
        lambda api: tenants.remove(api, namespaces, home=hub.system_namespace, say=say),
    )


@tenant.command("list")
@home_options
@OBJECTS
def list_(hub: HubOptions, output: str) -> None:
    """Show the tenants, and the namespaces in which something waits to be in one."""
    from dataclasses import asdict
    from typing import Any

    from stowage.console.output import named_objects, show, table
    from stowage.setup import tenants

    async def whole(api: Any) -> None:
        those = await tenants.found(api, home=hub.system_namespace)
        rows = [
            {**asdict(each), "tenant": each.tenant or those.everywhere} for each in those.namespaces
        ]
        if output == "name":
            named_objects("namespace", [each["namespace"] for each in rows])
            return
        text = table(rows, ("namespace", "tenant", "workloads", "reservations", "clusters"))
        if those.everywhere:
            text = f"Every namespace is a tenant.\n{text}"
        show({"allNamespaces": those.everywhere, "namespaces": rows}, output, text=text)

    with_hub(hub.connection(), whole)
