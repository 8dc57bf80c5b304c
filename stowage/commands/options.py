"""Options that several commands share, and the connections that they name."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from machinery.config.kubeconfig import Connection
    from stowage.planning.plan import Where

HUB_OPTIONS = (
    click.option("--kubeconfig", type=click.Path(), help="The hub's kubeconfig file."),
    click.option("--context", help="The context in it."),
    click.option("-n", "--namespace", default="stowage-system", help="Where Stowage lives."),
)


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(HUB_OPTIONS):
        command = option(command)
    return command


def hub_options_of(namespace: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options that name the hub, and a namespace of objects with that help text."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("-n", "--namespace", help=namespace),
            *reversed(HUB_OPTIONS[:2]),
        ):
            command = option(command)
        return command

    return add


OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print.",
)
PLUGINS = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:FACTORY",
    help="A plugin that no installed package offers; may be given again.",
)
CONFIG = click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A SchedulerConfiguration."
)
WHERE = (
    *HUB_OPTIONS[:2],
    click.option("-n", "--namespace", help="Of Workloads that name none; the context's."),
    click.option(
        "--fleet",
        multiple=True,
        metavar="FILE",
        help="MemberClusters, and Workloads that are there, in files: no hub is asked.",
    ),
    CONFIG,
    PLUGINS,
    OUTPUT,
)


def where_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Where`, and how to print."""
    for option in reversed(WHERE):
        command = option(command)
    return command


def where_of(
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    fleet: tuple[str, ...],
    config_file: Path | None,
    plugins: tuple[str, ...],
) -> Where:
    """Return what these options name: a hub, or files."""
    from stowage.planning.plan import Where  # noqa: PLC0415 - see stowage.cli

    hub = None if fleet else quick_connection(kubeconfig, context)  # it is only read
    named = namespace or (hub.namespace if hub else "default")
    return Where(named, fleet, hub, config_file, plugins)


def hub_connection(kubeconfig: str | None, context: str | None) -> Connection:
    """Return how to reach the cluster that these options name.

    Raises KubeconfigError, and ConfigurationError where a credential would go over plain http.
    """
    from machinery.config import hub_config  # noqa: PLC0415 - slow, see the module
    from stowage.setup.credentials import guarded  # noqa: PLC0415 - see stowage.cli

    return guarded(hub_config.hub_connection(kubeconfig=kubeconfig, context=context))


def quick_connection(kubeconfig: str | None, context: str | None) -> Connection:
    """Return the same, without slow imports, for commands that only read."""
    from stowage.hub.connection import connection  # noqa: PLC0415 - see stowage.cli

    return connection(kubeconfig, context)


def with_hub(connection: Connection, use: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    import asyncio  # noqa: PLC0415 - see stowage.cli

    from machinery.api.client import ApiClient  # noqa: PLC0415 - as above

    async def whole() -> None:
        async with ApiClient(connection, name="hub") as client:
            await use(client)

    asyncio.run(whole())
