"""What a decision has reserved is given back once, whatever goes wrong after that."""

from __future__ import annotations

from typing import Any

import pytest

from controller.framework.status import SUCCESS, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.scheduling import batch
from machinery.api.resources import WORKLOADS
from machinery.errors import Unreachable
from tests.controller.make import REQUIRED, beside
from tests.controller.memory import Stage
from tests.controller.scheduling.test_long_sets import View, ring

pytestmark = pytest.mark.proves("K24")


class Seat:
    """Takes a seat for each decision; `refusing` says so in PreBind."""

    name = "Seat"

    def __init__(self) -> None:
        self.refusing = False
        self.taken = 0
        self.told: list[str] = []

    def reserve(self, *_: Any) -> Status:
        self.taken += 1
        return SUCCESS

    def unreserve(self, *_: Any) -> None:
        self.taken -= 1

    async def pre_bind(self, *_: Any) -> Status:
        return unschedulable(self.name, "no seat is free") if self.refusing else SUCCESS

    def post_bind(self, _state: Any, info: WorkloadInfo, _placements: Any) -> None:
        self.told.append(info.name)


async def test_where_the_refusal_cannot_be_told_at_once() -> None:
    stage, seat = Stage(), Seat()
    stage.cluster("a")
    seat.refusing = True
    lost = []

    async def silent(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/demo/status") and len(lost) < 2:
            lost.append(path)
            raise Unreachable("no answer")

    stage.hub.faults.append(silent)
    async with stage.leading(reserve=[seat], pre_bind=[seat]):
        stage.workload("demo")
        await stage.until(lambda: "no seat is free" in stage.says("demo")[2])
        assert len(lost) == 2
        assert seat.taken == 0
        seat.refusing = False
        stage.cluster("b")  # an event, whatever it is
        await stage.until(lambda: stage.placed("demo"), seconds=60)
        assert seat.taken == 1


async def test_of_a_workload_that_is_gone_and_nobody_is_told_that_it_is_bound() -> None:
    stage, seat = Stage(), Seat()
    stage.cluster("a")

    async def gone(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/demo/status"):
            stage.hub.faults.clear()
            stage.hub.remove(WORKLOADS, "demo")

    stage.hub.faults.append(gone)
    async with stage.leading(reserve=[seat], post_bind=[seat]):
        stage.workload("demo")
        await stage.until(lambda: not stage.hub.faults)
        await stage.calm(2)
        assert (seat.taken, seat.told) == (0, [])
        stage.workload("next")
        await stage.until(lambda: seat.told == ["next"])
        assert seat.taken == 1


def test_a_set_one_of_which_was_edited_is_searched_for_no_place_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = []
    decide_together = batch.decide_together

    def noted(*about: Any) -> Any:
        searched.append(about)
        return decide_together(*about)

    monkeypatch.setattr(batch, "decide_together", noted)
    view = View(["8"], units := ring(2))
    found, _ = view.decide(units[0], current=lambda info: info.name != "w1")
    assert len(searched) == 1
    assert not found.decisions[0].scheduled


async def test_an_edited_one_of_a_set_is_placed_with_it_in_the_end() -> None:
    stage = Stage("a")
    for name, other in (("back", "front"), ("front", "back")):
        stage.workload(name, workloadAffinity={REQUIRED: [beside(other)]})
    async with stage.leading():
        stage.hub.edit(WORKLOADS, "back", {"spec": {"replicas": 1}})
        await stage.until(lambda: stage.placed("front") and stage.placed("back") == {"a": 1})
