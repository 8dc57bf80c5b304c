"""A write that meets another's: one look at what is there, one more write, and nobody else woken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from tests.controller.memory import Stage


def patches(stage: Stage, name: str) -> int:
    return len(stage.hub.writes(f"/workloads/{name}/status"))


@pytest.mark.proves("L3")
async def test_a_conflict_while_the_watch_is_behind_costs_one_look_and_one_write() -> None:
    stage = Stage("a", cpu="4")
    for number in range(20):
        stage.workload(f"big{number}", cpu="8")
    release: list[Callable[[], None]] = []

    async def faster(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/demo/status"):
            stage.hub.faults.remove(faster)
            release.append(stage.hub.hold(WORKLOADS))
            stage.hub.edit(WORKLOADS, "demo", {"metadata": {"annotations": {"x": "y"}}})

    async with stage.leading():
        await stage.until(lambda: all(stage.says(f"big{n}")[0] for n in range(20)))
        await stage.calm(25)  # patience is back
        stage.hub.faults.append(faster)
        decided = _decisions()
        stage.workload("demo")
        await stage.until(lambda: release)
        await stage.calm(8)
        assert stage.placed("demo") == {"a": 2}
        assert patches(stage, "demo") == 2
        gets = [path for how, path, _ in stage.hub.requests if how == "GET"]
        assert gets.count(WORKLOADS.path("shop", "demo")) == 1
        release[0]()
        await stage.calm(2)
        assert patches(stage, "demo") == 2
        assert _decisions() - decided <= 3, "nobody else is woken"


@pytest.mark.proves("L3")
async def test_one_that_is_always_beaten_keeps_its_back_off() -> None:
    stage = Stage("a", cpu="4")
    stage.workload("big", cpu="8")
    writes = count(1)

    async def faster(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/demo/status"):
            other = {"status": {"clusterSummary": str(next(writes))}}
            stage.hub.edit(WORKLOADS, "demo", other, status=True)

    async with stage.leading():
        await stage.until(lambda: stage.says("big")[0])
        stage.hub.faults.append(faster)
        stage.workload("demo")
        await stage.calm(20)
        assert 4 <= patches(stage, "demo") <= 14
        decided = _decisions()
        await stage.calm(5)
        assert _decisions() - decided <= 5
        stage.hub.faults.clear()
        await stage.until(lambda: stage.placed("demo") == {"a": 2}, seconds=60)


@pytest.mark.proves("L3")
async def test_what_a_beaten_decision_does_not_take_again_is_announced() -> None:
    """Who was refused because of it, while its write was under way, must hear of that."""
    stage = Stage("a", cpu="4")

    async def faster(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/demo/status"):
            stage.hub.faults.remove(faster)
            stage.workload("other", replicas=4)
            await stage.clock.sleep(1)  # the other one is refused meanwhile
            assert stage.says("other")[0] == "False"
            stage.hub.edit(WORKLOADS, "demo", {"spec": {"replicas": 0}})

    async with stage.leading():
        stage.hub.faults.append(faster)
        stage.workload("demo", replicas=4)
        await stage.until(lambda: stage.says("other")[0] == "True", seconds=10)
        assert stage.placed("other") == {"a": 4}


def _decisions() -> float:
    """Of those that were offered or woken: a look for the reason alone is behind all of them."""
    from controller.scheduler import DECISIONS, RENEWALS  # noqa: PLC0415 - these alone

    def total(counter: Any) -> float:
        samples = (s for m in counter.collect() for s in m.samples)
        return sum(s.value for s in samples if s.name.endswith("_total"))

    return total(DECISIONS) - total(RENEWALS)
