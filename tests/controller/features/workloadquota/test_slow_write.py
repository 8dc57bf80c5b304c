"""A quota while the write of a decision takes its time: no other scheduler takes it again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from tests.controller.features.workloadquota.quota import QUOTA, arranged, ask, both, most_in

SLOW_SECONDS = 25.0


@pytest.mark.proves("K24", "L5")
@pytest.mark.parametrize("lands", [True, False])
async def test_a_second_scheduler_stays_within_a_quota_however_slow_the_first_one_writes(
    lands: bool,
) -> None:
    stage, writing = arranged(), asyncio.Event()

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/workloads/w1/status") and not writing.is_set():
            writing.set()
            await stage.clock.sleep(SLOW_SECONDS)
            if not lands:
                stage.hub.remove(WORKLOADS, "w1")

    stage.hub.faults.append(slow)
    async with both(stage):
        ask(stage, "w1", "stowage")
        await stage.until(writing.is_set)
        ask(stage, "w2", "second")
        assert await most_in(stage, 2 * SLOW_SECONDS) == QUOTA
        assert stage.placed("w1" if lands else "w2") == {"h1": QUOTA}
