"""`stowage controller`, `stowage propagator` and `stowage agent`: the processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from stowage.commands.options import CONFIG, HOME, PLUGINS, HubOptions, home_options

if TYPE_CHECKING:
    import asyncio

TRACES = (
    click.option(
        "--otlp-endpoint",
        envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
        default="",
        metavar="URL",
        help="Send traces to this collector, by OTLP over HTTP; needs stowage[otel].",
    ),
    click.option(
        "--trace-ratio",
        type=click.FloatRange(0, 1),
        default=0.01,
        show_default=True,
        help="The part of all traces that is sent; slow and failed ones always are.",
    ),
)


def trace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(TRACES):
        command = option(command)
    return command


@click.command()
@home_options
@CONFIG
@PLUGINS
@click.option(
    "--controller-plugins",
    default="*",
    help='Whose controllers run while it leads, with commas: "*,-Name" is all but that one.',
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
@trace_options
@click.option("-v", "--verbosity", default=0, help="From 4 on, everything is logged.")
def controller(
    hub: HubOptions,
    controller_plugins: str,
    debug_scores: int,
    http_host: str,
    http_port: int,
    otlp_endpoint: str,
    trace_ratio: float,
    verbosity: int,
) -> None:
    """Run the scheduler: decide which clusters run how many replicas."""
    from controller import app
    from machinery.tracing import TraceSettings

    settings = app.ControllerSettings(
        connection=hub.connection(),
        config_file=hub.config_file,
        plugins=hub.plugins,
        controller_plugins=controller_plugins,
        debug_scores=debug_scores,
        http_host=http_host,
        http_port=http_port,
        namespace=hub.system_namespace,
        traces=TraceSettings(endpoint=otlp_endpoint, ratio=trace_ratio),
    )
    serve(lambda: app.run(settings), verbosity)


@click.command()
@home_options
@click.option("--http-host", default="127.0.0.1", help="The address of health and metrics.")
@click.option("--http-port", default=10252, help="0 chooses a free one.")
@trace_options
@click.option("-v", "--verbosity", default=0, help="From 4 on, everything is logged.")
def propagator(
    hub: HubOptions,
    http_host: str,
    http_port: int,
    otlp_endpoint: str,
    trace_ratio: float,
    verbosity: int,
) -> None:
    """Run the propagator: push objects to the members, bring their state back."""
    from machinery.tracing import TraceSettings
    from propagator import app
    from propagator.settings import PropagatorSettings

    # Read again by the process itself; here only so that no credential goes out in plain text.
    hub.connection()
    settings = PropagatorSettings(
        kubeconfig=hub.kubeconfig,
        context=hub.context,
        namespace=hub.system_namespace,
        http_host=http_host,
        http_port=http_port,
        traces=TraceSettings(endpoint=otlp_endpoint, ratio=trace_ratio),
    )
    serve(lambda: app.run(settings), verbosity)


@click.command()
@click.option("--kubeconfig", metavar="FILE", help="The member's.  [default: that of the pod]")
@click.option("--context", help="A context of it.")
@click.option(
    "-n",
    "--namespace",
    default=HOME,
    show_default=True,
    help="On the member: that of its Secret.",
)
@click.option("--http-host", default="127.0.0.1", help="The address of health and metrics.")
@click.option("--http-port", default=10252, help="0 chooses a free one.")
@click.option(
    "--token-seconds",
    type=click.IntRange(600),
    default=7 * 24 * 3600,
    show_default=True,
    help="The life that tokens of the hub are asked for.",
)
@click.option("-v", "--verbosity", default=0, help="From 4 on, everything is logged.")
def agent(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    http_host: str,
    http_port: int,
    token_seconds: int,
    verbosity: int,
) -> None:
    """Run the agent of a member in mode Pull, beside it."""
    from propagator.agent import app
    from propagator.app import identity

    settings = app.AgentSettings(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        http_host=http_host,
        http_port=http_port,
        token_seconds=token_seconds,
    )
    serve(lambda: app.run(settings, identity()), verbosity)


def serve(run: Callable[[], Coroutine[Any, Any, None]], verbosity: int) -> None:
    """Run a process until SIGTERM or SIGINT; a second signal ends it at once."""
    import asyncio
    import logging
    import signal

    from machinery import garbage, logs

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

    with garbage.tended():
        asyncio.run(whole())


def _end(task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
    import signal

    task.cancel()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        loop.add_signal_handler(number, os._exit, 1)
