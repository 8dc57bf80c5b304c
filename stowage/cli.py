"""The command line: `stowage`, also `kubectl stowage`.

Thin: each command reads its options, imports what it needs (so that `--help` is quick) and calls
one function. Faults that were foreseen end with one sentence and exit code 1, wrong usage with 2.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from machinery.kubeconfig import Connection

HUB_OPTIONS = (
    click.option("--kubeconfig", type=click.Path(), help="The hub's kubeconfig file."),
    click.option("--context", help="The context in it."),
    click.option("-n", "--namespace", default="stowage-system", help="Where Stowage lives."),
)


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the hub."""
    for option in reversed(HUB_OPTIONS):
        command = option(command)
    return command


def _pairs(_: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    wrong = [text for text in texts if not text.partition("=")[0] or "=" not in text]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not of the form key=value", param=option)
    return dict(text.split("=", 1) for text in texts)


def _resources(
    _: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    for text in texts:
        if not re.fullmatch(r"([a-z0-9.-]+/)?[a-z0-9-]+", text):
            raise click.BadParameter(
                f"{text!r} is not of the form group/resource, such as example.com/widgets",
                param=option,
            )
    return texts


def main() -> None:
    """Run the command and exit: 0 done, 1 could not be done, 2 wrong usage."""
    from machinery.errors import StowageError  # noqa: PLC0415 - --help needs none of it

    known: list[BaseException] = []
    try:
        cli(prog_name=Path(sys.argv[0]).name.replace("__main__.py", "stowage"))
    except* (StowageError, OSError) as faults:
        known += _flat(faults)
    for fault in known:
        click.echo(f"error: {fault}", err=True)
    if known:
        sys.exit(1)


def _flat(faults: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    """The faults themselves: tasks that run side by side fail as groups, which may be nested."""
    for fault in faults.exceptions:
        if isinstance(fault, BaseExceptionGroup):
            yield from _flat(fault)
        else:
            yield fault


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Places workloads across a fleet of Kubernetes clusters, and says why."""


@cli.command()
@hub_options
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A SchedulerConfiguration."
)
@click.option(
    "-s",
    "--debug-scores",
    type=click.IntRange(0, 999_999_999),
    default=0,
    help="Rows of scores that each decision logs.",
)
@click.option("--http-host", default="127.0.0.1", help="Beyond loopback, debug asks for a token.")
@click.option("--http-port", default=10251, help="0 chooses a free one.")
@click.option("-v", "--verbosity", default=0, help="From 4 on, everything is logged.")
def controller(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    config_file: Path | None,
    debug_scores: int,
    http_host: str,
    http_port: int,
    verbosity: int,
) -> None:
    """Run the scheduler: decide which clusters run how many replicas."""
    from controller import app  # noqa: PLC0415 - see the module

    settings = app.ControllerSettings(
        connection=_hub(kubeconfig, context),
        config_file=config_file,
        debug_scores=debug_scores,
        http_host=http_host,
        http_port=http_port,
        namespace=namespace,
    )
    _serve(lambda: app.run(settings), verbosity)


@cli.command()
@hub_options
@click.option("--http-host", default="127.0.0.1", help="The address of health and metrics.")
@click.option("--http-port", default=10252, help="0 chooses a free one.")
@click.option("--impersonate", is_flag=True, help="Write as each target namespace's own account.")
@click.option("-v", "--verbosity", default=0, help="From 4 on, everything is logged.")
def propagator(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    http_host: str,
    http_port: int,
    impersonate: bool,
    verbosity: int,
) -> None:
    """Run the propagator: push objects to the members, bring their state back."""
    from propagator import app  # noqa: PLC0415 - see the module
    from propagator.settings import PropagatorSettings, SessionSettings  # noqa: PLC0415

    settings = PropagatorSettings(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        http_host=http_host,
        http_port=http_port,
        sessions=SessionSettings(impersonate=impersonate),
    )
    _serve(lambda: app.run(settings), verbosity)


@cli.command()
@hub_options
@click.option("--dry-run", is_flag=True, help="Print what would be applied.")
@click.option("--crds-only", is_flag=True, help="Only the kinds and their admission policies.")
@click.option("--image", default="stowage:latest", help="The image of both processes.")
def install(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    dry_run: bool,
    crds_only: bool,
    image: str,
) -> None:
    """Install kinds, admission, RBAC and both processes on the hub."""
    from stowage import install as parts  # noqa: PLC0415 - see the module

    manifests = parts.manifests(namespace=namespace, image=image, crds_only=crds_only)
    if dry_run:
        click.echo(parts.as_yaml(manifests), nl=False)
        return
    _with_hub(
        _hub(kubeconfig, context), lambda client: parts.apply(client, manifests, say=click.echo)
    )


@cli.command()
@click.argument("name")
@hub_options
@click.option("--member-kubeconfig", required=True, type=click.Path(exists=True))
@click.option("--member-context", help="The context in the member's kubeconfig.")
@click.option(
    "--label", "labels", multiple=True, metavar="K=V", callback=_pairs, help="A cluster's label."
)
@click.option(
    "--allow",
    multiple=True,
    metavar="[GROUP/]RESOURCE",
    callback=_resources,
    help="A further kind to manage.",
)
@click.option("--impersonate", is_flag=True, help="Let the propagator act as service accounts.")
def join(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    member_kubeconfig: str,
    member_context: str | None,
    labels: dict[str, str],
    allow: tuple[str, ...],
    impersonate: bool,
) -> None:
    """Register a cluster: a narrow service account there, a Secret here."""
    from stowage import membership  # noqa: PLC0415 - see the module

    plan = membership.Join(
        name=name,
        namespace=namespace,
        member=_hub(member_kubeconfig, member_context),
        labels=labels,
        allow=allow,
        impersonate=impersonate,
    )
    _with_hub(_hub(kubeconfig, context), lambda hub: membership.join(hub, plan, say=click.echo))


@cli.command()
@click.argument("name")
@hub_options
@click.option("--member-kubeconfig", type=click.Path(exists=True), help="Clean up there, too.")
@click.option("--member-context", help="The context in the member's kubeconfig.")
@click.option("--force", is_flag=True, help="Also while Workloads have shares there.")
def unjoin(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    member_kubeconfig: str | None,
    member_context: str | None,
    force: bool,
) -> None:
    """Take a cluster out of the fleet."""
    from stowage import membership  # noqa: PLC0415 - see the module

    member = _hub(member_kubeconfig, member_context) if member_kubeconfig else None
    plan = membership.Unjoin(name=name, namespace=namespace, member=member, force=force)
    _with_hub(_hub(kubeconfig, context), lambda hub: membership.unjoin(hub, plan, say=click.echo))


OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print.",
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
    click.option(
        "--config", "config_file", type=click.Path(path_type=Path), help="A SchedulerConfiguration."
    ),
    OUTPUT,
)


def where_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is there, the hub's or in files, and how to print."""
    for option in reversed(WHERE):
        command = option(command)
    return command


@cli.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Workloads: a file, a folder, or - for standard input; may be given again.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@where_options
def plan(
    files: tuple[str, ...],
    more: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    fleet: tuple[str, ...],
    config_file: Path | None,
    output: str,
) -> None:
    """Show what would be placed where if these files were applied; touch nothing."""
    from stowage import plan as planning  # noqa: PLC0415 - see the module

    hub = None if fleet else _hub(kubeconfig, context)
    namespace = namespace or (hub.namespace if hub else "default")
    planning.show((*files, *more), planning.Where(namespace, fleet, hub, config_file), output)


@cli.command()
@click.argument("reference", nargs=-1, required=True, metavar="wl/NAME")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Explain what a plan of these Workloads would decide.",
)
@click.option("--controller", "url", help="Who to ask for the record.  [default: this machine's]")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="The bearer token for a controller that asks for one.",
)
@click.option("--all", "everything", is_flag=True, help="Print every cluster.")
@where_options
def explain(
    reference: tuple[str, ...],
    files: tuple[str, ...],
    url: str | None,
    token_file: Path | None,
    everything: bool,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    fleet: tuple[str, ...],
    config_file: Path | None,
    output: str,
) -> None:
    """Say why a Workload is where it is, cluster by cluster, and what would help the rest."""
    from stowage import explain as explaining  # noqa: PLC0415 - see the module
    from stowage.plan import Where  # noqa: PLC0415

    try:
        name = explaining.reference(reference)
    except ValueError as e:
        raise click.UsageError(str(e)) from e
    hub = None if fleet else _hub(kubeconfig, context)
    namespace = namespace or (hub.namespace if hub else "default")
    explaining.show(
        name,
        Where(namespace, fleet, hub, config_file),
        files=files,
        controller=explaining.controller(url, token_file),
        form=output,
        everything=everything,
    )


@cli.group()
def playground() -> None:
    """A hub and members on this machine."""


DIRECTORY = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=Path(".playground"),
    show_default=True,
    help="Where kubeconfigs, logs and data lie.",
)


@playground.command()
@DIRECTORY
@click.option("--members", default=3, show_default=True, type=click.IntRange(0, 100))
@click.option("--provider", type=click.Choice(["auto", "local", "kind"]), default="auto")
@click.option("--no-run", is_flag=True, help="Do not start controller and propagator.")
@click.option("--image", help="Run both on the hub from this image of the Docker engine (kind).")
@OUTPUT
def up(
    directory: Path,
    members: int,
    provider: str,
    no_run: bool,
    image: str | None,
    output: str,
) -> None:
    """Bring it up, or what of it is missing."""
    from stowage.playground import ground  # noqa: PLC0415 - see the module
    from stowage.progress import Lines  # noqa: PLC0415

    ground.up(
        directory.resolve(),
        members=members,
        provider=provider,
        run=not no_run,
        image=image,
        progress=Lines(),
    )
    _show_playground(directory, output)


@playground.command()
@DIRECTORY
def down(directory: Path) -> None:
    """End it, and remove its data."""
    from stowage.playground import ground  # noqa: PLC0415 - see the module
    from stowage.progress import Lines  # noqa: PLC0415

    ground.down(directory.resolve(), progress=Lines())


@playground.command()
@DIRECTORY
@OUTPUT
def status(directory: Path, output: str) -> None:
    """Say what runs."""
    _show_playground(directory, output)


@playground.command(hidden=True)
@DIRECTORY
def demo(directory: Path) -> None:
    """Apply the examples to a playground that is up, and show what happened."""
    from stowage.playground import demo as show  # noqa: PLC0415 - see the module
    from stowage.progress import Lines  # noqa: PLC0415

    show.run(directory.resolve(), progress=Lines(), out=click.echo)


def _show_playground(directory: Path, form: str) -> None:
    from stowage import output  # noqa: PLC0415 - see the module
    from stowage.playground import ground  # noqa: PLC0415

    found = ground.status(directory.resolve())
    clusters = output.table(found["clusters"], ("name", "role", "ready", "kubeconfig"))
    processes = output.table(found["processes"], ("name", "running", "http", "log"))
    text = f"{clusters}\n\n{processes}" if found["processes"] else clusters
    output.show(found, form, text=text)


def _hub(kubeconfig: str | None, context: str | None) -> Connection:
    from machinery.hubconfig import hub_connection  # noqa: PLC0415 - slow, see the module

    return hub_connection(kubeconfig=kubeconfig, context=context)


def _with_hub(connection: Connection, use: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    from machinery.transport import ApiClient  # noqa: PLC0415 - see the module

    async def whole() -> None:
        async with ApiClient(connection, name="hub") as client:
            await use(client)

    asyncio.run(whole())


def _serve(run: Callable[[], Coroutine[Any, Any, None]], verbosity: int) -> None:
    """Run a process until SIGTERM or SIGINT; a second signal does not wait for anything."""
    from machinery import logs  # noqa: PLC0415 - see the module

    logs.configure(logging.INFO, as_json=not sys.stderr.isatty())
    logs.set_verbosity(verbosity)

    async def whole() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of a running loop
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _end, task, loop)
        try:
            await run()
        except asyncio.CancelledError:
            return

    asyncio.run(whole())


def _end(task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
    task.cancel()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        loop.add_signal_handler(number, os._exit, 1)
