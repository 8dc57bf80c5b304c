"""NodeRoom: replicas that were edited beyond every node of their cluster are told, and move."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.binding.moving import cause_of, moving_of
from controller.model.objects import ClusterShare, MemberCluster
from controller.model.observedlimits import waiting
from controller.scheduling.decision import Decision
from crds.fields.movement import MovingReason
from tests.controller.make import NOW, cluster, decided, info, workload

pytestmark = pytest.mark.proves("J6", "KD66")


def pod(cpu: str, **more: Any) -> dict[str, Any]:
    asks = {"requests": {"cpu": cpu}}
    return {"containers": [{"name": "main", "resources": asks}], **more}


def nodes(name: str, count: int, free: str, each: int, **more: Any) -> MemberCluster:
    """A cluster of nodes of `each` cpu, of which so much is free."""
    status = {"capacity": {"nodes": count, "allocatable": {"cpu": str(count * each)}}}
    group = {"count": count, "free": {"cpu": free, "pods": "100"}, **more}
    return cluster(name, groups=[group], status=status)


SMALL, LARGE = nodes("a", 3, "3", 4), nodes("b", 3, "8", 8)


def waits(seconds: int = 0, *, edited: bool = False, cpu: str = "6", **fields: Any) -> Any:
    """Three replicas on a, where pods have waited for so long; not at all for 0."""
    asked = info(pod=pod(cpu), replicas=3, present={"a": 3}, edited=edited, **fields)
    since = {"a": NOW - timedelta(seconds=seconds)} if seconds else {}
    return replace(asked, waits=since)


def told(decision: Decision) -> tuple[MovingReason, str]:
    found = moving_of(decision, workload(pod=pod("6"), present={"a": 3}), [])
    assert found is not None
    return found.reason, found.message


@pytest.mark.parametrize("distribution", ["Single", "Divided", "Duplicated"])
def test_an_edit_beyond_every_node_is_told_at_once_and_moves_nothing(distribution: str) -> None:
    fleet = [SMALL] if distribution == "Duplicated" else [SMALL, LARGE]
    found = decided(waits(edited=True, distribution=distribution), *fleet)
    assert found.placements == {"a": 3}
    assert told(found) == (
        MovingReason.NO_ROOM,
        "3 of 3 replicas leave a (no node): no node of a has 6 cpu",
    )


def test_after_a_minute_without_a_node_it_moves_whole_to_where_there_is_room() -> None:
    before = decided(waits(59), SMALL, LARGE)
    assert before.placements == {"a": 3}
    assert told(before)[0] is MovingReason.NO_ROOM
    assert before.moving.look == NOW + timedelta(seconds=1)
    after = decided(waits(60), SMALL, LARGE)
    assert after.placements == {"b": 3}
    assert cause_of(after, {"a": 3}) == ("NoNode", "a")


def test_without_another_cluster_it_stays_and_says_so() -> None:
    found = decided(waits(60), SMALL)
    assert found.placements == {"a": 3}
    reason, text = told(found)
    assert reason is MovingReason.NO_ROOM
    assert "3 stay, as no other cluster takes them" in text


def test_what_a_divided_one_has_no_node_for_follows_from_what_clusters_ran() -> None:
    assert decided(waits(60, distribution="Divided"), SMALL, LARGE).placements == {"a": 3}


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (waits(60, cpu="4"), SMALL),
        (waits(60), nodes("a", 3, "7", 4)),
        (waits(), SMALL),
        (waits(60), cluster("a", ready=False, groups=[{"count": 1, "free": {"cpu": "1"}}])),
        (waits(60), cluster("a", groups=[{"count": 1, "free": {"cpu": "1"}}], virtual=True)),
        (waits(60), cluster("a", groups=[])),
    ],
    ids=["as large as a node", "room on one", "no edit", "no answer", "virtual", "no nodes told"],
)
def test_nothing_moves_where_a_node_may_have_it(asked: Any, where: MemberCluster) -> None:
    assert not decided(asked, where, LARGE).moving.evictions


def test_labels_that_no_node_has_are_told_too() -> None:
    there = nodes("a", 3, "3", 4, labels={"kubernetes.io/arch": "amd64"})
    arm = pod("1", nodeSelector={"kubernetes.io/arch": "arm64"})
    found = decided(info(pod=arm, replicas=3, present={"a": 3}, edited=True), there)
    said = "no node of a has labels and taints that its pods match and tolerate"
    assert told(found)[1].endswith(said)


def test_pods_that_a_rolling_update_adds_count_as_waiting() -> None:
    share = ClusterShare("a", 3, scheduled=3, unschedulable=1, unschedulable_since=NOW)
    stored = workload(present={"a": 3})
    assert waiting(with_share(stored, share)) == {"a": NOW}
    assert waiting(with_share(stored, ClusterShare("a", 3, scheduled=3))) == {}


def with_share(stored: Any, share: ClusterShare) -> Any:
    status = msgspec.structs.replace(stored.status, clusters=[share])
    return msgspec.structs.replace(stored, status=status)
