"""A controller that dies between the writes of a set: the next one completes it, or says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS
from tests.controller.make import REQUIRED, ZONE, beside
from tests.controller.memory import Stage

NAMES = ("back", "front", "side")


def ring(stage: Stage, *, key: str = "stowage.dev/cluster", cpu: str = "1") -> None:
    for number, name in enumerate(NAMES):
        term = beside(NAMES[(number + 1) % len(NAMES)], key)
        stage.workload(name, replicas=1, cpu=cpu, workloadAffinity={REQUIRED: [term]})


class Cut:
    """Lets the first write of a status through, and answers nothing from then on."""

    def __init__(self, stage: Stage) -> None:
        self.writes = 0
        self.cut = asyncio.Event()
        stage.hub.faults.append(self)

    async def __call__(self, method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and "/workloads/" in path:
            self.writes += 1
            if self.writes > 1:
                self.cut.set()
                await asyncio.Event().wait()


async def half_written(stage: Stage) -> str:
    """The one of the set that a controller wrote before it died."""
    cut = Cut(stage)
    async with stage.leading():
        await stage.until(cut.cut.is_set)
    stage.hub.faults.remove(cut)
    (name,) = [each for each in NAMES if stage.placed(each)]
    return name


@pytest.mark.proves("L10")
@pytest.mark.parametrize("key", ["stowage.dev/cluster", ZONE])
async def test_the_rest_of_a_set_follows_after_a_restart(key: str) -> None:
    stage = Stage()
    for number in range(3):
        stage.cluster(f"m{number}", **{ZONE: f"z{number}"})
    ring(stage, key=key)
    written = await half_written(stage)
    (home,) = stage.placed(written)
    async with stage.leading(identity="two"):
        await stage.until(lambda: all(map(stage.placed, NAMES)))
    assert {cluster for name in NAMES for cluster in stage.placed(name)} == {home}


@pytest.mark.proves("L10")
async def test_a_set_that_cannot_be_completed_says_so_on_each_of_it() -> None:
    stage = Stage("m0", "m1", cpu="8")
    ring(stage, cpu="2")
    written = await half_written(stage)
    (home,) = stage.placed(written)
    fresh = {"nodeGroups": [{"count": 1, "free": {"cpu": "1", "memory": "9Gi", "pods": "9"}}]}
    stage.hub.edit(MEMBER_CLUSTERS, home, {"status": fresh}, status=True)
    async with stage.leading(identity="two"):
        await stage.until(lambda: all(stage.says(name)[0] for name in NAMES))
        await stage.calm(3)
        left = [name for name in NAMES if name != written]
        for name in left:
            assert stage.placed(name) == {}
            assert (
                f"its set is incomplete: shop/{written} runs, and requires it"
                in (stage.says(name)[2])
            )
        (event,) = stage.hub.events("IncompleteSet")  # a series, with the newest note
        assert event["regarding"]["name"] == written
        assert event["note"].split(",")[0] in {f"runs without shop/{name}" for name in left}
        roomy = {"nodeGroups": [{"count": 1, "free": {"cpu": "8", "memory": "9Gi", "pods": "9"}}]}
        stage.hub.edit(MEMBER_CLUSTERS, home, {"status": roomy}, status=True)
        await stage.until(lambda: all(map(stage.placed, NAMES)))
    assert {cluster for name in NAMES for cluster in stage.placed(name)} == {home}


@pytest.mark.proves("C18")
async def test_one_whose_partner_is_being_written_for_long_is_told_meanwhile() -> None:
    stage = Stage("m0")
    gate = asyncio.Event()

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/ping/status"):
            await gate.wait()

    stage.hub.faults.append(slow)
    async with stage.leading():
        stage.workload("ping", workloadAffinity={REQUIRED: [beside("pong")]})
        await stage.calm(1)
        stage.workload("pong", workloadAffinity={REQUIRED: [beside("ping")]})
        await stage.until(lambda: stage.says("pong")[1] == "FailedToSchedule")
        gate.set()
        await stage.until(lambda: stage.placed("ping") and stage.placed("pong"))
