"""The connection to the hub for commands that only read.

A plain kubeconfig is read without the client library, which takes most of a second to import; any
other one is read with it. A credential that changes (a token file, a plugin's) is asked for once,
because these commands last a moment.
"""

from __future__ import annotations

from dataclasses import replace

from machinery.config.member_kubeconfig import Connection
from machinery.config.plain_kubeconfig import plain_connection
from machinery.errors import ConfigurationError
from stowage.hub.reader import Reader
from stowage.setup.credentials import guarded


def connection(kubeconfig: str | None, context: str | None) -> Connection:
    """Return how to reach the hub. Raises ConfigurationError."""
    plain = plain_connection(kubeconfig=kubeconfig, context=context)
    return guarded(plain or _other(kubeconfig, context))


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
