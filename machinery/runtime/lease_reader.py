"""Leases of others: what they say, and whether they are held."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from machinery.api.lanes import PriorityLevel, RequestClass
from machinery.api.resources import LEASES
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound
from machinery.runtime.leader_election import LeaseRecord
from machinery.types import bounds

_LOOK = RequestClass(PriorityLevel.PROBE, bounds.OBJECT_BYTES)
_LOOKS = RequestClass(PriorityLevel.PROBE, bounds.PAGE_BYTES)
_FEW = 8
"""Leases that are read one by one at each look."""


@dataclass(frozen=True, slots=True)
class SeenLease:
    record: LeaseRecord
    since: float
    """The monotonic time at which it was seen to change last, or first after a time unseen."""
    looked_at: float
    until: float
    """The monotonic time at which it is free, unless it is seen to change."""
    held: bool
    """Whether somebody may act by it, when it was read."""


class LeaseReader:
    """Reads Leases of `namespace` by name. Others wait at least `lease_seconds` after a renewal.

    A holder renews each `retry_seconds`.
    """

    def __init__(
        self,
        client: Verbs,
        *,
        namespace: str,
        clock: Clock,
        lease_seconds: float,
        blind_seconds: float,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._least = lease_seconds
        self._blind = blind_seconds
        self._lists = True
        self._seen: dict[str, SeenLease] = {}

    def get(self, name: str) -> SeenLease | None:
        """As last read; None if there was none."""
        return self._seen.get(name)

    async def read(self, names: Iterable[str]) -> None:
        """Read all side by side. Raises TransportError: then some are read, and some are not."""
        answers = await asyncio.gather(*map(self._read, names), return_exceptions=True)
        for answer in answers:
            if answer is not None:
                raise answer

    async def look(self, names: Iterable[str]) -> None:
        """As `read`, and many by one list."""
        wanted = [*names]
        if len(wanted) > _FEW and self._lists:
            try:
                listed = await self._client.list(LEASES, namespace=self._namespace, errand=_LOOKS)
            except Forbidden:  # by the Role of an earlier release
                self._lists = False
            else:
                found = {each["metadata"]["name"]: each for each in listed["items"]}
                for name in wanted:
                    self._see(name, found.get(name))
                return
        await self.read(wanted)

    async def _read(self, name: str) -> None:
        found = None
        with suppress(NotFound):
            found = await self._client.get(LEASES, name, namespace=self._namespace, errand=_LOOK)
        self._see(name, found)

    def _see(self, name: str, found: Mapping[str, Any] | None) -> None:
        if found is None:
            self._seen.pop(name, None)
            return
        record, before, now = LeaseRecord.of(found), self._seen.get(name), self._clock.monotonic()
        blind = before is None or now - before.looked_at > self._blind
        news = before is None or blind or record.news(before.record)
        since = now if before is None or news else before.since
        until = since + max(record.seconds, self._least)
        held = bool(record.holder) and now < until
        self._seen[name] = SeenLease(record, since, now, until, held)
