"""After its quorum has run a gang needs none, whatever is lost, deleted or edited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crds.groups.gate import decision_of
from machinery.api.resources import WORKLOADS
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.features.workloadgroup.test_plugin import estimates

pytestmark = pytest.mark.proves("G24")

BATCH = (NS, "batch")
RAN = "2026-01-01T00:00:30Z"


@pytest.fixture
def stage(tmp_path: Path) -> Gangs:
    return Gangs(tmp_path)


def status(gate: str | None = "Open", ran: Any = RAN, **members: dict[str, int]) -> dict[str, Any]:
    """That of a group whose quorum has run, with these members released."""
    released = {f"uid-{name}": decision_of(there) for name, there in members.items()}
    return {"phase": "Running", "gate": gate or "", "quorumTime": ran, "decisions": released}


def yard(said: dict[str, Any], *cpu: str, least: int = 4, **spec: Any) -> Yard:
    made = Yard(*(room(name, each) for name, each in zip("abcd", cpu, strict=False)))
    made.group(group(min_member=least, status=said, **spec))
    return made


def lost(made: Yard, name: str, units: int, **how: Any) -> None:
    """A member all of whose units are on a cluster that is gone."""
    made.store(member(name, units, present={"gone": units}, **how))


def test_after_it_the_units_of_a_lost_cluster_are_replaced_though_a_sibling_was_deleted() -> None:
    made = yard(status(worker={"gone": 2}), "30")
    lost(made, "worker", 2)
    batch = made.batch()
    [found] = batch.decisions
    assert batch.conclusion is None
    assert (found.placements, found.desired) == ({"a": 2}, 2)


def test_after_it_as_many_of_them_are_placed_as_there_is_room_for() -> None:
    made = yard(status(other={"b": 2}), "3", "0").having(member("other", 2, present={"b": 2}))
    made.store(member(replicas=2))
    found = made.decide()["worker"]
    assert (found.placements, found.pending) == ({"a": 1}, 1)
    assert found.reason == "InsufficientCapacity"
    assert "WorkloadGroup shop/batch has run with a minMember of 4 without them" in found.message
    assert made.plugin.memory.why(BATCH) == ""


def test_after_it_a_greater_minmember_keeps_no_lost_unit_from_its_place() -> None:
    made = yard(status(worker={"gone": 4}), "30", least=50)
    lost(made, "worker", 4)
    assert made.decide()["worker"].placements == {"a": 4}


def test_after_it_no_estimate_no_denial_and_no_turn_is_asked_for() -> None:
    made = yard(status(worker={"gone": 4}), "6", least=10)
    lost(made, "worker", 4)
    before = estimates()
    assert made.decide()["worker"].placements == {"a": 2}
    assert estimates() == before
    assert made.plugin.next_look(made.world.info((NS, "worker")), made.time.at) is None


def test_after_it_a_sibling_that_comes_wakes_who_waits_though_they_are_too_few() -> None:
    made = yard(status(worker={"a": 2}), "6")
    old = made.store(member(replicas=3, present={"a": 2}))
    new = member("late", 1)
    assert made.plugin._sibling(old.info, None, new)
    made.group(group(status={"phase": "Pending"}, generation=2))
    assert not made.plugin._sibling(old.info, None, new)


def test_a_member_of_no_units_has_its_placement_and_is_scaled_up_without_a_quorum() -> None:
    made = yard(status(worker={"a": 0}), "30").having(member(replicas=2, present={"a": 0}))
    assert made.decide()["worker"].placements == {"a": 2}


# --- where it is asked for all the same -----------------------------------------------------------


@pytest.mark.parametrize("there", [{}, {"late": {}}], ids=["nothing", "held"])
def test_once_all_have_lost_their_placements_it_is_asked_for_anew(there: dict[str, Any]) -> None:
    """Also while the status says otherwise for a moment, and while some of it is held."""
    made = yard(status(), "27", "0", least=10).having(member(replicas=9))
    for name in there:
        made.store(member(name, 1))
        assert made.batch().held, "nine of ten are held"
        made.decide()
    if not there:
        assert "9 replicas in all its Workloads, minMember is 10" in made.decide()["worker"].message
    assert not made.groups.started(BATCH)
    made.plugin.complete(BATCH)
    assert all(made.room.get((NS, name)) is not None for name in there)


@pytest.mark.parametrize("gate", ["Closed", None, "Ajar"])
def test_without_an_open_gate_it_is_asked_for(gate: str | None) -> None:
    made = yard(status(gate, worker={"a": 2}), "30")
    made.store(member(replicas=2, present={"a": 2}, shown=[{"name": "a", "replicas": 2}]))
    late = made.store(member("late", 1))
    batch = made.batch("late")
    assert all(not each.placements or each.workload.name != "late" for each in batch.decisions)
    assert not made.groups.started(BATCH)
    assert late.info is not None


def test_whoever_is_on_its_way_out_is_no_part_of_what_is_left() -> None:
    made = yard(status(worker={"a": 2}), "30").having(member(replicas=2, present={"a": 2}))
    assert made.groups.started(BATCH)
    info = made.world.info((NS, "worker"))
    made.groups.put(info, {})
    assert not made.groups.started(BATCH)


@pytest.mark.parametrize("ran", [7, [], {}, "", "soon", None, True])
def test_whatever_stands_there_instead_of_a_time_nobody_falls_over_it(ran: Any) -> None:
    made = yard(status(ran=ran, worker={"gone": 2}), "30")
    lost(made, "worker", 2)
    found = made.decide()["worker"]
    assert found.reason in ("Scheduled", "GroupIncomplete")
    assert (found.reason == "Scheduled") == (ran == "soon")


# --- with a controller, its gate and a hub --------------------------------------------------------


async def ran(stage: Gangs) -> None:
    """Two Workloads of two units, each on a cluster of its own, whose quorum has run."""
    stage.group()
    for name, at in (("one", "a"), ("two", "b")):
        stage.cluster(at, cpu="8", of=name)
        stage.member(name, cpu="1", clusterSelector={"of": name})
    await stage.until(lambda: stage.released() == {"one", "two"})
    for name in ("one", "two"):
        stage.reports(name)
    await stage.until(lambda: stage.phase() == "Running")


async def test_a_lost_cluster_is_made_good_and_released(stage: Gangs) -> None:
    async with stage.led():
        await ran(stage)
        stage.hub.remove(WORKLOADS, "two")
        await stage.calm(5)
        stage.cluster("c", cpu="8", of="one")
        stage.give_up("a")
        await stage.until(lambda: stage.placed("one") == {"c": 2})
        await stage.until(lambda: "one" in stage.released())
        await stage.calm(10)
        assert stage.status()["quorumTime"]
        assert (stage.gate(), stage.phase()) == ("Open", "Running")


async def test_one_that_has_lost_all_its_placements_is_asked_for_its_quorum(stage: Gangs) -> None:
    async with stage.led():
        await ran(stage)
        stage.hub.remove(WORKLOADS, "two")
        await stage.calm(5)
        stage.give_up("a")
        await stage.until(lambda: stage.placed("one") == {})
        await stage.until(lambda: not stage.gate() and not stage.status().get("quorumTime"))
        stage.cluster("c", cpu="8", of="one")
        await stage.calm(10)
        assert stage.placed("one") == {}
        stage.member("three", cpu="1")
        await stage.until(lambda: stage.released() == {"one", "three"})
