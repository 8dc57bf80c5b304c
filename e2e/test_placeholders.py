"""`hold: Member` on real members: pods keep the room there, and yield to those of the owner."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import Playground, deployment, wait, workload

PORT = 18090
HOLD = "room-hold"


def reservation(namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a Reservation of a little cpu and a port of a node, on member-1."""
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": "100m"}},
        "ports": [{"containerPort": 80, "hostPort": PORT}],
    }
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "room", "namespace": namespace},
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "owners": [{"object": {"kind": "Workload", "name": "demo"}}],
            "clusterSelector": {"clusterName": "member-1"},
            "hold": "Member",
            "allocateOnce": False,
            **spec,
        },
    }


def running(playground: Playground, namespace: str, name: str) -> int:
    """Return the number of ready pods of a Deployment on member-1."""
    found = playground.seen("member-1", namespace, name)
    return int((found or {}).get("status", {}).get("readyReplicas", 0))


def told(playground: Playground) -> dict[str, Any]:
    """Return the room that member-1 publishes, and the requests there."""
    status = playground.hub.get("mc", "member-1")["status"]
    free = sorted((g["count"], sorted(g["free"].items())) for g in status["nodeGroups"])
    return {"free": free, "requested": status["capacity"]["requested"]}


def at_rest(playground: Playground) -> dict[str, Any]:
    """Return `told` once no pod of a Workload is on member-1, nor counted there."""
    pods = ("get", "pods", "-A", "-l", "stowage.dev/workload-uid", "-o", "name")
    wait("the pods of others to go", lambda: not playground.members["member-1"](*pods).strip())
    seen: list[dict[str, Any]] = []

    def same() -> bool:
        seen.append(told(playground))
        return seen[-3:] == seen[-1:] * 3

    wait("the room to be told", same, every=1.0)
    return seen[-1]


@pytest.mark.long
@pytest.mark.proves("E25", "E28")
def test_pods_keep_the_room_and_make_way_for_the_owner(
    playground: Playground, namespace: str
) -> None:
    member = playground.members["member-1"]
    nodes = len(member.items("nodes"))
    before = at_rest(playground)
    playground.hub.apply(reservation(namespace, replicas=nodes))
    try:
        wait("a pod on each node", lambda: running(playground, namespace, HOLD) == nodes)
        pods = member.items("pods", namespace)
        assert {pod["spec"]["priority"] for pod in pods} == {-1_000_000_000}
        assert len({pod["spec"]["nodeName"] for pod in pods}) == nodes
        playground.handled()
        wait(
            "no pod to count once that of the barrier has gone", lambda: told(playground) == before
        )

        template = deployment("demo", cpu="100m")
        (main,) = template["spec"]["template"]["spec"]["containers"]
        main["ports"] = [{"containerPort": 80, "hostPort": PORT}]
        owner = workload("demo", namespace, targetDeployment=template, template=None, replicas=1)
        playground.hub.apply(owner)
        wait("the owner's pod", lambda: running(playground, namespace, "demo") == 1)
        wait("one pod less", lambda: running(playground, namespace, HOLD) == nodes - 1)
        wait(
            "its shares",
            lambda: (
                playground.placements(namespace, HOLD)
                == ({"member-1": nodes - 1} if nodes > 1 else {})
            ),
        )
        playground.hub("-n", namespace, "delete", "wl", "demo")
        wait("the pod to come back", lambda: running(playground, namespace, HOLD) == nodes)
    finally:
        playground.hub("-n", namespace, "delete", "rsv", "room")
    wait("they are gone", lambda: playground.seen("member-1", namespace, HOLD) is None)
    wait("the Workload is", lambda: not playground.hub("-n", namespace, "get", "wl", "-o", "name"))
