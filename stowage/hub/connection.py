"""The connection to the hub for commands that only read.

A plain kubeconfig is read without the client library, which takes most of a second to import; any
other one is read with it. A credential that changes (a token file, a plugin's) is asked for once,
because these commands last a moment. A token or a password travels inside TLS, or stays on this
machine.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from machinery.config.address import loopback
from machinery.config.kubeconfig import Connection, parse_kubeconfig
from machinery.errors import ConfigurationError, KubeconfigError
from stowage.console.terminal import say
from stowage.hub.reader import Reader

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")


def connection(kubeconfig: str | None, context: str | None) -> Connection:
    """Return how to reach the hub. Raises ConfigurationError."""
    plain = plain_connection(kubeconfig=kubeconfig, context=context)
    return guarded(plain or _other(kubeconfig, context))


def guarded(connection: Connection) -> Connection:
    """Return the connection, unless it would send a credential over plain http.

    Raises ConfigurationError then. To an address of this machine the credential goes without TLS,
    with a note: another user of the machine may own that port.
    """
    shown = connection.token or connection.token_source or connection.password
    address = urlsplit(connection.server)
    if not shown or address.scheme != "http":
        return connection
    if not loopback(address.hostname or ""):
        raise ConfigurationError(
            f"{connection.server} is plain http: the credential for it would be read on the way; "
            "use https, or `kubectl port-forward` and an address of this machine"
        )
    say(f"note: {connection.server} gets the credential without TLS", err=True)
    return connection


def plain_connection(*, kubeconfig: str | None, context: str | None) -> Connection | None:
    """Return the connection of the one file, found as `hub_connection` does; None if not plain.

    Every fault is left to the library, which reports it.
    """
    listed = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if os.pathsep in listed or any(os.environ.get(name) for name in _PROXIES):
        return None
    try:
        file = Path(listed).expanduser()
        return parse_kubeconfig(
            file.read_bytes(), context=context, trusted=True, directory=file.parent
        )
    except (OSError, KubeconfigError):
        return None


def _other(kubeconfig: str | None, context: str | None) -> Connection:
    import asyncio  # noqa: PLC0415 - only here

    from machinery.config.hub_config import hub_connection  # noqa: PLC0415 - slow

    found = hub_connection(kubeconfig=kubeconfig, context=context)
    if found.token_source is None:
        return found
    return replace(found, token=asyncio.run(_token(found)), token_source=None)


async def _token(found: Connection) -> str | None:
    return await found.token_source() if found.token_source else None


def reader(of: Connection) -> Reader:
    """Return a reader of the hub. Raises ConfigurationError for a kubeconfig without a server."""
    if not of.server:
        raise ConfigurationError("the kubeconfig names no server")
    return Reader(of)
