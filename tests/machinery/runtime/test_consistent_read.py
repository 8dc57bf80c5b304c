"""A new leader reads what is stored of all kinds side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS, Resource
from machinery.errors import NotFound
from machinery.runtime.consistent_read import caught_up
from machinery.runtime.informer import Informer
from machinery.types.metadata import Object
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

KINDS = (WORKLOADS, MEMBER_CLUSTERS, SECRETS)


class Meeting(MemoryHub):
    """Answers no list before all kinds have been asked for; lacks Secrets altogether."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock, admission=False)
        self.asked: set[str] = set()
        self.met = asyncio.Event()

    async def pages(self, res: Resource, **_: Any) -> AsyncIterator[bytes]:
        self.asked.add(res.plural)
        if len(self.asked) == len(KINDS):
            self.met.set()
        await self.met.wait()
        if res == SECRETS:
            raise NotFound(code=404, reason="NotFound", message="no such kind")
        yield msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": []})


@pytest.mark.proves("RB25")
async def test_all_kinds_are_listed_side_by_side() -> None:
    clock = FakeClock()
    hub = Meeting(clock)
    informers = [Informer(hub, kind, Object, clock=clock) for kind in KINDS]
    reading = caught_up(hub, informers, clock=clock, within=5.0)
    assert await asyncio.wait_for(reading, 60)
    assert hub.asked == {kind.plural for kind in KINDS}
