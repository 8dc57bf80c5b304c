"""`stowage ui`: the web page, on this machine or in the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stowage.commands.options import (
    CONFIG,
    FLEET,
    PATH,
    PLUGINS,
    SYSTEM,
    HubOptions,
    files_option,
    hub_options,
    member_files,
)
from stowage.commands.processes import serve

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@hub_options
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="Where to look, if Workloads of all namespaces may not be listed; may be given again.",
)
@FLEET
@files_option("With --fleet: Workloads that are shown as they would be placed", required=False)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@SYSTEM
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 chooses a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
@click.option(
    "--hosted",
    is_flag=True,
    help="Open the page that stowage install --ui has installed, through the API server.",
)
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    help="With --hosted: read as this one, for a kubeconfig without a token.",
)
@click.option("--serve", "served", is_flag=True, help="Serve many readers, each with own rights.")
@click.option("--http-host", default="127.0.0.1", show_default=True, help="With --serve.")
@click.option(
    "--http-port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="As above."
)
@click.option("--tls-cert", type=PATH, help="With --serve: a PEM file.")
@click.option("--tls-key", type=PATH, help="Its key.")
@click.option("--behind-tls", is_flag=True, help="With --serve: a proxy ahead of it has TLS.")
@click.option(
    "--session-keys",
    type=PATH,
    help="With --serve: a folder with the keys `current` and `previous`, which seal cookies; "
    "without it they end with the process.",
)
@member_files("member_files")
@CONFIG
@PLUGINS
def ui(
    hub: HubOptions,
    namespaces: tuple[str, ...],
    files: tuple[str, ...],
    more: tuple[str, ...],
    port: int,
    no_browser: bool,
    hosted: bool,
    service_account: str | None,
    served: bool,
    http_host: str,
    http_port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_tls: bool,
    session_keys: Path | None,
    member_files: dict[str, str],
) -> None:
    """Serve a web page of the fleet on this machine, until interrupted; it changes nothing.

    The address that is printed opens the page once, and then for this browser alone. With --serve
    the page is for many readers, and each sees what the hub lets them list.
    """
    from stowage.report.memberpods import Members
    from stowage.simulation.plan import Where
    from stowage.web import app

    if (hosted or served) and (hub.fleet or files or more):
        raise click.UsageError("--serve and --hosted show a hub, and no files")
    if hosted:
        from stowage.web import forwarding

        through = forwarding.ForwardingSettings(
            hub=hub.connection(),
            namespace=hub.system_namespace,
            service_account=_account(service_account),
            port=port,
            browser=not no_browser,
        )
        serve(lambda: forwarding.run(through), 0)
        return
    if served:
        from stowage.web import hosted as hosting

        if namespaces:
            raise click.UsageError("--serve shows all namespaces, to whom the hub lets list them")
        hosted_as = hosting.HostedSettings(
            where=Where("default", (), hub.connection(), hub.config_file, hub.plugins),
            host=http_host,
            port=http_port,
            certificate=_certificate(tls_cert, tls_key, behind_tls=behind_tls),
            keys=session_keys,
            system=hub.system_namespace,
        )
        serve(lambda: hosting.run(hosted_as), 0)
        return
    if (files or more) and not hub.fleet:
        raise click.UsageError("-f goes with --fleet: on a hub what is there is shown")
    # the page outlives a token, so it needs a connection that asks for another
    at = None if hub.fleet else hub.connection()
    named = namespaces[0] if namespaces else at.namespace if at else "default"
    settings = app.UiSettings(
        where=Where(named, hub.fleet, at, hub.config_file, hub.plugins),
        files=(*files, *more),
        namespaces=namespaces,
        system=hub.system_namespace,
        port=port,
        browser=not no_browser,
        members=None if hub.fleet else Members(hub.kubeconfig, member_files),
    )
    serve(lambda: app.run(settings), 0)


def _certificate(
    cert: Path | None, key: Path | None, *, behind_tls: bool
) -> tuple[Path, Path] | None:
    """Return the files of the server's TLS; None where a proxy has it. The cookie needs either."""
    if cert is not None and key is not None and not behind_tls:
        return cert, key
    if behind_tls and cert is None and key is None:
        return None
    raise click.UsageError("--serve needs --tls-cert with --tls-key, or else --behind-tls")


def _account(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError(f"--service-account: {text!r} is not NAMESPACE/NAME")
    return namespace, name
