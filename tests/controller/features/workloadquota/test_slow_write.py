"""A quota while the write of a decision takes its time: nobody takes it again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machinery.api.resources import WORKLOAD_QUOTAS, WORKLOADS
from tests.controller.features.workloadquota.quota import QUOTA, arranged, ask, both, most_in, units
from tests.controller.features.workloadquota.quotas import body

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


@pytest.mark.long
@pytest.mark.proves("K14", "K24")
@pytest.mark.parametrize("meanwhile", [0, 1])
@pytest.mark.parametrize("kind", ["WorkloadPolicy", "WorkloadQuota"])
async def test_what_a_decision_gives_up_is_nobodys_before_it_is_written(
    kind: str, meanwhile: int
) -> None:
    """A user scales down and up again, before the hub has answered the first decision."""
    stage, writing = arranged(host=QUOTA if kind == "WorkloadPolicy" else 99), asyncio.Event()
    if kind == "WorkloadQuota":
        stage.hub.put(WORKLOAD_QUOTAS, body(units=QUOTA))

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/workloads/first/status") and not writing.is_set():
            writing.set()
            await stage.clock.sleep(SLOW_SECONDS)

    async with stage.leading():
        ask(stage, "first", "stowage")
        await stage.until(lambda: units(stage) == QUOTA)
        stage.hub.faults.append(slow)
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": meanwhile}})
        await stage.until(writing.is_set)
        ask(stage, "other", "stowage")
        await stage.calm(1)
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": QUOTA}})
        assert await most_in(stage, 2 * SLOW_SECONDS) == QUOTA
        assert stage.placed("first") == {"h1": QUOTA}
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": 0}})
        await stage.until(lambda: stage.placed("other") == {"h1": QUOTA})
