"""What a member reports counts as far as the hub allows: its room, its provider, its version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.eventhandlers import SchedulerCache as Cache
from controller.model.load import Load
from controller.model.objects import ClusterShare, MemberCluster, Workload
from controller.plugins.defaults import PrioritySort
from controller.snapshot.builder import with_cluster
from controller.snapshot.encode import within
from controller.snapshot.snapshot import amounts_of
from machinery.types.api import NodeGroup
from tests.controller.make import (
    builder,
    cluster,
    info,
    snapshot,
    workload,
)
from tests.controller.snapshot.test_snapshot import fits, group

pytestmark = pytest.mark.proves("N19")

UNIT = {"cpu": 1000}
LOAD = Load.of(UNIT)


def boasting(requested: str = "0", **spec: Any) -> MemberCluster:
    """A cluster that says it is huge."""
    capacity = {"nodes": 1000, "allocatable": {"cpu": "100k"}, "requested": {"cpu": requested}}
    groups = [group(1000, cpu="100", memory="1Ti")]
    return cluster("a", groups=groups, status={"capacity": capacity}, **spec)


def test_no_more_is_believed_than_the_spec_says() -> None:
    assert fits(snapshot(boasting()), UNIT) == {"a": 100_000}
    found = snapshot(boasting(maxAllocatable={"cpu": "12"}))
    assert fits(found, UNIT) == {"a": 12}
    told = amounts_of(found, "a")
    assert told is not None
    assert told.allocatable["cpu"] == 12_000


def test_what_is_taken_is_taken_of_the_believed_room() -> None:
    assert fits(snapshot(boasting("5", maxAllocatable={"cpu": "12"})), UNIT) == {"a": 7}
    assert fits(snapshot(boasting("50", maxAllocatable={"cpu": "12"})), UNIT) == {"a": 0}


def test_a_member_that_forgets_its_pods_gets_no_more_than_the_bound() -> None:
    made = builder([boasting(maxAllocatable={"cpu": 12})])
    made.count("a", LOAD, 9)
    made.assume("a", LOAD, 1)
    found = made.snapshot()
    assert fits(found, UNIT) == {"a": 2}
    assert fits(with_cluster(found, found.clusters[0]), UNIT) == {"a": 2}
    made.count("a", LOAD, -9)
    assert fits(made.snapshot(), UNIT) == {"a": 11}


def test_units_that_landed_are_counted_by_the_hub_itself() -> None:
    known = Cache({"stowage"}, sort=PrioritySort(), reviewed=lambda _: True)
    known.cluster_changed(None, boasting(maxAllocatable={"cpu": "12"}))
    demo = info(replicas=20, pod={"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    known.assume(demo, {"a": 10})
    assert fits(known.snapshot(), UNIT) == {"a": 2}

    def landed(scheduled: int, finished: int = 0) -> Workload:
        seen = workload(replicas=20, present={"a": 10})
        share = ClusterShare("a", replicas=10, scheduled=scheduled, finished=finished)
        status = replace(seen.status, clusters=[share])
        return replace(seen, info=demo.with_present({"a": 10}), status=status)

    known.workload_changed(None, landed(7))
    assert fits(known.snapshot(), UNIT) == {"a": 2}, "seven are counted by the member, three fly"
    known.workload_changed(landed(7), landed(5, finished=4))
    assert fits(known.snapshot(), UNIT) == {"a": 6}, "who has ended takes no room"
    known.workload_changed(landed(5, finished=4), None)
    assert fits(known.snapshot(), UNIT) == {"a": 12}


def test_a_resource_that_the_bound_does_not_name_is_believed() -> None:
    found = snapshot(boasting(maxAllocatable={"memory": "8Gi"}))
    assert fits(found, UNIT) == {"a": 100_000}
    assert fits(found, {"memory": 2**30}) == {"a": 8}
    assert fits(found, {"cpu": 1000, "memory": 2**30}) == {"a": 8}


AMOUNT = st.integers(0, 40)
ROOM = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), AMOUNT, max_size=3)


@given(st.lists(st.tuples(st.integers(0, 9), ROOM), max_size=5), ROOM)
def test_nodes_stay_nodes_and_together_they_offer_what_is_left(told: Any, left: Any) -> None:
    groups = [(NodeGroup(count=count), free, frozenset[int]()) for count, free in told]
    found = [*within(groups, left)]
    assert sum(g.count for g, *_ in found) == sum(count for count, _ in told)
    for resource in ("cpu", "memory", "gpu"):
        offered = sum(count * free.get(resource, 0) for count, free in told)
        believed = sum(g.count * free.get(resource, 0) for g, free, _ in found)
        assert believed == min(offered, left.get(resource, offered))
    assert len(found) <= len(told) + 2 * len(left)


def test_what_the_spec_pins_counts_before_what_the_member_says() -> None:
    report = {"provider": "aws", "version": "v9.9.9"}
    labels = {"stowage.dev/provider": "aws", "stowage.dev/version": "v9.9.9"}
    told = snapshot(cluster("a", labels, status=report))
    assert told.provider.equals("aws").all()
    pinned = cluster("a", labels, status=report, provider="Kind", version="v1.36.3+k3s1")
    found = snapshot(pinned)
    assert found.provider.equals("kind").all()
    assert found.version.equals("1.36.3+k3s1").all()
    assert found.column("stowage.dev/provider").equals("Kind").all()
    assert found.column("stowage.dev/version").equals("v1.36.3-k3s1").all()
