"""The hub as the reading commands reach it: quickly, and only to read.

A plain kubeconfig is read without the library that takes most of a second; any other one goes the
long way. Whatever of a credential changes (a token file, a plugin's) is asked for once: these
commands last a moment.
"""

from __future__ import annotations

from dataclasses import replace

from machinery.config.member_kubeconfig import Connection
from machinery.config.plain_kubeconfig import plain_connection
from machinery.errors import ConfigurationError
from stowage.hub.reader import Reader
from stowage.setup.credentials import guarded


def connection(kubeconfig: str | None, context: str | None) -> Connection:
    """How to reach the hub. Raises ConfigurationError."""
    plain = plain_connection(kubeconfig=kubeconfig, context=context)
    return guarded(plain or _other(kubeconfig, context))


def _other(kubeconfig: str | None, context: str | None) -> Connection:
    """The long way."""
    import asyncio  # noqa: PLC0415 - only here

    from machinery.config.hub_config import hub_connection  # noqa: PLC0415 - slow

    found = hub_connection(kubeconfig=kubeconfig, context=context)
    if found.token_source is None:
        return found
    return replace(found, token=asyncio.run(_token(found)), token_source=None)


async def _token(found: Connection) -> str | None:
    return await found.token_source() if found.token_source else None


def reader(of: Connection) -> Reader:
    """A reader of the hub. Raises ConfigurationError where it cannot be reached that way."""
    if not of.server:
        raise ConfigurationError("the kubeconfig names no server")
    return Reader(of)
