"""`stowage ui`: the web page, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from stowage.commands.options import CONFIG, HUB_OPTIONS, PLUGINS, hub_connection
from stowage.commands.processes import serve


@click.command()
@HUB_OPTIONS[0]
@HUB_OPTIONS[1]
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="Where to look, if Workloads of all namespaces may not be listed; may be given again.",
)
@click.option(
    "--fleet",
    multiple=True,
    metavar="FILE",
    help="MemberClusters, and Workloads that are there, in files: no hub is asked.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="With --fleet: Workloads that are shown as they would be placed.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option(
    "--system-namespace",
    default="stowage-system",
    show_default=True,
    help="Where Stowage lives: that of the Leases.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 chooses a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
@CONFIG
@PLUGINS
def ui(
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    fleet: tuple[str, ...],
    files: tuple[str, ...],
    more: tuple[str, ...],
    system_namespace: str,
    port: int,
    no_browser: bool,
    config_file: Path | None,
    plugins: tuple[str, ...],
) -> None:
    """Serve a web page of the fleet on this machine, until interrupted; it changes nothing.

    The address that is printed opens the page once, and then for this browser alone.
    """
    from stowage.planning.plan import Where  # noqa: PLC0415 - see stowage.cli
    from stowage.web import app  # noqa: PLC0415 - as above

    if (files or more) and not fleet:
        raise click.UsageError("-f goes with --fleet: on a hub what is there is shown")
    # the page outlives a token, so it needs a connection that asks for another
    hub = None if fleet else hub_connection(kubeconfig, context)
    named = namespaces[0] if namespaces else hub.namespace if hub else "default"
    settings = app.UiSettings(
        where=Where(named, fleet, hub, config_file, plugins),
        files=(*files, *more),
        namespaces=namespaces,
        system=system_namespace,
        port=port,
        browser=not no_browser,
    )
    serve(lambda: app.run(settings), 0)
