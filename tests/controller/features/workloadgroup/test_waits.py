"""A gang is held for its last few units, and taken back when its time is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller import scheduler
from controller.features.workloadgroup.plugin import Coscheduling
from controller.scheduler import Scheduler
from controller.scheduling import sets, steps
from controller.scheduling.sets import Batch
from controller.scheduling.steps import Steps
from crds.names import LABEL_GROUP
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_SPREADS,
    WORKLOADS,
)
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.features.workloadspread.spreads import stored, subset


def _group(**spec: int) -> dict[str, Any]:
    return {"metadata": {"name": "crew", "namespace": "shop", "generation": 1}, "spec": spec}


@pytest.fixture
def stage(tmp_path: Path) -> Gangs:
    made = Gangs(tmp_path)
    made.cluster("a", cpu="9")
    made.hub.put(WORKLOAD_GROUPS, _group(minMember=10, scheduleTimeoutSeconds=10))
    made.workload("one", replicas=10, labels={LABEL_GROUP: "crew"}, distribution="Divided")
    return made


@pytest.mark.proves("G6")
@pytest.mark.proves("G16")
async def test_what_was_held_for_too_long_is_not_held_again_until_something_is_new(
    stage: Gangs,
) -> None:
    async with stage.led() as controller:

        def flying() -> int:
            return int(controller.cache.snapshot().flights.replicas.sum())

        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        assert flying() == 9
        await stage.until(lambda: stage.says("one")[1] == "ScheduleTimeout", seconds=12)
        said = stage.says("one")
        assert "was held for 10 s (scheduleTimeoutSeconds)" in said[2]
        writes = len(stage.hub.writes("/workloads/one/status"))
        for second in range(30):
            stage.cluster(f"full-{second}", cpu="100m")  # comes, and helps it not
            await stage.calm(1)
            assert flying() == 0
        assert stage.says("one") == said
        assert len(stage.hub.writes("/workloads/one/status")) == writes
        stage.cluster("b", cpu="1")
        await stage.until(lambda: stage.placed("one") == {"a": 9, "b": 1})


@pytest.mark.proves("G5", "G6", "G18")
async def test_what_is_held_is_placed_as_soon_as_others_have_placed_the_rest(stage: Gangs) -> None:
    stage.workload("other", labels={LABEL_GROUP: "crew"}, replicas=1, schedulerName="somebody")
    async with stage.led():
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        share = {"placements": [{"cluster": "theirs", "replicas": 1}]}
        stage.hub.edit(WORKLOADS, "other", {"status": share}, status=True)
        await stage.until(lambda: stage.placed("one") == {"a": 9}, seconds=2)


@pytest.mark.proves("G16")
async def test_what_comes_in_the_first_moments_of_the_wait_completes_it(stage: Gangs) -> None:
    """The first news is waited out for half a second, and the second comes before that is over."""
    async with stage.led():
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        stage.cluster("small", cpu="100m")
        await stage.calm(0.2)
        stage.cluster("b", cpu="1")
        await stage.until(lambda: stage.placed("one") == {"a": 9, "b": 1}, seconds=3)


@pytest.mark.long
@pytest.mark.proves("G16")
async def test_room_that_comes_while_it_is_decided_anew_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody of the gang waits for an event in that moment."""
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    stage, whole, coming = Gangs(tmp_path), [f"m{n:02}" for n in range(60)], list[str]()
    stage.cluster("a", cpu="57")
    stage.hub.put(WORKLOAD_GROUPS, _group(minMember=60, scheduleTimeoutSeconds=60))
    for name in whole:
        stage.workload(name, replicas=1, labels={LABEL_GROUP: "crew"}, distribution="Divided")
    attempts = Coscheduling.attempts

    def attempted(self: Coscheduling, *about: Any) -> Any:
        if coming:
            stage.cluster(coming.pop(), cpu="3")
        return attempts(self, *about)

    monkeypatch.setattr(Coscheduling, "attempts", attempted)
    async with stage.led():
        await stage.until(lambda: "held" in stage.says(whole[-1])[2])
        await stage.calm(3)
        coming.append("b")
        stage.hub.edit(WORKLOADS, whole[0], {"metadata": {"annotations": {"note": "x"}}})
        await stage.calm(1)
        assert not coming
        await stage.until(lambda: all(map(stage.placed, whole)), seconds=5)


@pytest.mark.proves("G6")
async def test_nobody_takes_what_is_held_while_it_is_decided_anew(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    async with stage.led():
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        stage.workload("stranger", replicas=2, distribution="Divided", created=30)
        await stage.calm(2)
        assert stage.placed("stranger") == {}
        stage.cluster("tiny", cpu="100m")
        await stage.calm(3)
        assert stage.placed("stranger") == {}
        assert stage.says("one")[1] == "WaitingForGroup"
        await stage.until(lambda: stage.placed("stranger") == {"a": 2}, seconds=8)
        assert stage.says("one")[1] == "ScheduleTimeout"


@pytest.mark.proves("G6")
async def test_it_is_held_on_where_the_world_does_not_rest_to_decide_it_anew(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    stage.cluster("small", cpu="100m")
    made, attempts = list[int](), Coscheduling.attempts

    def attempted(self: Coscheduling, *about: Any) -> Any:
        made.append(len(made))
        stage.hub.edit(MEMBER_CLUSTERS, "small", {"metadata": {"labels": {"n": f"{len(made)}"}}})
        return attempts(self, *about)

    def elsewhere(*_: Any) -> Steps[bool]:
        yield
        return False

    async with stage.led() as controller:
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        said = stage.says("one")
        stage.workload("stranger", replicas=2, distribution="Divided", created=30)
        await stage.calm(2)
        monkeypatch.setattr(Coscheduling, "attempts", attempted)
        monkeypatch.setattr(sets, "_confirmed", elsewhere)
        stage.cluster("tiny", cpu="100m")
        await stage.calm(3)
        assert 3 < len(made) < 30, "it is decided anew, and not without a pause"
        assert (stage.placed("stranger"), stage.says("one")) == ({}, said)
        assert int(controller.cache.snapshot().flights.replicas.sum()) == 9
        monkeypatch.setattr(Coscheduling, "attempts", attempts)
        stage.cluster("b", cpu="1")
        await stage.until(lambda: stage.placed("one") == {"a": 9, "b": 1}, seconds=3)


@pytest.mark.proves("G5", "G6")
async def test_a_member_whose_write_takes_long_makes_the_wait_no_longer(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes to no decision meanwhile, and to one when that is through."""
    stage.hub.edit(WORKLOAD_GROUPS, "crew", {"spec": {"scheduleTimeoutSeconds": 30}})
    deciding, slow = Scheduler._decide, ("shop", "slow")
    came = list[Scheduler]()

    async def busy(self: Scheduler, *about: Any, reopened: bool) -> Batch:
        came.append(self)
        self._in_flight.begin([slow])
        return Batch([], frozenset({slow}))

    async with stage.led() as controller:
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        began = stage.clock.monotonic()
        monkeypatch.setattr(Scheduler, "_decide", busy)
        stage.cluster("small", cpu="100m")
        await stage.until(lambda: came)
        await stage.calm(12)
        assert int(controller.cache.snapshot().flights.replicas.sum()) == 9
        assert stage.hub.read(WORKLOAD_GROUPS, "crew")["status"]["waiting"] == 9
        monkeypatch.setattr(Scheduler, "_decide", deciding)
        controller.cache.activate(came[0]._in_flight.end([slow]))
        await stage.until(lambda: stage.says("one")[1] == "ScheduleTimeout", seconds=60)
        assert stage.clock.monotonic() - began < 32


@pytest.mark.proves("G5")
async def test_its_status_counts_what_is_held_while_it_is_decided_anew(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A very large gang takes seconds for a pass, and what it held counts nowhere meanwhile."""
    taking, said = scheduler.in_slices, list[int]()

    async def slowly(taken: Steps[Batch], **about: Any) -> Batch:
        batch = await taking(taken, **about)
        if batch.conclusion is not None:
            await stage.clock.sleep(2)
        return batch

    def told(waiting: int) -> bool:
        said.append(stage.hub.read(WORKLOAD_GROUPS, "crew").get("status", {}).get("waiting", 0))
        return said[-1] == waiting

    monkeypatch.setattr(scheduler, "in_slices", slowly)
    async with stage.led():
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        await stage.until(lambda: told(9))
        for number in range(60):
            stage.hub.edit(MEMBER_CLUSTERS, "a", {"metadata": {"labels": {"n": f"{number}"}}})
            stage.hub.edit(
                WORKLOAD_GROUPS, "crew", {"metadata": {"annotations": {"n": f"{number}"}}}
            )
            await stage.calm(0.1)
            assert told(9)
        events = stage.hub.events("WaitingForGroup")
        assert len([each for each in events if each["regarding"]["kind"] == "WorkloadGroup"]) == 1


@pytest.mark.proves("G16")
@pytest.mark.parametrize("how", ["deleted", "faulty", "raised"])
async def test_all_that_was_held_comes_again_where_it_holds_nothing_together_any_more(
    tmp_path: Path, how: str
) -> None:
    """One of the two waits for nothing: it has all that it wants."""
    stage = Gangs(tmp_path)
    stage.cluster("a", cpu="9")
    stage.hub.put(WORKLOAD_GROUPS, _group(minMember=10, scheduleTimeoutSeconds=60))
    stage.workload("aa", replicas=1, cpu="20", labels={LABEL_GROUP: "crew"}, distribution="Divided")
    stage.workload("bb", replicas=9, labels={LABEL_GROUP: "crew"}, distribution="Divided")
    async with stage.led():
        await stage.until(lambda: stage.says("bb")[1] == "WaitingForGroup")
        stage.workload("stranger", replicas=2, distribution="Divided")
        await stage.calm(0.1)
        if how == "deleted":
            stage.hub.remove(WORKLOAD_GROUPS, "crew")
        else:
            spec = {"scheduleTimeoutSeconds": 10**5} if how == "faulty" else {"minMember": 11}
            edit = {"metadata": {"generation": 2}, "spec": spec}
            stage.hub.edit(WORKLOAD_GROUPS, "crew", edit)
        await stage.until(lambda: stage.placed("stranger") == {"a": 2}, seconds=5)
        says = {"deleted": "GroupNotFound", "faulty": "InvalidGroup", "raised": "GroupIncomplete"}
        for name in ("aa", "bb"):
            assert stage.says(name)[1] == says[how]
            assert "held" not in stage.says(name)[2]


async def test_a_world_that_never_rests_has_it_decided_no_more_often_than_its_patience_lets(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    stage.hub.edit(WORKLOAD_GROUPS, "crew", {"spec": {"scheduleTimeoutSeconds": 60}})
    stage.cluster("small", cpu="100m")
    made, attempts = list[float](), Coscheduling.attempts

    def attempted(self: Coscheduling, *about: Any) -> Any:
        made.append(stage.clock.monotonic())
        stage.hub.edit(MEMBER_CLUSTERS, "small", {"metadata": {"labels": {"n": f"{len(made)}"}}})
        return attempts(self, *about)

    monkeypatch.setattr(Coscheduling, "attempts", attempted)
    async with stage.led():
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        await stage.calm(50)
        assert stage.says("one")[1] == "WaitingForGroup"
        assert len(made) < 20


async def test_nine_tenths_of_the_time_are_everybodys_while_one_is_decided_anew_all_the_time(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A very large gang takes seconds for a pass, and nobody else decides meanwhile."""
    stage.hub.edit(WORKLOAD_GROUPS, "crew", {"spec": {"scheduleTimeoutSeconds": 600}})
    made, taking = list[float](), scheduler.in_slices

    async def slowly(taken: Steps[Batch], **about: Any) -> Batch:
        batch = await taking(taken, **about)
        if batch.conclusion is not None:
            made.append(stage.clock.monotonic())
            await stage.clock.sleep(2)
        return batch

    monkeypatch.setattr(scheduler, "in_slices", slowly)
    async with stage.led():
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        made.clear()
        for number in range(100):
            stage.cluster(f"small-{number}", cpu="100m")
            await stage.calm(1)
        assert 4 <= len(made) <= 6
        stage.cluster("b", cpu="1")
        await stage.until(lambda: sum(stage.placed("one").values()) == 10, seconds=25)


@pytest.mark.proves("G6")
async def test_an_edit_lets_it_be_held_once_more(stage: Gangs) -> None:
    async with stage.led() as controller:
        await stage.until(lambda: stage.says("one")[1] == "ScheduleTimeout", seconds=15)
        stage.hub.edit(
            WORKLOAD_GROUPS,
            "crew",
            {"metadata": {"generation": 2}, "spec": {"scheduleTimeoutSeconds": 20}},
        )
        await stage.until(lambda: stage.says("one")[1] == "WaitingForGroup")
        assert int(controller.cache.snapshot().flights.replicas.sum()) == 9
        stage.hub.edit(WORKLOADS, "one", {"metadata": {"generation": 2}, "spec": {"replicas": 9}})
        await stage.until(lambda: "minMember is 10" in stage.says("one")[2])
        assert int(controller.cache.snapshot().flights.replicas.sum()) == 0


@pytest.mark.proves("G24")
async def test_what_is_taken_back_counts_nowhere_any_more_and_history_says_so(stage: Gangs) -> None:
    """Also not against a policy, nor in the books of a spread."""
    stage.hub.edit(WORKLOAD_GROUPS, "crew", {"spec": {"minMember": 4}})
    stage.hub.remove(WORKLOADS, "one")
    group = {LABEL_GROUP: "crew"}
    policy = {"stowage.dev/workload-policy": "quota", "app": "bound"}
    stage.hub.put(
        WORKLOAD_POLICIES,
        {
            "metadata": {"name": "quota", "namespace": "shop", "generation": 1, "uid": "uid-quota"},
            "spec": {
                "topologyKey": "stowage.dev/cluster",
                "labelSelector": {"matchLabels": {"app": "bound"}},
                "allocationPolicy": [{"name": "a", "replicas": 2}],
                "allocationType": "Required",
            },
        },
    )
    stage.hub.put(WORKLOAD_SPREADS, stored(subset("all", kind=""), target="spread"))
    async with stage.led() as controller:
        await stage.until(lambda: stage.hub.read(WORKLOAD_SPREADS, "ws").get("status"))
        stage.workload("spread", replicas=2, labels=group)
        stage.workload("bound", replicas=2, labels={**group, **policy}, distribution="Divided")

        def gate() -> str:
            found: str = stage.hub.read(WORKLOAD_GROUPS, "crew")["status"].get("gate") or ""
            return found

        def counted() -> tuple[int, int]:
            books = stage.hub.read(WORKLOAD_SPREADS, "ws")["status"]["subsetStatuses"][0]
            quota = stage.hub.read(WORKLOAD_POLICIES, "quota")["status"]["allocated"][0]
            return books["replicas"], quota["replicas"]

        await stage.until(lambda: gate() == "Open")
        assert (stage.placed("spread"), stage.placed("bound")) == ({"a": 2}, {"a": 2})
        await stage.until(lambda: counted() == (2, 2))
        away = {"clusters": [{"name": "a", "replicas": 2, "state": "Unreachable"}]}
        stage.hub.edit(WORKLOADS, "spread", {"status": away}, status=True)
        await stage.until(lambda: not stage.placed("spread") and not stage.placed("bound"))
        assert int(controller.cache.snapshot().flights.replicas.sum()) == 0
        for name in ("spread", "bound"):
            (last,) = stage.hub.read(WORKLOADS, name)["status"]["history"][-1:]
            assert (last["cause"], last["name"]) == ("GroupWithdrawn", "crew")
        await stage.until(lambda: counted() == (0, 0))
        stage.hub.edit(WORKLOADS, "spread", {"status": {"clusters": []}}, status=True)
        await stage.until(lambda: gate() == "")
        await stage.calm(5)
        assert stage.placed("bound") == {}, "there is a pause before the next try"
        await stage.until(lambda: gate() == "Open")
        await stage.until(lambda: counted() == (2, 2))
