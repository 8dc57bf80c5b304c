"""Two watches keep no order: a Workload's status may come before that of the cluster it speaks of.

Units are in flight until the version of the cluster has been seen that counts them. Whatever comes
first, room is never promised twice; where both count a unit for a moment, too little is promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.eventhandlers import SchedulerCache, known
from controller.model.objects import ClusterShare, MemberCluster, Workload
from controller.plugins.defaults import PrioritySort
from controller.queue.scheduling_queue import ROUND_SECONDS
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.tasks import end
from tests.controller.make import ROOMY, cluster, workload
from tests.controller.memory import Stage
from tests.examples import examples

ROOM = 16
"""Units of the Workloads below that the empty cluster holds."""
pytestmark = pytest.mark.proves("L12")


def a(version: int | str, *, running: int = 0) -> MemberCluster:
    """The cluster of that version, which counts so many units."""
    free = {**ROOMY, "cpu": f"{8000 - 500 * running}m"}
    made = cluster("a", groups=[{"count": 1, "free": free}])
    return versioned(made, version)


def w(version: int | str, *, name: str = "w", units: int = 8, **told: int) -> Workload:
    """A Workload with a share on it, of which the propagator told that."""
    made = versioned(workload(name, replicas=units, present={"a": units}), version)
    clusters = [ClusterShare("a", replicas=units, **told)] if told else []
    return known(msgspec.structs.replace(made, status=status_with(made, clusters)))


def status_with(made: Workload, clusters: list[ClusterShare]) -> Any:
    return msgspec.structs.replace(made.status, clusters=clusters)


def versioned(made: Any, version: int | str) -> Any:
    meta = msgspec.structs.replace(made.metadata, resource_version=str(version))
    return msgspec.structs.replace(made, metadata=meta)


def world() -> SchedulerCache:
    return SchedulerCache({"stowage"}, sort=PrioritySort(), reviewed=lambda _: True)


def room(of: SchedulerCache) -> int:
    """Units of such a Workload for which there is room."""
    asks = known(workload("asks")).info.request
    return int(of.snapshot().fitting(asks)[0])


def begun() -> SchedulerCache:
    """Room for 16, 8 of them given away and under way."""
    made = world()
    made.cluster_changed(None, a(10))
    made.workload_changed(None, w(11))
    assert room(made) == ROOM - 8
    return made


def test_where_the_cluster_comes_first_units_count_twice_for_a_moment() -> None:
    made = begun()
    made.cluster_changed(a(10), a(20, running=8))
    assert room(made) == 0
    made.workload_changed(w(11), w(21, scheduled=8, capacity_version=20))
    assert room(made) == ROOM - 8


@pytest.mark.parametrize("version", [20, 999])
def test_any_later_version_ends_the_wait(version: int) -> None:
    made = begun()
    made.workload_changed(w(11), w(21, scheduled=8, capacity_version=20))
    made.cluster_changed(a(10), a(version, running=0))
    assert room(made) == ROOM, "the pods may have gone meanwhile"


@pytest.mark.parametrize(
    ("cluster_version", "own", "mark"),
    [(10, 21, 0), (10, 21, 22), (10, 21, 2**63), ("x", 21, 20), ("", "", 20)],
    ids=["not told", "beyond its own", "huge", "no number", "from files"],
)
def test_a_version_that_can_be_none_to_wait_for_is_not_waited_for(
    cluster_version: int | str, own: int | str, mark: int
) -> None:
    made = world()
    made.cluster_changed(None, a(cluster_version))
    made.workload_changed(None, w(own, scheduled=8, capacity_version=mark))
    assert room(made) == ROOM


def test_units_that_were_counted_before_stay_counted_when_more_come() -> None:
    made = begun()
    first = w(21, scheduled=8, capacity_version=20)
    made.cluster_changed(a(10), a(20, running=8))
    made.workload_changed(w(11), first)
    grown = w(31, units=11, scheduled=11, capacity_version=30)
    made.workload_changed(first, grown)
    assert room(made) == ROOM - 11, "3 more are in flight, and 8 are not counted twice"
    made.assume(grown.info, {"a": 12})
    assert room(made) == ROOM - 12
    made.cluster_changed(a(20, running=8), a(30, running=11))
    assert room(made) == ROOM - 12
    made.workload_changed(grown, w(33, units=11, scheduled=2, capacity_version=32))
    assert room(made) == 0, "9 went: they come again, and the room that they leave is not seen yet"


def test_units_of_a_job_that_ended_count_for_none_of_those_that_replace_them() -> None:
    made = begun()
    ended = w(21, finished=8)
    made.workload_changed(w(11), ended)
    assert room(made) == ROOM
    made.workload_changed(ended, w(31, scheduled=8, capacity_version=30))
    assert room(made) == ROOM - 8
    made.cluster_changed(a(10), a(30, running=8))
    assert room(made) == ROOM - 8


def test_a_cluster_that_is_registered_again_has_later_versions_than_before() -> None:
    made = begun()
    late = w(21, scheduled=8, capacity_version=20)
    made.workload_changed(w(11), late)
    made.cluster_changed(a(10), None)
    made.cluster_changed(None, a(30, running=8))
    assert room(made) == ROOM - 8
    more = w(41, units=10, scheduled=10, capacity_version=40)
    made.workload_changed(late, more)
    assert room(made) == ROOM - 10
    made.cluster_changed(a(30), a(40, running=10))
    assert room(made) == ROOM - 10


def test_a_cluster_that_comes_after_its_units_counts_those_that_it_shows() -> None:
    made = world()
    made.workload_changed(None, w(21, scheduled=8, capacity_version=20))
    made.cluster_changed(None, a(15))
    assert room(made) == ROOM - 8
    made.cluster_changed(a(15), a(20, running=8))
    assert room(made) == ROOM - 8


def test_a_workload_that_goes_is_waited_for_no_more() -> None:
    made = begun()
    late = w(21, scheduled=8, capacity_version=20)
    made.workload_changed(w(11), late)
    made.workload_changed(late, None)
    assert room(made) == ROOM
    made.cluster_changed(a(10), a(20, running=3))
    assert room(made) == ROOM - 3


@examples(200)
@given(
    grows=st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 4)), min_size=1, max_size=8),
    order=st.lists(st.booleans(), max_size=40),
)
def test_in_whatever_order_both_watches_come_no_room_is_promised_twice(
    grows: Sequence[tuple[str, int]], order: Sequence[bool]
) -> None:
    """Pods of three Workloads get nodes: their cluster is written, then the one that they are of."""
    sizes = {name: sum(units for who, units in grows if who == name) for name in "xyz"}
    taken = sum(sizes.values())
    made, version, running = world(), 100, dict.fromkeys("xyz", 0)
    clusters, workloads = [a(10)], {name: w(11, name=name, units=sizes[name]) for name in "xyz"}
    made.cluster_changed(None, clusters[0])
    for each in workloads.values():
        made.workload_changed(None, each)
    told = []
    for name, units in grows:
        running[name] += units
        clusters.append(a(version := version + 1, running=min(sum(running.values()), ROOM)))
        counted = {"scheduled": running[name], "capacity_version": version}
        told.append(w(version := version + 1, name=name, units=sizes[name], **counted))
    at = 1
    for cluster_next in [*order, *[True] * len(clusters), *[False] * len(told)]:
        if cluster_next and at < len(clusters):
            made.cluster_changed(clusters[at - 1], clusters[at])
            at += 1
        elif not cluster_next and told:
            new = told.pop(0)
            made.workload_changed(workloads[new.metadata.name], new)
            workloads[new.metadata.name] = new
        assert room(made) <= max(ROOM - taken, 0)
    assert room(made) == max(ROOM - taken, 0), "when all has come nothing is held back"


async def test_room_that_went_with_the_status_that_was_late_is_found() -> None:
    """What the cluster gains in the version that counts them is less than what they took."""
    stage = Stage("a", cpu="8")
    async with stage.leading():
        stage.workload("first", replicas=6)
        await stage.until(lambda: stage.placed("first") == {"a": 6})
        release = stage.hub.hold(MEMBER_CLUSTERS)
        # Others left 4 meanwhile.
        told = stage.hub.edit(MEMBER_CLUSTERS, "a", {"status": free("6")}, status=True)
        counted(stage, 6, by=told)
        stage.workload("other", replicas=5)
        await stage.until(lambda: stage.says("other")[0])
        assert not stage.placed("other")
        release()
        await stage.until(lambda: stage.placed("other") == {"a": 5})


async def test_who_was_refused_while_units_counted_twice_is_placed_soon() -> None:
    """The cluster's status comes before that of the Workload whose units it counts."""
    stage = Stage("a", cpu="8")
    async with stage.leading():
        stage.workload("first", replicas=4)
        await stage.until(lambda: stage.placed("first") == {"a": 4})
        told = stage.hub.edit(MEMBER_CLUSTERS, "a", {"status": free("4")}, status=True)
        await stage.calm(2 * ROUND_SECONDS)
        stage.workload("other", replicas=4)
        await stage.until(lambda: stage.says("other")[0])
        await stage.calm(2 * ROUND_SECONDS)
        assert not stage.placed("other")
        counted(stage, 4, by=told)
        await stage.until(lambda: stage.placed("other") == {"a": 4}, seconds=ROUND_SECONDS)


def counted(stage: Stage, units: int, *, by: Any) -> None:
    """Tell of the first Workload that this version of its cluster counts so many of its units."""
    version = int(by["metadata"]["resourceVersion"])
    share = {"name": "a", "replicas": units, "scheduled": units, "capacityVersion": version}
    stage.hub.edit(WORKLOADS, "first", {"status": {"clusters": [share]}}, status=True)


def free(cpu: str) -> dict[str, Any]:
    """The status of a cluster of one node with so much of it."""
    return {"nodeGroups": [{"count": 1, "free": {**ROOMY, "cpu": cpu}}]}


async def test_a_share_that_is_heard_of_again_before_its_slice_waits_for_the_later_version() -> (
    None
):
    made = world()
    made.cluster_changed(None, a(10))
    shares = [w(21, name=f"w{n}", units=1, scheduled=1, capacity_version=20) for n in range(900)]
    for each in shares:
        made.workload_changed(None, each)
    made.cluster_changed(a(10), a(20, running=1))
    later = w(31, name="w0", units=1, scheduled=1, capacity_version=30)
    made.workload_changed(shares[0], later)
    made.workload_changed(shares[1], None)
    running = asyncio.create_task(made.run())
    for _ in range(9):
        await asyncio.sleep(0)
    assert in_flight(made) == 0, "what was counted at version 20 is counted at version 30 as well"
    await end([running])


def in_flight(of: SchedulerCache) -> int:
    """Thousandths of cpu that are in flight to the cluster."""
    return int(of.snapshot().coming("cpu").sum())
