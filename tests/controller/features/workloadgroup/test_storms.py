"""Many gangs at once: events over denied ones, members one after the other, a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleets import clusters
from controller.config import default_profile
from controller.features.workloadgroup.plugin import Coscheduling
from controller.framework.runtime.handle import DryRunHandle
from controller.scheduling import sets
from crds.workload import ScheduledReason
from machinery.api.resources import MEMBER_CLUSTERS
from stowage.simulation.rehearsal import Rehearsal
from tests.controller.features.workloadgroup.ganging import group as stored_group
from tests.controller.features.workloadgroup.ganging import member
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.make import NOW

GROUPS, OF_EACH, MEMBERS = 40, 5, 40


@pytest.fixture
def gangs(tmp_path: Path) -> Gangs:
    made = Gangs(tmp_path)
    made.cluster("a", cpu="8")
    return made


@pytest.mark.long
@pytest.mark.proves("L7", "G11", "G14")
@pytest.mark.parametrize(
    ("what", "most"), [("memory", 1), ("cpu", 9)], ids=["says-nothing-new", "says-another-gap"]
)
async def test_a_storm_over_denied_gangs_costs_few_looks_and_no_more_writes(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch, what: str, most: int
) -> None:
    """A hundred times in twenty seconds some cluster has more room, and it is never enough."""
    count, lacks = Counter[str](), Coscheduling._lacks

    def counted(plugin: Any, about: Any, *more: Any) -> Any:
        count[about.name] += 1
        return lacks(plugin, about, *more)

    monkeypatch.setattr(Coscheduling, "_lacks", counted)
    for number in range(GROUPS):
        gangs.group(f"g{number}", least=2 * OF_EACH)
        for one in range(OF_EACH):
            gangs.member(f"g{number}-{one}", of=f"g{number}", replicas=2, cpu="20")

    async with gangs.led():
        await gangs.calm(30)
        assert count.total() <= 3 * GROUPS
        before, looks = len(gangs.hub.writes("/status")), count.total()
        for number in range(100):
            free = {"cpu": "8", "memory": "32Gi", "pods": "110"}
            free[what] = {"memory": "33Gi", "cpu": "9"}[what] if number % 2 else free[what]
            gangs.hub.edit(MEMBER_CLUSTERS, "a", {"status": room_of(free)}, status=True)
            await gangs.calm(0.2)
        paths = [path for _, path, _ in gangs.hub.writes("/status")[before:]]
        assert max(Counter(paths).values(), default=0) <= most
        assert 0 < count.total() - looks <= 10 * GROUPS, "each waits longer and longer"


def room_of(free: dict[str, str]) -> dict[str, Any]:
    """The status of a cluster of one node."""
    groups = [{"count": 1, "free": dict(free)}]
    return {"nodeGroups": groups, "capacity": {"nodes": 1, "allocatable": free, "requested": {}}}


@pytest.mark.long
@pytest.mark.proves("L7", "G12")
async def test_one_after_the_other_the_members_of_a_large_gang_cost_a_few_writes_each(
    gangs: Gangs,
) -> None:
    gangs.cluster("b", cpu="999", pods="999")
    gangs.group(least=MEMBERS)
    async with gangs.led():
        for number in range(MEMBERS):
            gangs.member(f"w{number}", replicas=1, cpu="1")
            await gangs.calm(0.3)
        await gangs.until(lambda: len(gangs.released()) == MEMBERS, seconds=60)
        assert len(gangs.hub.writes("/workloads/")) <= 6 * MEMBERS
        assert gangs.writes() <= 2 * MEMBERS


@pytest.mark.long
@pytest.mark.proves("L7", "G19")
async def test_a_restart_over_many_gangs_writes_nothing(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="999", pods="999")
    for number in range(GROUPS):
        gangs.group(f"g{number}", least=OF_EACH)
        for one in range(OF_EACH):
            gangs.member(f"g{number}-{one}", of=f"g{number}", replicas=1, cpu="1")
    last = f"g{GROUPS - 1}"
    async with gangs.led():
        done = [f"g{number}" for number in range(GROUPS)]
        await gangs.until(lambda: all(len(gangs.released(g)) == OF_EACH for g in done), seconds=60)
        await gangs.calm(5)
        assert gangs.writes() <= 4 * GROUPS
    before, asked = len(gangs.hub.writes("/")), gangs.status(last)
    async with gangs.led("after"):
        await gangs.calm(30)
    news = [path for _, path, _ in gangs.hub.writes("/")[before:] if "/leases" not in path]
    assert news == []
    assert gangs.status(last) == asked


@pytest.mark.proves("G3", "G4")
def test_a_plan_over_many_clusters_places_whole_gangs_and_no_half_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gang that is refused is not tried again for each of its members."""
    passes, decide = 0, sets.decide

    def counted(*about: Any) -> Any:
        nonlocal passes
        passes += 1
        return decide(*about)

    monkeypatch.setattr(sets, "decide", counted)
    stored = [stored_group("fits", MEMBERS), stored_group("large", MEMBERS)]
    fits = [member(f"fits-{n}", of="fits", cpu="1", replicas=1) for n in range(MEMBERS)]
    large = [member(f"large-{n}", of="large", cpu="999", replicas=1) for n in range(MEMBERS)]
    handle = DryRunHandle()
    rehearsal = Rehearsal(
        {"stowage": default_profile(handle=handle)},
        clusters=clusters(200),
        workloads=[*fits, *large],
        objects=stored,
        now=NOW,
        handle=handle,
    )
    rehearsal.run([each.metadata.key for each in (*fits, *large)])
    assert passes <= 6 * MEMBERS
    assert all(rehearsal.decisions[each.metadata.key].scheduled for each in fits)
    refused = [rehearsal.decisions[each.metadata.key] for each in large]
    assert {each.reason for each in refused} == {ScheduledReason.GROUP_DENIED}
    assert not any(each.placements for each in refused)
