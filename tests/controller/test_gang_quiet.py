"""Gangs that wait write nothing: on a whole controller, on a hub in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS

from .live import configured
from .make import CLUSTER, REQUIRED
from .memory import Stage

MINE = {LABEL_GROUP: "batch"}


class Gang:
    """The group batch of the namespace shop, its Workloads, and how often each was written."""

    def __init__(self, stage: Stage, **spec: Any) -> None:
        self.stage = stage
        self.names: list[str] = []
        self.writes: Counter[str] = Counter()
        self._versions: dict[str, str] = {}
        body = {"metadata": {"name": "batch", "namespace": "shop"}, "spec": spec}
        stage.hub.put(WORKLOAD_GROUPS, body)

    def member(self, name: str, **how: Any) -> None:
        given = {"replicas": 1, "cpu": "3", "labels": MINE, "distribution": "Divided", **how}
        self.stage.workload(name, **given)
        self.names.append(name)
        self._versions[name] = self._version(name)

    def _version(self, name: str) -> str:
        return str(self.stage.hub.read(WORKLOADS, name)["metadata"]["resourceVersion"])

    def look(self) -> bool:
        for name in self.names:
            if (version := self._version(name)) != self._versions[name]:
                self._versions[name] = version
                self.writes[name] += 1
        return False

    async def calm(self, seconds: float) -> Counter[str]:
        """How often each was written meanwhile."""
        before = Counter(self.writes)
        end = self.stage.clock.monotonic() + seconds
        await self.stage.until(
            lambda: self.look() or self.stage.clock.monotonic() >= end, seconds=seconds + 1
        )
        return self.writes - before

    def reasons(self) -> set[str]:
        return {self.stage.says(name)[1] for name in self.names}

    def placed(self) -> int:
        return sum(sum(self.stage.placed(name).values()) for name in self.names)


def once(names: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(names, 1)


@pytest.mark.proves("G4", "G11")
async def test_a_gang_without_room_is_told_once_and_placed_when_a_cluster_comes(
    tmp_path: Path,
) -> None:
    stage = Stage()
    stage.cluster("a", cpu="6")
    stage.cluster("b", cpu="3")
    async with stage.configured(configured(tmp_path)):
        gang = Gang(stage, minMember=4)
        for i in range(3):
            gang.member(f"w{i}", replicas=2)
        assert await gang.calm(30) == once(gang.names)
        assert gang.reasons() == {"GroupDenied"}
        stage.cluster("c", cpu="3")
        more = await gang.calm(10)
        assert gang.placed() == 4
        assert max(more.values()) <= 2  # who waits beyond the quorum says so once that is there


@pytest.mark.proves("G11", "G17")
async def test_a_gang_that_is_rejected_is_told_once_whatever_comes_and_goes(
    tmp_path: Path,
) -> None:
    stage = Stage()
    stage.cluster("a", cpu="90")
    async with stage.configured(configured(tmp_path)):
        gang = Gang(stage, minMember=5)
        gang.member("driver", labels={**MINE, "app": "driver"})
        term = {"labelSelector": {"matchLabels": {"app": "driver"}}, "topologyKey": CLUSTER}
        for i in range(4):
            gang.member(f"w{i}", workloadAntiAffinity={REQUIRED: [term]})
        await gang.calm(5)
        assert gang.reasons() == {"GroupDenied"}
        for i in range(8):
            stage.workload(f"stranger{i}", replicas=1)
            await gang.calm(0.5)
            stage.hub.remove(WORKLOADS, f"stranger{i}")
            await gang.calm(0.5)
        await gang.calm(10)
        assert gang.writes == once(gang.names)
        stage.cluster("b", cpu="90")
        await stage.until(lambda: gang.placed() == 5, seconds=5)


@pytest.mark.proves("G12")
async def test_many_that_come_one_by_one_are_not_written_for_each_other(tmp_path: Path) -> None:
    stage = Stage()
    stage.cluster("a", cpu="900", pods="500")
    async with stage.configured(configured(tmp_path)):
        gang = Gang(stage, minMember=30)
        for i in range(40):
            gang.member(f"w{i}")
            await gang.calm(0.5)
        assert gang.placed() == 40
        assert sum(gang.writes.values()) <= 4 * len(gang.names)


@pytest.mark.proves("G5", "G6", "G18")
async def test_what_is_held_is_placed_as_soon_as_others_have_placed_the_rest(
    tmp_path: Path,
) -> None:
    stage = Stage()
    stage.cluster("a", cpu="27")
    stage.cluster("theirs", cpu="0")
    async with stage.configured(configured(tmp_path)):
        gang = Gang(stage, minMember=10)
        stage.workload("other", labels=MINE, replicas=1, schedulerName="somebody")
        for i in range(3):
            gang.member(f"w{i}", replicas=4)
        assert await gang.calm(10) == once(gang.names)
        assert (gang.reasons(), gang.placed()) == ({"WaitingForGroup"}, 0)
        share = {"placements": [{"cluster": "theirs", "replicas": 1}]}
        stage.hub.edit(WORKLOADS, "other", {"status": share}, status=True)
        await stage.until(lambda: gang.placed() == 9, seconds=2)


@pytest.mark.proves("G6")
async def test_what_was_held_for_too_long_is_told_once_and_not_held_again(tmp_path: Path) -> None:
    stage = Stage()
    stage.cluster("a", cpu="27")
    async with stage.configured(configured(tmp_path)) as controller:
        gang = Gang(stage, minMember=10, scheduleTimeoutSeconds=10)
        for i in range(3):
            gang.member(f"w{i}", replicas=4)
        assert await gang.calm(9) == once(gang.names)
        assert int(controller.cache.snapshot().coming("cpu").sum()) == 27000
        assert await gang.calm(60) == once(gang.names)
        assert gang.reasons() == {"ScheduleTimeout"}
        assert int(controller.cache.snapshot().coming("cpu").sum()) == 0
