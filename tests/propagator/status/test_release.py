"""The end of a Workload: released once nothing holds it, and once more where no end is seen."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from machinery.types.metadata import Key
from propagator.status.controller import RELEASE_SECONDS, Reporter
from propagator.types.workload import Workload, workload_of
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context


class Hub:
    """A hub that loses the first `lost` releases, as one that starts answers 404 to each."""

    def __init__(self, lost: int) -> None:
        self.informer: dict[Key, Workload] = {}
        self.asked = 0
        self._lost = lost

    async def release(self, workload: Workload) -> None:
        self.asked += 1
        if self.asked > self._lost:
            self.informer.pop(workload.metadata.key, None)


@pytest.mark.proves("R1")
@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_a_release_that_a_hub_lost_is_repeated_until_the_workload_is_gone(lost: int) -> None:
    clock, hub = FakeClock(), Hub(lost)
    ending = workload_of(
        {
            "metadata": {
                "namespace": "shop",
                "name": "web",
                "uid": "u1",
                "resourceVersion": "7",
                "deletionTimestamp": "2026-11-27T00:00:00Z",
                "finalizers": ["stowage.dev/propagation"],
            },
            "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
        }
    )
    hub.informer[ending.metadata.key] = ending
    finalizer = SimpleNamespace(
        awaited=lambda _: set(),
        witnesses=lambda _: ["m1"],
        elsewhere=lambda _: set(),
        given_up=lambda _: set(),
    )
    nothing: dict[str, Any] = dict.fromkeys(("survey", "drift", "dependencies"))
    context = Context(clock=clock, recorder=None, fresh=lambda: True)
    reporter = Reporter(
        cast("Any", context),
        workloads=cast("Any", hub),
        finalizer=cast("Any", finalizer),
        rereading=cast("Any", SimpleNamespace(due=False)),
        **nothing,
    )
    reporter.queue.add(ending.metadata.key)
    running = asyncio.create_task(reporter.run())
    try:
        await clock.advance(0.1)
        assert hub.asked == 1
        reporter.queue.add(ending.metadata.key)
        await clock.advance(0.1)
        assert hub.asked == 1, "its end may be in flight"
        await clock.advance(4 * RELEASE_SECONDS)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert hub.asked == lost + 1
    assert not hub.informer
