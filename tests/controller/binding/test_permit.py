"""Reserve, Permit, PreBind and PostBind: asked once, told on the object, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from controller.framework.interface import CycleState, FilterMask
from controller.framework.status import SUCCESS, Status, unschedulable, wait
from controller.framework.waiting import WaitingWorkloads
from controller.model.unit import WorkloadInfo
from controller.snapshot.builder import Snapshot
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.errors import Unreachable
from tests.controller.live import placements
from tests.controller.memory import Stage

pytestmark = pytest.mark.proves("L4")

SHOP = ("shop", "demo")


class Gate:
    """Permits nothing until it is told to, and keeps a book of all that it was asked."""

    name = "Gate"

    def __init__(self, *, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self.waiting_workloads: WaitingWorkloads | None = None
        self.asked: list[tuple[str, ...]] = []
        self.taken: dict[tuple[str, ...], Mapping[str, int]] = {}
        self.bound: list[tuple[str, ...]] = []
        self.notes: list[Any] = []

    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        self.waiting_workloads = waiting

    def filter(
        self, state: CycleState, _info: WorkloadInfo, _snapshot: Snapshot, _bound: Any
    ) -> FilterMask:
        state.data[self.name] = "seen"
        return FilterMask(())

    ignored_during_execution = True

    def reserve(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        self.notes.append(state.data.get(self.name))
        self.taken[info.key] = placements
        return SUCCESS

    def unreserve(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        self.taken.pop(info.key, None)

    def permit(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        self.asked.append(info.key)
        return wait(self.name, "the gate is shut", seconds=self.seconds)

    def post_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        self.notes.append(state.data.get(self.name))
        self.bound.append(info.key)

    def points(self) -> dict[str, Any]:
        return {"reserve": [self], "permit": [self], "post_bind": [self]}

    @property
    def waiting(self) -> list[tuple[str, ...]]:
        assert self.waiting_workloads is not None
        return [each.workload.key for each in self.waiting_workloads.iterate()]


@pytest.fixture
def stage() -> Stage:
    return Stage("a")


async def test_one_that_waits_is_asked_once_and_says_so_once(stage: Stage) -> None:
    gate = Gate()
    async with stage.leading(**gate.points()):
        stage.workload("demo")
        await stage.until(lambda: stage.says("demo")[1] == "WaitingOnPermit")
        assert stage.says("demo") == (
            "False",
            "WaitingOnPermit",
            "waits for Gate, 60 s at most; the gate is shut",
        )
        await stage.calm(50)
        assert gate.asked == [SHOP]
        assert gate.taken == {SHOP: {"a": 2}}
        assert len(stage.hub.writes("/workloads/demo/status")) == 1
        assert len(stage.hub.events("WaitingOnPermit")) == 1
        assert stage.placed("demo") == {}


async def test_what_waits_holds_its_room(stage: Stage) -> None:
    gate = Gate()
    async with stage.leading(**gate.points()):
        stage.workload("demo", cpu="3")
        await stage.until(lambda: gate.waiting == [SHOP])
        stage.hub.edit(WORKLOADS, "demo", {"status": {"clusterSummary": "x"}}, status=True)
        await stage.calm(1)
        stage.workload("late", cpu="3")
        await stage.until(lambda: stage.says("late")[1] == "InsufficientCapacity")
        assert gate.waiting == gate.asked == [SHOP]


async def test_one_that_is_allowed_is_written_and_post_bind_sees_the_state(stage: Stage) -> None:
    gate = Gate()
    async with stage.leading(filter=[gate], **gate.points()):
        stage.workload("demo")
        await stage.until(lambda: gate.waiting == [SHOP])
        await stage.calm(5)
        assert gate.waiting_workloads is not None
        gate.waiting_workloads.allow(SHOP, "Gate")
        await stage.until(lambda: stage.placed("demo") == {"a": 2})
        assert stage.says("demo")[:2] == ("True", "Scheduled")
        await stage.calm(1)
        assert (gate.bound, gate.notes, gate.waiting) == ([SHOP], ["seen", "seen"], [])
        assert gate.asked == [SHOP]


async def test_one_that_is_rejected_says_why_and_gives_back(stage: Stage) -> None:
    gate = Gate()
    async with stage.leading(**gate.points()):
        stage.workload("demo")
        await stage.until(lambda: gate.waiting == [SHOP])
        assert gate.waiting_workloads is not None
        gate.waiting_workloads.reject(SHOP, "Gate", "not this week")
        await stage.until(lambda: stage.hub.events("FailedScheduling"))
        (event,) = stage.hub.events("FailedScheduling")
        assert event["note"] == "Gate rejected the decision: not this week"
        assert stage.placed("demo") == {}


async def test_one_that_nobody_answers_times_out(stage: Stage) -> None:
    gate = Gate(seconds=20)
    async with stage.leading(**gate.points()):
        stage.workload("demo")
        await stage.until(lambda: gate.waiting == [SHOP])
        await stage.until(lambda: stage.hub.events("FailedScheduling"), seconds=25)
        (event,) = stage.hub.events("FailedScheduling")
        assert event["note"] == "Gate did not permit the decision within 20 s"
        await stage.until(lambda: len(gate.asked) == 2)  # its turn comes again, not at once


@pytest.mark.parametrize("change", ["edit", "delete", "cluster"])
async def test_one_that_is_edited_or_deleted_is_given_back(stage: Stage, change: str) -> None:
    gate = Gate()
    stage.cluster("b", cpu="1")
    async with stage.leading(**gate.points()):
        stage.workload("demo")
        await stage.until(lambda: gate.waiting == [SHOP])
        before = gate.taken[SHOP]
        if change == "delete":
            stage.hub.remove(WORKLOADS, "demo")
            await stage.until(lambda: not gate.taken)
            assert gate.waiting == []
            return
        if change == "edit":
            stage.hub.edit(WORKLOADS, "demo", {"spec": {"replicas": 3}})
        else:
            stage.cluster("c")
            stage.hub.remove(MEMBER_CLUSTERS, "a")
        await stage.until(lambda: gate.taken.get(SHOP) not in (None, before))
        assert gate.taken == {SHOP: {"a": 3} if change == "edit" else {"c": 2}}
        assert len(gate.asked) == 2


async def test_the_end_of_a_term_gives_back(stage: Stage) -> None:
    gate = Gate()
    async with stage.leading(**gate.points()) as controller:
        stage.workload("demo")
        await stage.until(lambda: gate.waiting == [SHOP])
        held = controller.cache.shares("a")
    assert held == {SHOP: 2}
    assert gate.taken == {}
    assert controller.cache.shares("a") == {}
    free = Gate(seconds=5)
    async with stage.leading(identity="two", **free.points()):
        await stage.until(lambda: free.waiting == [SHOP])


async def test_a_set_waits_as_one(stage: Stage) -> None:
    class OnlyFront(Gate):
        def permit(
            self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
        ) -> Status:
            self.asked.append(info.key)
            return wait(self.name, seconds=60) if info.name == "front" else SUCCESS

    gate = OnlyFront()
    async with stage.leading(**gate.points()):
        stage.workload("back", workloadAffinity=beside("front"))
        stage.workload("front", workloadAffinity=beside("back"))
        await stage.until(lambda: stage.says("back")[1] == "WaitingOnPermit")
        assert stage.says("back")[2] == "waits with shop/front for Gate, 60 s at most"
        assert set(gate.taken) == {("shop", "back"), ("shop", "front")}
        assert gate.waiting_workloads is not None
        gate.waiting_workloads.allow(("shop", "front"), "Gate")
        await stage.until(lambda: stage.placed("back") and stage.placed("front"))
        assert stage.placed("back") == stage.placed("front") == {"a": 2}


def beside(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "stowage.dev/cluster"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


async def test_reserve_is_called_before_the_next_decision(stage: Stage) -> None:
    """A quota of one unit, kept by Reserve alone: two decisions at once do not both get it."""

    class One(Gate):
        def reserve(
            self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
        ) -> Status:
            if self.taken:
                return unschedulable(self.name, "the one place is taken")
            return super().reserve(state, info, placements)

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and "/workloads/" in path:
            await stage.clock.sleep(3)

    book = One()
    stage.hub.faults.append(slow)
    stage.workload("demo", replicas=1)
    stage.workload("other", replicas=1)
    async with stage.leading(reserve=[book]):
        await stage.until(lambda: stage.says("demo")[0] and stage.says("other")[0])
        said = {stage.says(name)[1:] for name in ("demo", "other")}
        assert ("FailedToSchedule", "the one place is taken") in said
        assert len(book.taken) == 1


class Broken:
    """Raises at one point."""

    name = "Broken"
    ignored_during_execution = True

    def __init__(self, point: str) -> None:
        self.point = point

    def _do(self, point: str, answer: Any) -> Any:
        if point == self.point:
            raise RuntimeError("out of order")
        return answer

    def filter(self, *_: Any) -> FilterMask:
        return self._do("Filter", FilterMask(()))  # type: ignore[no-any-return] # what it is given

    def reserve(self, *_: Any) -> Status:
        return self._do("Reserve", SUCCESS)  # type: ignore[no-any-return] # what it is given

    def unreserve(self, *_: Any) -> None:
        self._do("Unreserve", None)

    def permit(self, *_: Any) -> Status:
        return self._do("Permit", SUCCESS)  # type: ignore[no-any-return] # what it is given

    async def pre_bind(self, *_: Any) -> Status:
        return self._do("PreBind", SUCCESS)  # type: ignore[no-any-return] # what it is given

    def post_bind(self, *_: Any) -> None:
        self._do("PostBind", None)


@pytest.mark.parametrize("point", ["Filter", "Reserve", "Permit", "PreBind"])
async def test_a_plugin_that_raises_is_named_and_the_loop_goes_on(stage: Stage, point: str) -> None:
    plugin = Broken(point)
    used = ("filter", "reserve", "permit", "pre_bind", "post_bind")
    async with stage.leading(**{name: [plugin] for name in used}):
        stage.workload("demo")
        await stage.until(lambda: stage.says("demo")[1] == "PluginError")
        status, _, message = stage.says("demo")
        assert status == "False"
        assert f"plugin Broken failed at {point}: RuntimeError: out of order" in message
        await stage.calm(1)
        (event,) = stage.hub.events("FailedScheduling")
        assert f"plugin Broken failed at {point}" in event["note"]
        plugin.point = ""
        stage.workload("other")
        await stage.until(lambda: stage.placed("other") == {"a": 2})
        await stage.until(lambda: stage.placed("demo") == {"a": 2}, seconds=60)


async def test_a_pre_bind_that_hangs_is_a_fault_of_the_plugin(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(Broken):
        async def pre_bind(self, *_: Any) -> Status:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("controller.framework.runtime.framework.PRE_BIND_SECONDS", 0.05)
    async with stage.leading(pre_bind=[Hanging("")]):
        stage.workload("demo")
        while stage.says("demo")[1] != "PluginError":
            await asyncio.sleep(0.01)
            await stage.clock.advance(0.01)
        assert "failed at PreBind: no answer within 0 s" in stage.says("demo")[2]
        assert placements(stage.hub.read(WORKLOADS, "demo")) == {}


async def test_a_set_that_times_out_is_given_back_whole_though_nobody_can_be_told(
    stage: Stage,
) -> None:
    """Nothing may be decided beside one of it that only seems to be there."""
    counted: list[Mapping[Any, int]] = []

    async def unavailable(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and "/workloads/" in path:
            counted.append(controller.cache.shares("a"))
            raise Unreachable("the hub is away")

    gate = Gate(seconds=20)
    async with stage.leading(**gate.points()) as controller:
        stage.workload("back", workloadAffinity=beside("front"))
        stage.workload("front", workloadAffinity=beside("back"))
        await stage.until(lambda: stage.says("front")[1] and stage.says("back")[1])
        assert len(controller.cache.shares("a")) == 2
        stage.hub.faults.append(unavailable)
        await stage.until(lambda: counted)
        assert counted[0] == {}
        stage.hub.faults.remove(unavailable)
        asked = len(gate.asked)
        await stage.until(lambda: len(gate.asked) >= asked + 2)
        assert len(controller.cache.shares("a")) == 2
