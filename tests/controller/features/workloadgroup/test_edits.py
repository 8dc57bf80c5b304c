"""Members that change their group, and groups that change their quorum, at every stage of a gang."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import Unreachable
from tests.controller.features.workloadgroup.grouping import Gangs

Stand = Callable[[Gangs], Awaitable[None]]


@pytest.fixture
def stage(tmp_path: Path) -> Gangs:
    made = Gangs(tmp_path)
    made.group("other", least=1)
    return made


def moved(stage: Gangs, name: str = "one", to: str = "other") -> None:
    """Somebody gives a Workload the label of another group."""
    stage.hub.edit(WORKLOADS, name, {"metadata": {"labels": {LABEL_GROUP: to}}})


def wants(stage: Gangs, least: int) -> None:
    """Somebody edits the quorum."""
    generation = stage.hub.read(WORKLOAD_GROUPS, "batch")["metadata"].get("generation", 1) + 1
    patch = {"metadata": {"generation": generation}, "spec": {"minMember": least}}
    stage.hub.edit(WORKLOAD_GROUPS, "batch", patch)


async def members(stage: Gangs, least: int, units: int) -> None:
    stage.group(least=least)
    for name in ("one", "two"):
        stage.member(name, replicas=units, cpu="1")


async def held(stage: Gangs) -> None:
    """Nine units of ten."""
    stage.cluster("a", cpu="9")
    await members(stage, least=10, units=5)
    await stage.until(lambda: stage.status().get("waiting") == 9)


async def released(stage: Gangs) -> None:
    """Four units of four, of which no member has told anything yet."""
    stage.cluster("a", cpu="8")
    await members(stage, least=4, units=2)
    await stage.until(lambda: stage.released() == {"one", "two"})


async def ran(stage: Gangs) -> None:
    """Four units of four, which run."""
    await released(stage)
    stage.reports("one")
    stage.reports("two")
    await stage.until(lambda: stage.phase() == "Running")


async def closed(stage: Gangs) -> None:
    """One of them has failed, and the scheduler has emptied nobody yet; from now on it may."""
    await released(stage)

    async def cut(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and "/workloads/" in path:
            raise Unreachable("for now")

    stage.hub.faults.append(cut)
    stage.reports("one", state="Failed")
    await stage.until(lambda: stage.gate() == "Closed")
    stage.hub.faults.remove(cut)


def has(stage: Gangs, one: int, two: int, gates: Collection[str]) -> bool:
    """Whether they have so many units, and the groups `batch` and `other` these gates."""
    units = [sum(stage.placed(name).values()) for name in ("one", "two")]
    return units == [one, two] and [stage.gate(), stage.gate("other")] == [*gates]


@pytest.mark.proves("G2", "G5", "G24")
@pytest.mark.parametrize(
    ("at", "one", "two", "gates", "left"),
    [
        (held, 5, 0, ("", "Open"), "has 5 replicas in all its Workloads, minMember is 10"),
        (released, 2, 0, ("", "Open"), "has 2 replicas in all its Workloads, minMember is 4"),
        (ran, 2, 2, ("Open", "Open"), ""),
    ],
    ids=["held", "released", "ran"],
)
async def test_who_goes_to_another_group_is_one_of_that_alone(
    stage: Gangs, at: Stand, one: int, two: int, gates: Collection[str], left: str
) -> None:
    async with stage.led():
        await at(stage)
        moved(stage)
        await stage.until(lambda: has(stage, one, two, gates))
        await stage.calm(20)
        assert has(stage, one, two, gates)
        assert (stage.status()["workloads"], stage.status("other")["workloads"]) == (1, 1)
        assert stage.released("other") == {"one"}
        assert left in stage.tells()[2]
        assert stage.writes() <= 10


@pytest.mark.proves("G2", "G24")
async def test_who_leaves_a_gang_that_is_taken_away_is_released_where_it_went(
    stage: Gangs,
) -> None:
    async with stage.led():
        await closed(stage)
        moved(stage)
        stage.hub.edit(WORKLOADS, "one", {"status": {"clusters": []}}, status=True)
        await stage.until(lambda: has(stage, 2, 0, ("", "Open")))
        await stage.calm(20)
        assert has(stage, 2, 0, ("", "Open"))
        assert stage.released("other") == {"one"}


@pytest.mark.long
@pytest.mark.proves("G1", "G5", "G16")
@pytest.mark.parametrize(
    ("at", "least", "one", "two", "gate"),
    [
        (held, 9, 5, 4, "Open"),
        (held, 11, 0, 0, ""),
        (released, 1, 2, 2, "Open"),
        (released, 6, 0, 0, ""),
        (ran, 1, 2, 2, "Open"),
        (ran, 6, 2, 2, "Open"),
        (closed, 1, 2, 2, "Open"),
        (closed, 6, 0, 0, ""),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_another_quorum_holds_at_once_and_takes_nothing_from_a_gang_that_ran(
    stage: Gangs, at: Stand, least: int, one: int, two: int, gate: str
) -> None:
    async with stage.led():
        await at(stage)
        wants(stage, least)
        if at is closed:
            stage.hub.edit(WORKLOADS, "one", {"status": {"clusters": []}}, status=True)
        await stage.until(lambda: has(stage, one, two, (gate, "")))
        await stage.calm(30)
        assert has(stage, one, two, (gate, ""))
        assert stage.released() == ({"one", "two"} if gate else set())
        assert stage.writes() <= 12


@pytest.mark.proves("G12")
async def test_a_quorum_that_was_raised_is_met_by_who_comes(stage: Gangs) -> None:
    async with stage.led():
        await released(stage)
        wants(stage, 6)
        await stage.until(lambda: has(stage, 0, 0, ("", "")))
        stage.member("three", replicas=2, cpu="1")
        await stage.until(lambda: stage.released() == {"one", "two", "three"})
