"""Many small things that keep nobody waiting."""

from __future__ import annotations

import asyncio

import pytest

from machinery.tasks import SLICE, Gradually
from tests.fakeclock import settle


@pytest.mark.proves("S2")
async def test_few_are_done_at_once_and_many_by_and_by() -> None:
    done: list[tuple[str, int]] = []
    gradually: Gradually[tuple[str, int]] = Gradually(done.append)
    running = asyncio.create_task(gradually.run())
    gradually.add("huge", [("huge", n) for n in range(50 * SLICE)])
    gradually.add("huge", [("huge", n) for n in range(50 * SLICE)])
    gradually.add("large", [("large", n) for n in range(2 * SLICE)])
    assert not done
    gradually.add("small", [("small", 1)])
    assert done == [("small", 1)]
    while ("large", 0) not in done:
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) - before <= SLICE, "a slice at a time"
    assert sum(name == "huge" for name, _ in done) <= 3 * SLICE, "each group in turn"
    async with asyncio.timeout(60):
        while len(done) < 52 * SLICE + 1:  # noqa: ASYNC110 - each pause is a slice
            await asyncio.sleep(0)
    await settle()
    assert sorted(done) == sorted(set(done)), "once each, though added twice"
    running.cancel()
