"""Bring a new leader's informers up to date before the leader acts.

The leader lists the names and versions of each kind (a consistent read) and waits until the watches
show as much, including the last writes of its predecessor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from machinery import logs
from machinery.api.verbs import Selection, Verbs
from machinery.clock import Clock
from machinery.errors import NotFound, TransportError
from machinery.runtime.informer import Informer, identity_of, taken_apart
from machinery.runtime.store import order
from machinery.types.metadata import Key

LOG = logs.get(__name__)
POLL_SECONDS = 0.05
RETRY_SECONDS = 1.0


@dataclass(slots=True)
class _Stored:
    """The objects of one kind at one moment; `newest` is the latest change among them."""

    version: str = ""
    newest: str = ""
    keys: set[Key] = field(default_factory=set)

    def ahead_of(self, informer: Informer[Any]) -> bool:
        if order(informer.version, self.newest) == -1:
            return True
        return bool(informer.missing(self.keys, unless_after=self.version))


async def caught_up(
    client: Verbs, informers: Iterable[Informer[Any]], *, clock: Clock, within: float
) -> bool:
    """Return True once the synced informers hold what is stored now; False after `within` seconds.

    Kinds that the hub lacks are left out.
    """
    until = clock.monotonic() + within
    reads = (_caught_up(client, each, clock=clock, until=until) for each in informers)
    return all(await asyncio.gather(*reads))


async def _caught_up(client: Verbs, informer: Informer[Any], *, clock: Clock, until: float) -> bool:
    try:
        while (stored := await _stored(client, informer)) is None:
            if clock.monotonic() >= until:
                return False
            await clock.sleep(RETRY_SECONDS)
    except NotFound:
        return True
    while stored.ahead_of(informer):
        if clock.monotonic() >= until:
            LOG.warning("the watch of %s lags behind the hub", informer.resource.plural)
            return False
        await clock.sleep(POLL_SECONDS)
    return True


async def _stored(client: Verbs, informer: Informer[Any]) -> _Stored | None:
    """None if the hub does not answer. Raises NotFound."""
    found = _Stored()
    chosen: Selection = {**informer.selection, "metadata_only": True}
    try:
        async for answer in client.pages(informer.resource, **chosen):
            page = taken_apart(answer)
            found.version = page.metadata.resource_version
            for raw in page.items or ():
                meta = identity_of(raw).metadata
                found.keys.add(meta.key)
                if not found.newest or order(found.newest, meta.resource_version) == -1:
                    found.newest = meta.resource_version
    except NotFound:
        raise
    except TransportError as e:
        LOG.warning("%s cannot be listed: %s", informer.resource.plural, e)
        return None
    return found
