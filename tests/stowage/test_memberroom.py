"""The room of a simulated member: where units find a node, and what they give back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from stowage.simulation.moves import MemberRoom
from tests.controller.live import deployment

GPU = {"key": "gpu", "value": "", "effect": "NoSchedule"}


def room(*groups: dict[str, Any], requested: str = "0") -> MemberRoom:
    capacity = {"nodes": 2, "allocatable": {"cpu": "9"}, "requested": {"cpu": requested}}
    status = {"nodeGroups": list(groups), "capacity": capacity}
    return MemberRoom(msgspec.convert({"metadata": {"name": "m"}, "status": status}, MemberCluster))


def nodes(count: int, cpu: str, **more: Any) -> dict[str, Any]:
    return {"count": count, "free": {"cpu": cpu, "memory": "9Gi", "pods": "9"}, **more}


def info(cpu: str, **pod: Any) -> WorkloadInfo:
    body = deployment("web", cpu)
    body["spec"]["template"]["spec"] |= pod
    meta = {"name": "web", "namespace": "shop"}
    workload = known(
        msgspec.convert({"metadata": meta, "spec": {"targetDeployment": body}}, Workload)
    )
    found: WorkloadInfo = workload.info
    return found


def free(of: MemberRoom) -> list[tuple[int, str | int]]:
    return sorted((g.count, g.free["cpu"]) for g in of.reported().status.node_groups)


def test_units_spread_over_the_nodes_and_those_without_one_stay_in_flight() -> None:
    there = room(nodes(2, "3"))
    assert there.come(info("2"), 3) == 2, "a third has no node with two left"
    assert free(there) == [(2, "1")]
    assert there.come(info("1"), 1) == 1
    assert free(there) == [(1, "0"), (1, "1")]
    capacity = there.reported().status.capacity
    assert capacity is not None
    assert capacity.requested["cpu"] == "5"


def test_what_goes_gives_its_room_back_on_one_node() -> None:
    there = room(nodes(1, "1"), nodes(1, "4"), requested="7")
    there.go(info("2"), 1)
    assert free(there) == [(1, "3"), (1, "4")]
    there.go(info("1"), 1)
    assert free(there) == [(1, "4"), (1, "4")]
    capacity = there.reported().status.capacity
    assert capacity is not None
    assert capacity.requested["cpu"] == "4"


@pytest.mark.parametrize(
    ("pod", "takes"),
    [
        ({}, 0),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, 1),
        ({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "ssd"}}, 1),
        ({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "hdd"}}, 0),
    ],
)
def test_a_unit_goes_to_a_node_that_takes_it(pod: dict[str, Any], takes: int) -> None:
    there = room(nodes(1, "4", labels={"disk": "ssd"}, taints=[GPU]))
    assert there.come(info("1", **pod), 1) == takes


def test_a_quantity_that_is_none_counts_as_nothing() -> None:
    there = room(nodes(1, "many"), requested="lots")
    assert there.come(info("1"), 1) == 0
    assert free(there) == [(1, "0")]
