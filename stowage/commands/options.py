"""Options that several commands share, the connections that they name, and what arguments name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from stowage.commands import completing
from stowage.console.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from machinery.config.kubeconfig import Connection
    from stowage.kinds import Reference
    from stowage.simulation.plan import Where

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
Found = TypeVar("Found")
HOME = "stowage-system"
_BEGUN = "stowage.begun"
"""In the `meta` of a context: something may have been written."""
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,3})?"


class _Path(click.Path):
    """A path, given as a `Path`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from pathlib import Path

        return Path(os.fsdecode(super().convert(value, param, ctx)))


PATH = _Path()
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print.",
)
OBJECTS = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "name", "json", "yaml"]),
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
CONFIG = click.option("--config", "config_file", type=PATH, help="A SchedulerConfiguration.")
_HUB = (
    click.option("--kubeconfig", type=click.Path(), help="The hub's kubeconfig file."),
    click.option("--context", help="The context in it.", shell_complete=completing.contexts),
)
SYSTEM = click.option(
    "--system-namespace", default=HOME, show_default=True, help="Where Stowage lives."
)
FLEET = click.option(
    "--fleet",
    multiple=True,
    metavar="FILE",
    help="MemberClusters, and Workloads that are there, in files: no hub is asked.",
)


def files_option(help_text: str, *, required: bool = True) -> Decorator:
    """Add `-f`, given as `files`."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        metavar="FILE",
        help=f"{help_text}; may be given again.",
    )


@dataclass(frozen=True, slots=True)
class HubOptions:
    """The hub or the files that a command is about, and the profiles that decide.

    `namespace` is that of the objects, None where it was left out; `system_namespace` is where
    Stowage lives.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    system_namespace: str = HOME
    fleet: tuple[str, ...] = ()
    config_file: Path | None = None
    plugins: tuple[str, ...] = ()

    def connection(self) -> Connection:
        """Return how to reach the hub. Raises ConfigurationError."""
        from machinery.config import hub_config
        from stowage.hub import guarded

        return guarded(hub_config.hub_connection(kubeconfig=self.kubeconfig, context=self.context))

    def written(self, *, called: str = "hub") -> Connection:
        """Return the connection, and print it, for commands that write."""
        found = self.connection()
        by = f"context {found.context}" if found.context else "the pod's service account"
        say(f"{called}: {found.server} ({by})", err=True)
        return found

    def quick(self) -> Connection:
        """Return the connection without slow imports, for commands that only read."""
        from stowage.hub import connection

        return connection(self.kubeconfig, self.context)

    def where(self) -> Where:
        """Return what a plan reads: the files, or else the hub."""
        from stowage.simulation.plan import Where

        hub = None if self.fleet else self.quick()  # it is only read
        named = self.namespace or (hub.namespace if hub else "default")
        return Where(named, self.fleet, hub, self.config_file, self.plugins)


_FIELDS = frozenset(each.name for each in fields(HubOptions))


def _handed_over(*options: Decorator) -> Decorator:
    """Return a decorator that adds these options, and hands them over as `hub`."""

    def add(command: Command) -> Command:
        @wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            said = {name: given.pop(name) for name in _FIELDS & given.keys()}
            return command(*args, hub=HubOptions(**said), **given)

        handing: Command = run
        for option in reversed(options):
            handing = option(handing)
        return handing

    return add


hub_options = _handed_over(*_HUB)
home_options = _handed_over(*_HUB, SYSTEM)


def _namespace(text: str) -> Decorator:
    return click.option("-n", "--namespace", help=text, shell_complete=completing.namespaces)


def object_options(namespace: str) -> Decorator:
    """Add the options of the hub, and a namespace of objects with that help text."""
    return _handed_over(*_HUB, _namespace(namespace))


fleet_options = _handed_over(
    *_HUB,
    _namespace("Of Workloads that name none; the context's."),
    FLEET,
    CONFIG,
    PLUGINS,
    OUTPUT,
)


def with_hub(
    connection: Connection,
    use: Callable[[Any], Coroutine[Any, Any, Found]],
    *,
    interrupted: str = "",
    moves: bool = False,
) -> Found:
    """Run the coroutine that `use` makes of a client of that API server.

    If it `moves` Workloads, a note says so where no process would see to it.
    Ctrl-C ends it with exit code 130, and prints `interrupted`: what goes on without the command,
    and the command that takes it back.
    """
    import asyncio

    from machinery.api.client import ApiClient
    from machinery.errors import StowageError
    from stowage.hub import at_server

    async def whole() -> Found:
        async with ApiClient(connection, name="hub") as client:
            if moves:
                await _note_unled(client)
            return await use(client)

    try:
        with interruptible(interrupted):
            return asyncio.run(whole())
    except StowageError as e:
        if (fault := at_server(e, connection)) is not None:
            raise fault from e
        raise


@contextmanager
def interruptible(told: str) -> Iterator[None]:
    """Have Ctrl-C print this, where something may have been written by now."""
    if (command := click.get_current_context(silent=True)) is not None:
        command.meta[_BEGUN] = True
    try:
        yield
    except KeyboardInterrupt:
        raise _Interrupted(told) from None


async def _note_unled(client: Any) -> None:
    from datetime import UTC, datetime

    from stowage.report import fleet

    for note in (await fleet.unled(client, datetime.now(UTC))).values():
        say(f"note: {note}", err=True)


def duration(_: click.Context, option: click.Parameter, text: str) -> float:
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if not re.fullmatch(f"({_NUMBER}(ms|s|m|h))+", text):
        raise click.BadParameter(f"{text!r} is no time such as 30s, 5m or 1h30m", param=option)
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(f"({_NUMBER})(ms|s|m|h)", text))


def pairs(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in texts if not text.partition("=")[0] or "=" not in text]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not of the form key=value", param=option)
    return dict(text.split("=", 1) for text in texts)


def timeout_option(default: str) -> Decorator:
    """Add `--timeout`: a duration as kubectl takes it, or plain seconds."""
    return click.option(
        "--timeout",
        default=default,
        show_default=True,
        callback=duration,
        metavar="DURATION",
        help="For how long to wait, as 30s or 5m.",
    )


TIMEOUT = timeout_option("30m")


class _Name(click.ParamType[str]):
    """The name of an object of one kind, as `NAME` or, as kubectl prints it, `kind/NAME`."""

    name = "text"

    def __init__(self, *kinds: str, names: Completing) -> None:
        self._kinds = kinds
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._names(ctx, param, incomplete)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        kind, slash, name = value.rpartition("/")
        if slash and (kind.partition(".")[0].lower() not in self._kinds or not name):
            self.fail(f"{value!r} is not NAME or {self._kinds[0]}/NAME", param, ctx)
        return name


class Commands(click.Group):
    """A group that prints the first sentence of each command whole; click cuts it at the width.

    Ctrl-C before a command is `interruptible` says that nothing was written.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            told = "" if ctx.meta.get(_BEGUN) else "nothing was written"
            raise _Interrupted(told) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = {name: each for name, each in sorted(self.commands.items()) if not each.hidden}
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(limit=200)) for name, each in shown.items()]
            )


CLUSTER = _Name("mc", "memberclusters", "membercluster", names=completing.clusters)
NAMESPACE = _Name("ns", "namespaces", "namespace", names=completing.namespaces)
REFERENCE = completing.ObjectName()
"""`wl/NAME`, or `rsv/NAME` and others where the command takes them."""


def named(given: tuple[str, ...]) -> Reference:
    """Return the object that arguments name, as `wl/NAME`."""
    from stowage.kinds import reference

    try:
        return reference(given)
    except ValueError as e:
        raise click.UsageError(str(e)) from e


def workload_name(given: tuple[str, ...], what: str) -> str:
    """Return the name of the Workload that arguments name; `what` is done with Workloads alone."""
    from machinery.api.resources import WORKLOADS

    found = named(given)
    if found.resource != WORKLOADS:
        raise click.UsageError(f"{'/'.join(given)}: only Workloads are {what}, as wl/NAME")
    return found.name


def member_files(name: str) -> Decorator:
    """Return the option that names files of members, given as a mapping in the argument `name`."""
    return click.option(
        "--member-kubeconfig",
        name,
        multiple=True,
        metavar="NAME=FILE",
        callback=_files,
        help="Your kubeconfig of a member; without it, the context of its name in the hub's.",
    )


def _files(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        member, _sign, file = text.partition("=")
        if not (member and file):
            raise click.BadParameter(f"{text!r} is not of the form NAME=FILE", param=option)
    return dict(text.split("=", 1) for text in texts)


class _Interrupted(click.ClickException):
    """Somebody pressed Ctrl-C: exits as a shell tells it of a command that SIGINT ended."""

    exit_code = 130

    def show(self, file: IO[Any] | None = None) -> None:
        del file
        say(f"\ninterrupted: {self.message}" if self.message else "\ninterrupted", err=True)


class _NotLooked(click.ClickException):
    """The hub could not be asked: exits with 2, as 1 says that something needs a person."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        del file
        say(f"error: {self.message}", err=True)


@contextmanager
def looking() -> Iterator[None]:
    """Exit with 2 on a foreseen fault."""
    from machinery.errors import StowageError

    try:
        yield
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except (StowageError, OSError) as e:
        raise _NotLooked(str(e)) from e
