"""Brings a new leader's informers up to all that was written before, before it acts.

A watch may be seconds behind and look healthy. Our own writes are safe all the same, as each is a
compare-and-swap on the version that was read; but a decision also depends on the quota, the room
and the claims of other objects. So once the lease is held the names and versions of each kind are
listed, which is a consistent read, and the leader waits until the watches have brought as much.
That includes what the predecessor wrote until it lost the lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from machinery import logs
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.runtime.list_and_watch import identity_of, taken_apart
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
        """Whether the informer has still to see a change, or the end of an object."""
        if order(informer.version, self.newest) == -1:
            return True
        return bool(informer.missing(self.keys, unless_after=self.version))


async def caught_up(
    client: Verbs, informers: Iterable[Informer[Any]], *, clock: Clock, within: float
) -> bool:
    """Return once the informers, each synced, hold what is stored now; False if not `within` time.

    One list of metadata for each kind, side by side, as one of a quiet kind takes a tenth of a
    second while another kind is written (1.36.3). Kinds that the hub lacks are left out.
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
    """Return what the hub holds of the kind; None where it does not answer now. Raises NotFound."""
    found = _Stored()
    try:
        async for answer in client.pages(
            informer.resource, **{**informer.selection, "metadata_only": True}
        ):
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
