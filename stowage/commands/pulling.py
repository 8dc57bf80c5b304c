"""`stowage invite`, `revoke` and `agents`: members whose agent connects to the hub."""

from __future__ import annotations

import functools
from typing import Any

import click

from stowage.commands.options import (
    CLUSTER,
    OUTPUT,
    Commands,
    HubOptions,
    duration,
    home_options,
    pairs,
    with_hub,
)
from stowage.console.terminal import say


@click.command()
@click.argument("name", type=CLUSTER)
@home_options
@click.option(
    "--ttl",
    "seconds",
    default="1h",
    show_default=True,
    callback=duration,
    metavar="DURATION",
    help="How long it is good.",
)
@click.option("--renew", is_flag=True, help="End the present agent's credential, and invite anew.")
@click.option("--hub-server", metavar="URL", help="The hub's address as the member reaches it.")
@click.option("--proxy", metavar="URL", help="The proxy of the member on the way to the hub.")
@click.option("--image", help="The agent's image.  [default: that of this release]")
def invite(
    name: str,
    hub: HubOptions,
    seconds: float,
    renew: bool,
    hub_server: str | None,
    proxy: str | None,
    image: str | None,
) -> None:
    """Print what a member applies to join by itself: an agent, its rights, and an invitation.

    The invitation is a secret until the agent has used it, which it can once. For a member that has
    its agent, --hub-server tells that agent another address, and nothing is printed.
    """
    from machinery.config.address import check_proxy
    from machinery.errors import ConfigurationError
    from stowage.console import output
    from stowage.setup import agent_manifests, install, pull

    try:
        check_proxy(proxy or "https://proxy")
    except ValueError as e:
        raise ConfigurationError(f"--proxy: it {e}") from e
    plan = pull.Invite(
        name=name,
        namespace=hub.system_namespace,
        seconds=pull.checked_ttl(seconds),
        renew=renew,
        server=hub_server,
    )
    told = functools.partial(say, err=True)
    invited = with_hub(hub.written(), lambda api: pull.invite(api, plan, say=told))
    if invited.token:
        named = image or install.default_image()
        agent = pull.agent(plan, invited, image=named, proxy=proxy or "")
        output.manifests([*agent_manifests.rights(plan.namespace), *agent])


@click.command()
@click.argument("name", type=CLUSTER)
@home_options
def revoke(name: str, hub: HubOptions) -> None:
    """End the credential of a member's agent; what runs there goes on."""
    from stowage.setup import pull

    with_hub(hub.written(), lambda api: pull.revoke(api, name, say=say))


@click.group(cls=Commands, invoke_without_command=True)
@home_options
@OUTPUT
@click.pass_context
def agents(command: click.Context, hub: HubOptions, output: str) -> None:
    """Show the agents of members in mode Pull, or have them run another image."""
    from datetime import UTC, datetime

    from stowage.console.output import show, table
    from stowage.setup import pull

    if (below := command.invoked_subcommand) is not None:
        default = click.core.ParameterSource.DEFAULT
        if any(command.get_parameter_source(each) is not default for each in command.params):
            # Else the command below would go to another hub than was said.
            raise click.UsageError(f"options of {below} come after it: stowage agents {below} …")
        return
    rows = with_hub(hub.connection(), lambda api: pull.agents(api, datetime.now(UTC)))
    shown = [
        {
            "name": each["name"],
            "release": each["release"] or "-",
            "state": each["state"] or "-",
            "silent": "-" if each["silentSeconds"] is None else f"{each['silentSeconds']}s",
            "token ends": each["tokenEnds"] or "-",
        }
        for each in rows
    ]
    columns = ("name", "release", "state", "silent", "token ends")
    none = "no member is in mode Pull: `stowage invite NAME` prints what one applies"
    show({"agents": rows}, output, text=table(shown, columns) if rows else none)


@agents.command()
@home_options
@click.option("--image", required=True, help="The image that the agents shall run.")
@click.option(
    "--label", "labels", multiple=True, metavar="K=V", callback=pairs, help="Of the members."
)
def upgrade(hub: HubOptions, image: str, labels: dict[str, str]) -> None:
    """Have agents run another image; one that cannot start it goes on as it is."""
    from stowage.setup import pull

    async def run(api: Any) -> None:
        if not await pull.upgrade(api, image, labels, say=say):
            say("no member in mode Pull has these labels")

    with_hub(hub.written(), run)
