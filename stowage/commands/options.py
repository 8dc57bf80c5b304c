"""Options that several commands share, the connections that they name, and what arguments name."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from stowage.console.terminal import say

if TYPE_CHECKING:
    from machinery.config.kubeconfig import Connection
    from stowage.kinds import Reference
    from stowage.planning.plan import Where

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}

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


def written_connection(
    kubeconfig: str | None, context: str | None, *, called: str = "hub"
) -> Connection:
    """Return the same, and name context and server, for commands that write there."""
    found = hub_connection(kubeconfig, context)
    by = f"context {found.context}" if found.context else "the pod's service account"
    say(f"{called}: {found.server} ({by})", err=True)
    return found


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


def _seconds(_: click.Context, option: click.Parameter, text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smh]?)", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no time such as 90s, 30m or 2h", param=option)
    return float(found[1]) * _UNITS[found[2]]


TIMEOUT = click.option(
    "--timeout", default="30m", show_default=True, callback=_seconds, help="For how long to wait."
)


def named(given: tuple[str, ...]) -> Reference:
    """Return the object that arguments name, as `wl/NAME`."""
    from stowage.kinds import reference  # noqa: PLC0415 - see stowage.cli

    try:
        return reference(given)
    except ValueError as e:
        raise click.UsageError(str(e)) from e


def workload_name(given: tuple[str, ...], what: str) -> str:
    """Return the name of the Workload that arguments name; `what` is done with Workloads alone."""
    from machinery.api.resources import WORKLOADS  # noqa: PLC0415 - see stowage.cli

    found = named(given)
    if found.resource != WORKLOADS:
        raise click.UsageError(f"{'/'.join(given)}: only Workloads are {what}, as wl/NAME")
    return found.name


class _NotLooked(click.ClickException):
    """The hub could not be asked. Exits with 2, because 1 says that something needs a person."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        del file
        say(f"error: {self.message}", err=True)


@contextmanager
def looking() -> Iterator[None]:
    """Exit with 2 on a foreseen fault."""
    from machinery.errors import StowageError  # noqa: PLC0415 - see stowage.cli

    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except (StowageError, OSError) as e:
        raise _NotLooked(str(e)) from e
