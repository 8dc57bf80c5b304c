"""Workloads that a plugin gathers: one pass for all of them, and one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import convert, structs

from controller import scheduler
from controller.config import default_profile
from controller.framework.gathering import TrialResult
from controller.framework.profile import Profile
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.scheduling import steps
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from controller.scheduling.steps import Steps
from crds.workload import ScheduledReason
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from tests.controller.crews import Crew
from tests.controller.make import beside
from tests.controller.memory import Stage


def with_crew(*crews: Crew) -> Profile:
    known = default_profile()
    return replace(
        known,
        pre_filter=[*known.pre_filter, *crews],
        filter=[*crews, *known.filter],
        reserve=[*known.reserve, *crews],
    )


@pytest.fixture
def stage() -> Stage:
    return Stage("a", cpu="4")


def status_writes(stage: Stage, *names: str) -> int:
    return sum(len(stage.hub.writes(f"/workloads/{name}/status")) for name in names)


def no_decisions(*_: Any, **__: Any) -> Steps[Batch]:
    """The world does not rest."""
    yield
    return Batch([], moved=True)


async def all_say(stage: Stage, reason: str, *names: str) -> None:
    await stage.until(lambda: all(stage.says(name)[1] == reason for name in names))


async def test_all_of_them_are_placed_in_one_pass(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=4)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=2, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        assert (stage.placed("one"), stage.placed("two")) == ({"a": 2}, {"a": 2})
        assert crew.told == [(TrialResult.PLACE, 4)]
        await stage.calm(5)
        assert status_writes(stage, "one", "two") == 2


async def test_each_sees_the_room_that_those_before_it_took_and_none_is_placed(
    stage: Stage,
) -> None:
    crew = Crew(["one", "two"], least=6)
    for name in crew.names:
        stage.workload(name, replicas=3, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "GroupDenied", "one", "two")
        assert len(crew.judged[0]) == 2
        assert sum(sum(each.values()) for each in crew.judged[0].values()) == 4
        assert (stage.placed("one"), stage.placed("two")) == ({}, {})
        assert stage.says("two")[2] == "4 of 6 hands"
        stage.workload("stranger", replicas=4, cpu="1", distribution="Divided")
        await stage.until(lambda: stage.placed("stranger") == {"a": 4})


async def test_more_room_lets_in_whoever_was_refused(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=6)
    for name in crew.names:
        stage.workload(name, replicas=3, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "GroupDenied", "one", "two")
        stage.cluster("b", cpu="2")
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        both = [stage.placed(name) for name in crew.names]
        assert sum(sum(each.values()) for each in both) == 6


@pytest.mark.proves("G3")
async def test_one_that_goes_to_one_cluster_sends_as_many_as_fit_there(stage: Stage) -> None:
    crew = Crew(["one"], least=3)
    stage.cluster("b", cpu="3")
    stage.workload("one", replicas=6, cpu="1")
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: stage.placed("one") == {"a": 4})
        status, reason, message = stage.says("one")
        assert (status, reason) == ("False", "InsufficientCapacity")
        assert message.startswith("4 of 6 replicas have a cluster; ")
        await stage.calm(5)
        assert stage.placed("one") == {"a": 4}
        stage.cluster("c", cpu="6")
        await stage.until(lambda: stage.placed("one") == {"c": 6})


async def test_the_second_way_is_taken_where_the_first_leads_nowhere(stage: Stage) -> None:
    stage.cluster("b", cpu="8")
    crew = Crew(["one", "two"], least=8, ways=(["a"], ["b"]), order=["two"])
    for name in crew.names:
        stage.workload(name, replicas=4, cpu="1")
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        assert (stage.placed("one"), stage.placed("two")) == ({"b": 4}, {"b": 4})
        assert [list(each) for each in crew.judged[:1]] == [[("shop", "one"), ("shop", "two")]]
        assert crew.judged[0][("shop", "two")] == {"a": 4}, "it goes first"
        assert crew.judged[0][("shop", "one")] == {}


async def test_what_waits_is_held_in_the_books_alone(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=5, near=4)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=3, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "WaitingForGroup", "one", "two")
        assert stage.says("one") == ("False", "WaitingForGroup", "4 of 5 hands")
        assert (stage.placed("one"), stage.placed("two")) == ({}, {})
        stage.workload("stranger", replicas=1, cpu="2")
        await stage.until(lambda: stage.says("stranger")[1] == "InsufficientCapacity")
        await stage.calm(5)
        assert status_writes(stage, "one", "two") == 2, "each was told once"
        stage.cluster("b", cpu="1")
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        assert crew.told[-1] == (TrialResult.PLACE, 5)
        assert sum(stage.placed("two").values()) == 3


@pytest.mark.parametrize("refuses", [False, True], ids=["reserved anew", "refused"])
async def test_where_no_decision_comes_of_it_what_waits_is_reserved_and_held_as_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    crew = Crew(["one", "two"], least=5, near=4)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=3, cpu="1", distribution="Divided")
    reserved: list[str] = []

    def reserve(_state: Any, info: WorkloadInfo, _placements: Any) -> Status:
        reserved.append(info.name)
        return unschedulable("Crew", "no berth") if refuses and len(reserved) > 3 else SUCCESS

    monkeypatch.setattr(crew, "reserve", reserve)
    async with stage.leading(with_crew(crew)) as controller:
        await all_say(stage, "WaitingForGroup", "one", "two")
        assert sorted(reserved) == ["one", "two"]
        monkeypatch.setattr(scheduler, "decide_set", no_decisions)
        stage.cluster("tiny", cpu="100m")
        await stage.until(lambda: len(reserved) == 4)
        assert sorted(crew.given_back[:2]) == sorted(crew.keys)
        held = 0 if refuses else 4
        assert sum(controller.cache.snapshot().flights.replicas) == held
        assert len(crew.given_back) == (4 if refuses else 2)
        assert len(crew.room or ()) == (0 if refuses else 2)


async def test_another_set_takes_nothing_of_what_is_held_while_that_is_decided_anew(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own pass has begun before, and ends meanwhile."""
    held, other = Crew(["one"], least=5, near=4), Crew(["two"], least=4, name="Other")
    stage.workload("one", replicas=5, cpu="1", distribution="Divided")
    begun, ended = list[str](), list[str]()

    def slowly(view: Any, info: WorkloadInfo, *about: Any, **more: Any) -> Steps[Batch]:
        begun.append(info.name)
        while info.name == "two" and "one" not in begun:
            yield
        batch = yield from decide_set(view, info, *about, **more)
        while info.name == "one" and "two" not in ended:
            yield
        ended.append(info.name)
        return batch

    async with stage.leading(with_crew(held, other)):
        await all_say(stage, "WaitingForGroup", "one")
        await stage.calm(1)
        monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(scheduler, "decide_set", slowly)
        stage.workload("two", replicas=4, cpu="1", distribution="Divided")
        await stage.until(lambda: begun == ["two"])
        stage.cluster("tiny", cpu="100m")
        await stage.until(lambda: ended[:2] == ["two", "one"])
        assert begun[:2] == ["two", "one"]
        await stage.calm(3)
        assert stage.placed("two") == {}
        assert stage.says("one")[1] == "WaitingForGroup"


async def test_what_waits_is_given_back_when_its_time_is_over(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=5, near=4, seconds=10.0)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=3, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)) as controller:
        await all_say(stage, "WaitingForGroup", "one", "two")
        assert sum(controller.cache.snapshot().flights.replicas) == 4
        await stage.calm(9)
        assert stage.says("one")[1] == "WaitingForGroup"
        crew.near = 10**6

        def over(name: str) -> bool:
            writes = stage.hub.writes(f"/workloads/{name}/status")
            return any("ScheduleTimeout" in str(each) for each in writes)

        await stage.until(lambda: over("one") and over("two"))
        assert sum(controller.cache.snapshot().flights.replicas) == 0
        assert set(crew.given_back) == set(crew.keys)


async def test_what_waits_is_written_when_the_plugin_allows_it(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=5, near=4)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=3, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "WaitingForGroup", "one", "two")
        assert crew.room is not None
        crew.sails = True
        for key in crew.keys:
            crew.room.allow(key, crew.name)
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        assert (stage.placed("one"), stage.placed("two")) == ({"a": 2}, {"a": 2})


async def test_one_that_waits_and_is_edited_comes_anew_with_the_others(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=5, near=4)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=3, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "WaitingForGroup", "one", "two")
        stage.hub.edit(WORKLOADS, "two", {"metadata": {"generation": 2}, "spec": {"replicas": 2}})
        crew.least = 4
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        assert (stage.placed("one"), stage.placed("two")) == ({"a": 2}, {"a": 2})


async def test_shares_of_a_refused_one_are_taken_back_where_the_plugin_says_so(
    stage: Stage,
) -> None:
    crew = Crew(["one", "two"], least=9, emptied=["one"])
    for name in crew.names:
        stage.workload(name, replicas=2, cpu="1", distribution="Divided")
        there = {"placements": [{"cluster": "a", "replicas": 1}], "desired": 2}
        stage.hub.edit(WORKLOADS, name, {"status": there}, status=True)
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: stage.says("two")[1] == stage.says("one")[1] == "GroupDenied")
        assert (stage.placed("one"), stage.placed("two")) == ({}, {"a": 1})
        assert stage.hub.read(WORKLOADS, "one")["status"]["state"] == "Pending"


async def test_a_refusal_before_any_pass_reaches_all(stage: Stage) -> None:
    status = unschedulable("Crew", "the harbour is shut", reason=ScheduledReason.GROUP_DENIED)
    crew = Crew(["one", "two"], least=1, refusal=status)
    for name in crew.names:
        stage.workload(name, replicas=1)
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "GroupDenied", "one", "two")
        assert stage.says("two")[2] == "the harbour is shut"
        assert crew.judged == []
        assert crew.told[0] == (TrialResult.REFUSE, 0)


async def test_members_may_require_each_other(stage: Stage) -> None:
    crew = Crew(["one", "two", "three"], least=3)
    stage.cluster("b", cpu="4")

    def wants(name: str) -> Mapping[str, Any]:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [beside(name)]}

    stage.workload("one", replicas=1, workloadAffinity=wants("two"))
    stage.workload("two", replicas=1, workloadAffinity=wants("one"))
    stage.workload("three", replicas=1, workloadAffinity=wants("two"))
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: all(stage.placed(name) for name in crew.names))
        assert len({tuple(stage.placed(name)) for name in crew.names}) == 1


async def test_who_requires_another_member_comes_after_it(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=2)
    wants = {"requiredDuringSchedulingIgnoredDuringExecution": [beside("two")]}
    stage.workload("one", replicas=1, workloadAffinity=wants)
    stage.workload("two", replicas=1)
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: all(stage.placed(name) for name in crew.names))


@pytest.mark.parametrize("point", ["gathering", "attempts", "next", "judge"])
async def test_a_fault_of_the_plugin_is_told_and_the_next_workload_is_placed(
    stage: Stage, point: str
) -> None:
    crew = Crew(["one", "two"], least=2, fails_at=point)
    stage.workload("one", replicas=1)
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "PluginError", "one")
        assert "Crew" in stage.says("one")[2]
        assert "lost at" in stage.says("one")[2]
        if point != "gathering":
            stage.workload("stranger", replicas=1)
            await stage.until(lambda: stage.placed("stranger") == {"a": 1})


async def test_a_fault_while_it_is_told_changes_nothing(stage: Stage) -> None:
    crew = Crew(["one"], least=1, fails_at="concluded")
    stage.workload("one", replicas=1)
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: stage.placed("one") == {"a": 1})


async def test_a_diagnosis_asks_the_same_and_tells_the_plugin_nothing(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=9)
    for name in crew.names:
        stage.workload(name, replicas=1)
    async with stage.leading(with_crew(crew)) as controller:
        await all_say(stage, "GroupDenied", "one", "two")
        await stage.calm(1)
        told, judged = len(crew.told), len(crew.judged)
        found = await controller.diagnosis(("shop", "one"))
        assert found is not None
        assert (len(crew.told), len(crew.judged)) == (told, judged + 1)


async def test_one_that_no_plugin_gathers_is_decided_alone(stage: Stage) -> None:
    crew = Crew(["one", "two"], least=9)
    stage.workload("three", replicas=1)
    async with stage.leading(with_crew(crew)):
        await stage.until(lambda: stage.placed("three") == {"a": 1})
        assert (crew.asked, crew.told) == ([], [])


async def test_a_cluster_that_goes_while_they_wait_makes_it_void(stage: Stage) -> None:
    stage.cluster("b", cpu="1")
    crew = Crew(["one", "two"], least=6, near=5)
    stage.workload("one", replicas=2, cpu="1", distribution="Divided")
    stage.workload("two", replicas=4, cpu="1", distribution="Divided")
    async with stage.leading(with_crew(crew)) as controller:
        await all_say(stage, "WaitingForGroup", "one", "two")
        stage.hub.remove(MEMBER_CLUSTERS, "b")
        await all_say(stage, "GroupDenied", "one", "two")
        assert sum(controller.cache.snapshot().flights.replicas) == 0


async def test_they_are_decided_again_where_the_world_does_not_rest(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever changes while it is decided: nothing is written that would not be found again."""
    crew = Crew(["one", "two"], least=4)
    left = 5

    async with stage.leading(with_crew(crew)) as controller:
        judge = crew.judge

        def restless(*about: Any) -> Any:
            nonlocal left
            left -= 1
            if left > 0:  # somebody takes the room, or leaves it
                free = {"cpu": str(2 + 2 * (left % 2)), "memory": "32Gi", "pods": "110"}
                body = {"status": {"nodeGroups": [{"count": 1, "free": free}]}}
                stage.hub.edit(MEMBER_CLUSTERS, "a", body, status=True)
                stored = controller.clusters.get(("", "a"))
                assert stored is not None
                group = {"count": 1, "free": free}
                status = structs.replace(
                    stored.status, node_groups=[convert(group, type(stored.status.node_groups[0]))]
                )
                controller.cache.cluster_changed(stored, structs.replace(stored, status=status))
            return judge(*about)

        monkeypatch.setattr(crew, "judge", restless)
        for name in crew.names:
            stage.workload(name, replicas=2, cpu="1", distribution="Divided")
        await stage.until(lambda: stage.placed("one") and stage.placed("two"))
        assert left <= 0
        assert (stage.placed("one"), stage.placed("two")) == ({"a": 2}, {"a": 2})
