"""A decision whose write nobody answers may land when everybody has gone on: then it must not count.

Until it is known what became of it, its units count and its claim on the quota stands. It is known
as soon as another write on the same version is answered: of two the hub takes one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from machinery.errors import NotSent, TransportError, Unreachable
from tests.controller.features.workloadquota.quota import (
    QUOTA,
    arranged,
    ask,
    both,
    most_in,
    units,
)
from tests.controller.memory import Stage


@pytest.mark.proves("K24", "L5")
@pytest.mark.parametrize("lands_at", [8.0, None], ids=["landed", "lost"])
async def test_quota_stays_taken_until_it_is_known_what_became_of_the_write(
    lands_at: float | None,
) -> None:
    """Nor does anybody answer the writes that follow, for as long as 20 s."""
    stage = arranged()
    landing: list[asyncio.Task[None]] = []
    silent_until = 20.0

    async def lands(body: Any, after: float) -> None:
        await stage.clock.sleep(after)
        stage.hub.edit(WORKLOADS, "first", body, status=True)

    async def unanswered(method: str, path: str, body: Any) -> None:
        if method != "PATCH" or not path.endswith("/workloads/first/status"):
            return
        if stage.clock.monotonic() >= silent_until:
            return
        if not landing and body["status"].get("placements"):
            after = (lands_at or 1000.0) - stage.clock.monotonic()
            landing.append(asyncio.create_task(lands(body, after)))
        raise Unreachable("no answer in time")

    stage.hub.faults.append(unanswered)
    async with both(stage):
        ask(stage, "first", "stowage")
        await stage.until(lambda: bool(landing))
        await stage.calm(1)
        ask(stage, "other", "second")
        assert await most_in(stage, 15) == (QUOTA if lands_at else 0)
        await stage.until(lambda: units(stage) == QUOTA and stage.says("other")[0])
        assert await most_in(stage, 30) == QUOTA
        assert stage.placed("first") == {"h1": QUOTA}
        assert not stage.placed("other")
    landing[0].cancel()


@asynccontextmanager
async def room_for_one_and_no_answer(
    fault: TransportError | None = None,
) -> AsyncIterator[tuple[Stage, list[bool]]]:
    """Two Workloads where there is room for the first, whose writes fail until the list is empty."""
    stage = Stage("a", cpu="3")
    failing = [True]

    async def unanswered(method: str, path: str, _body: Any) -> None:
        if failing and method == "PATCH" and path.endswith("/workloads/first/status"):
            raise fault or Unreachable("no answer in time")

    stage.hub.faults.append(unanswered)
    async with stage.leading():
        stage.workload("first", replicas=2)
        await stage.calm(2)
        stage.workload("other", replicas=2)
        await stage.until(lambda: stage.says("other")[0])
        yield stage, failing


@pytest.mark.proves("K24")
async def test_room_stays_taken_for_others_of_the_same_scheduler_too() -> None:
    async with room_for_one_and_no_answer() as (stage, failing):
        assert not stage.placed("other")
        failing.clear()
        await stage.until(lambda: stage.placed("first") == {"a": 2}, seconds=90)
        assert not stage.placed("other")


@pytest.mark.proves("K24")
async def test_what_was_not_written_is_free_again_as_soon_as_that_is_known() -> None:
    async with room_for_one_and_no_answer() as (stage, _):
        stage.hub.remove(WORKLOADS, "first")
        await stage.until(lambda: stage.placed("other") == {"a": 2})


@pytest.mark.proves("B13")
async def test_a_write_that_was_never_sent_takes_no_room() -> None:
    async with room_for_one_and_no_answer(NotSent("Connection refused")) as (stage, _):
        assert stage.placed("other") == {"a": 2}
