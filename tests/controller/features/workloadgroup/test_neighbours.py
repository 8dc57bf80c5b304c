"""Gangs work beside affinity, copies, hooks, Reservations, and plugins that fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.features.reservation.plugin import ReservationPlugin
from controller.features.workloadgroup.plugin import Coscheduling
from controller.model.unit import WorkloadInfo
from crds.names import LABEL_GROUP
from machinery.api.resources import RESERVATIONS
from tests.controller.features.reservation.reserving import owner, reservation
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.live import deployment
from tests.controller.make import REQUIRED, beside
from tests.controller.scheduling.test_gathered import all_say


@pytest.fixture
def gangs(tmp_path: Path) -> Gangs:
    made = Gangs(tmp_path)
    made.cluster("a", cpu="8")
    return made


def beside_each_other(gangs: Gangs) -> None:
    """A group of two Workloads of five units, each of which requires the other."""
    gangs.group(least=10)
    for name, other in (("one", "two"), ("two", "one")):
        requires = {REQUIRED: [beside(other)]}
        gangs.member(name, replicas=5, cpu="1", distribution="Single", workloadAffinity=requires)


@pytest.mark.proves("G3", "G26")
async def test_members_that_require_each_other_are_placed_beside_each_other(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="20")
    beside_each_other(gangs)
    async with gangs.led():
        await gangs.until(lambda: gangs.released() == {"one", "two"})
        assert gangs.placed("one") == gangs.placed("two") == {"b": 5}


@pytest.mark.proves("G4", "G26")
async def test_members_that_require_each_other_and_have_no_room_hold_nothing(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="8")
    beside_each_other(gangs)
    async with gangs.led():
        await all_say(gangs, "GroupDenied", "one", "two")
        await gangs.calm(10)
        assert (gangs.placed("one"), gangs.placed("two"), gangs.gate()) == ({}, {}, "")
        gangs.workload("other", replicas=8)
        await gangs.until(lambda: gangs.placed("other"))
        gangs.cluster("c", cpu="10")
        await gangs.until(lambda: gangs.released() == {"one", "two"})


@pytest.mark.proves("G5", "G12", "G26")
async def test_members_that_run_everywhere_count_on_each_cluster(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="8")
    gangs.group(least=6)
    gangs.member("copies", replicas=1, cpu="1", distribution="Duplicated")
    daemon = {**deployment("daemon", "1"), "kind": "DaemonSet"}
    daemon["spec"].pop("replicas", None)
    labels = {LABEL_GROUP: "batch"}
    gangs.workload("daemon", labels=labels, distribution="Duplicated", targetDeployment=daemon)
    gangs.member("worker", replicas=2, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.released() == {"copies", "daemon", "worker"})
        assert gangs.placed("copies") == {"a": 1, "b": 1}
        assert sorted(gangs.placed("daemon")) == ["a", "b"]
        assert sum(gangs.placed("worker").values()) == 2


@pytest.mark.proves("G5", "G12", "G13")
async def test_members_that_run_everywhere_lack_room_and_not_siblings(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="1")
    gangs.cluster("c", cpu="1")
    gangs.group(least=6)
    gangs.member("copies", replicas=2, cpu="3", distribution="Duplicated")
    async with gangs.led():
        await gangs.until(lambda: gangs.says("copies")[1] == "GroupDenied")
        await gangs.until(lambda: gangs.tells()[1] == "GroupDenied")
        assert "resource gap: cpu" in gangs.tells()[2]


@pytest.mark.proves("G3")
async def test_a_hook_may_change_the_units_of_a_member(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubles(
        _hook: Any, _state: Any, info: WorkloadInfo, _snapshot: Any, _bound: Any
    ) -> tuple[WorkloadInfo, bool]:
        return replace(info, replicas=2 * info.replicas), True

    monkeypatch.setattr(ReservationPlugin, "before_pre_filter", doubles)
    gangs.group(least=4)
    gangs.member("one", replicas=2, cpu="1")
    gangs.member("two", replicas=2, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.released() == {"one", "two"})
        assert gangs.placed("one") == gangs.placed("two") == {"a": 4}


@pytest.mark.proves("G3", "G13", "E28")
async def test_room_that_is_held_for_its_members_lets_a_gang_in(gangs: Gangs) -> None:
    owners = [{"labelSelector": {"matchLabels": {LABEL_GROUP: "batch"}}}]
    room = reservation(replicas=6, requests={"cpu": "1"}, owners=owners, allocateOnce=False)
    gangs.hub.put(RESERVATIONS, room)
    async with gangs.led():
        await gangs.until(
            lambda: (
                gangs.hub.read(RESERVATIONS, "room").get("status", {}).get("phase") == "Available"
            )
        )
        gangs.workload("stranger", replicas=3, cpu="1")
        await gangs.until(lambda: gangs.says("stranger")[0] == "False")
        gangs.group(least=8)
        gangs.member("one", replicas=4, cpu="1")
        gangs.member("two", replicas=4, cpu="1")
        await gangs.until(lambda: gangs.released() == {"one", "two"})


POINTS = ["gathering", "attempts", "judge", "concluded"]


@pytest.mark.proves("L4")
@pytest.mark.parametrize("point", POINTS)
async def test_a_fault_over_one_gang_is_told_on_its_members_alone(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    sound = getattr(Coscheduling, point)

    def fails(plugin: Any, about: Any, *more: Any) -> Any:
        if "bad" in (about.groups if isinstance(about, WorkloadInfo) else about.key):
            raise RuntimeError("out of order")
        return sound(plugin, about, *more)

    monkeypatch.setattr(Coscheduling, point, fails)
    for name in ("bad", "good"):
        gangs.group(name, least=2)
        for number in range(2):
            gangs.member(f"{name}-{number}", of=name, replicas=1, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.released("good") == {"good-0", "good-1"})
        if point == "concluded":  # it is decided, and that it was noted nowhere is in the log
            await gangs.until(lambda: gangs.released("bad") == {"bad-0", "bad-1"})
            return
        await all_say(gangs, "PluginError", "bad-0", "bad-1")
        assert "out of order" in gangs.says("bad-0")[2]
        assert gangs.placed("bad-0") == {}


@pytest.mark.proves("B19")
async def test_a_gang_whose_overrides_ask_for_less_is_not_denied_by_its_template(
    tmp_path: Path,
) -> None:
    stage = Gangs(tmp_path)
    stage.cluster("a", cpu="2")
    pods = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    override = {"name": "small", "clusterSelector": {}, "patch": {"spec": {"template": pods}}}
    async with stage.led():
        stage.group(least=2)
        stage.member("web", replicas=2, cpu="3", overrides=[override])
        await stage.until(lambda: stage.placed("web") == {"a": 2})


@pytest.mark.proves("E28")
@pytest.mark.parametrize("cpu", ["2", "1"])
async def test_members_of_a_gang_come_each_into_a_reservation_of_its_own(
    tmp_path: Path, cpu: str
) -> None:
    stage = Gangs(tmp_path)
    stage.cluster("a", cpu="8")
    rooms = ("room", "other")

    def phases() -> set[str]:
        found = (stage.hub.read(RESERVATIONS, name).get("status", {}) for name in rooms)
        return {each.get("phase", "") for each in found}

    async with stage.led():
        for name, member in zip(rooms, "xy", strict=True):
            how: dict[str, Any] = {"requests": {"cpu": "2"}, "replicas": 2}
            stage.hub.put(RESERVATIONS, reservation(name, owners=[owner(member)], **how))
        await stage.until(lambda: phases() == {"Available"})
        stage.group(least=4)
        for member in "xy":
            stage.member(member, replicas=2, cpu=cpu)
        await stage.until(lambda: stage.placed("x") and stage.placed("y"))
        await stage.until(lambda: phases() == {"Succeeded"})


@pytest.mark.proves("E28")
async def test_what_a_member_leaves_of_its_reservation_is_no_room_of_its_siblings(
    tmp_path: Path,
) -> None:
    stage = Gangs(tmp_path)
    stage.cluster("a", cpu="4")
    async with stage.led():
        how: dict[str, Any] = {"requests": {"cpu": "4"}, "allocateOnce": False}
        stage.hub.put(RESERVATIONS, reservation(owners=[owner("x")], **how))
        await stage.until(
            lambda: stage.hub.read(RESERVATIONS, "room").get("status", {}).get("phase")
        )
        stage.group(least=2)
        stage.member("x", replicas=1, cpu="1")
        stage.member("y", replicas=1, cpu="1")
        await stage.until(lambda: stage.says("y")[1] == "GroupDenied")
        await stage.calm(10)
        assert [stage.placed(name) for name in "xy"] == [{}, {}]
