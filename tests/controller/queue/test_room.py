"""What counts as more room on a cluster, for a Workload that waits and for a gang that was denied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.features.workloadgroup.plugin import CLUSTER_ACTIONS
from controller.framework.events import Action, of_cluster, roomier
from controller.model.objects import MemberCluster
from controller.plugins.clusterstate import ClusterReady
from machinery.types.api import NodeGroup
from tests.controller.make import cluster, info

HTTP = "hostport/TCP/80"


def node(cpu: int, memory: int, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"count": count, "free": {"cpu": str(cpu), "memory": str(memory)}, **more}


@pytest.mark.proves("B22")
@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ([node(5, 9), node(1, 9)], [node(3, 9, 2)], True),
        ([node(4, 1), node(1, 4)], [node(4, 4), node(1, 1)], True),
        ([node(4, 4, 2)], [node(4, 4), node(3, 4)], False),
        ([node(4, 4), node(2, 2)], [node(2, 2), node(1, 4)], False),
        ([node(4, 4), node(2, 2)], [node(2, 2, 2)], False),
        ([node(4, 4)], [node(2, 2, 2)], True),
        ([node(4, 4)], [node(2, 2, labels={"zone": "b"})], True),
        ([node(4, 4)], [], False),
        ([node(4, 4)], [node(4, 4, 0), {"count": 3, "free": {"cpu": "x"}}], True),
        ([{"count": 3, "free": {}}], [{"count": 3, "free": {"cpu": "x"}}], False),
        ([{"count": 2, "free": {HTTP: "0"}}], [{"count": 2, "free": {HTTP: "1"}}], True),
    ],
    ids=[
        "a pod moved between nodes",
        "pods changed places",
        "one came",
        "two came",
        "shrunk",
        "another node",
        "another kind",
        "all gone",
        "a node of nothing",
        "unreadable",
        "a port",
    ],
)
def test_more_room_is_one_thing_for_the_queue_and_for_a_gang(
    before: list[dict[str, Any]], after: list[dict[str, Any]], more: bool
) -> None:
    old, new = cluster("a", groups=before), cluster("a", groups=after)
    action = of_cluster(old, new) & ~Action.LABELS  # another kind of nodes is that as well
    assert action is (Action.ROOM if more else Action.WORSE)
    assert bool(action & CLUSTER_ACTIONS) is more


amounts = st.integers(0, 3)
nodes = st.lists(st.tuples(amounts, amounts, st.booleans()), max_size=5)


@pytest.mark.proves("B22")
@given(nodes, nodes)
def test_where_there_is_no_more_room_no_replica_fits_on_more_nodes_than_before(
    before: list[tuple[int, int, bool]], after: list[tuple[int, int, bool]]
) -> None:
    def groups(of: list[tuple[int, int, bool]]) -> list[NodeGroup]:
        bodies = [
            {"count": 1, "free": {"cpu": str(c), "memory": str(m), HTTP: str(int(p))}}
            for c, m, p in of
        ]
        return [msgspec.convert(each, NodeGroup) for each in bodies]

    if roomier(groups(before), groups(after)):
        return
    for cpu in range(4):
        for memory in range(4):
            for port in (False, True):
                was, now = (
                    sum(c >= cpu and m >= memory and p >= port for c, m, p in of)
                    for of in (before, after)
                )
                assert now <= was


@pytest.mark.proves("KD61")
@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        ({"pods": "2"}, {"pods": "3"}, Action.ROOM),
        ({"pods": "2", "cpu": "1"}, {"pods": "2"}, Action.ROOM),
        ({"pods": "2"}, None, Action.ROOM),
        ({"pods": "3"}, {"pods": "2"}, Action.WORSE),
        (None, {"pods": "2"}, Action.WORSE),
        ({"requests.cpu": "1"}, {"cpu": "1000m"}, Action.WORSE),
        ({"pods": "2"}, {"pods": "2"}, Action(0)),
    ],
)
def test_a_quota_that_leaves_more_is_room(before: Any, after: Any, action: Action) -> None:
    def quoted(free: Any) -> MemberCluster:
        quotas = [] if free is None else [{"namespace": "shop", "name": "q", "free": free}]
        return cluster("a", status={"quotas": quotas})

    assert of_cluster(quoted(before), quoted(after)) is action


@pytest.mark.proves("PL20")
def test_an_agent_that_is_no_longer_too_old_lets_workloads_in_again() -> None:
    """They wait for a cluster that is ready, as `ClusterReady` has it."""
    said = [{"type": each, "status": "True"} for each in ("Ready", "AgentOld")]
    old, young = (cluster("a", status={"conditions": listed}) for listed in (said, said[:1]))
    assert of_cluster(old, young) is Action.READY
    (hint,) = ClusterReady().events_to_register()
    assert hint.hint is not None
    assert [hint.hint(info(), old, each) for each in (old, young)] == [False, True]
