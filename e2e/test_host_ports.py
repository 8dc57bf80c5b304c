"""Host ports on real members: units that their own schedulers would refuse do not go there."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import Playground, deployment, wait, workload

PORT = 18080
RESOURCE = f"hostport/TCP/{PORT}"


def with_port(name: str) -> dict[str, Any]:
    """Return a Deployment whose pods take a port of their node."""
    found = deployment(name)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["ports"] = [{"containerPort": 80, "hostPort": PORT}]
    return found


def told(playground: Playground, member: str) -> int:
    """Return the number of nodes on which a member reports the port in use."""
    groups = playground.hub.get("mc", member)["status"]["nodeGroups"]
    return sum(group["count"] for group in groups if group["free"].get(RESOURCE) == "0")


@pytest.mark.long
@pytest.mark.proves("E28")
def test_a_port_that_a_pod_of_a_member_uses_is_not_given_again(
    playground: Playground, namespace: str
) -> None:
    members = sorted(playground.members)
    nodes = {m: len(playground.members[m].items("nodes")) for m in members}
    for member in members:
        assert told(playground, member) == 0
    first = playground.members["member-1"]
    somebody = with_port("somebody")
    first("create", "namespace", "elsewhere")
    try:
        somebody["metadata"]["namespace"] = "elsewhere"
        first.apply(somebody)
        wait("member-1 to tell the port", lambda: told(playground, "member-1") == 1)
        everywhere = sum(nodes.values())
        playground.hub.apply(
            workload(
                "ported",
                namespace,
                targetDeployment=with_port("ported"),
                template=None,
                replicas=everywhere,
                distribution="Divided",
            )
        )
        said = playground.until_condition(
            namespace, "ported", "Scheduled", reason="InsufficientCapacity"
        )
        free = nodes | {"member-1": nodes["member-1"] - 1}
        assert playground.placements(namespace, "ported") == {m: n for m, n in free.items() if n}
        assert f"{everywhere - 1} of {everywhere} replicas have a cluster" in said["message"]

        def ready() -> bool:
            status = playground.status(namespace, "ported")
            return bool(status["ready"] == status["assigned"] == everywhere - 1)

        wait("every unit to run: no member had one too many", ready)

        first("-n", "elsewhere", "delete", "deployment", "somebody")
        wait("the last unit", lambda: playground.placements(namespace, "ported") == nodes)
    finally:
        first("delete", "namespace", "elsewhere", "--wait=false")
    wait("each node's port to be told", lambda: all(told(playground, m) == nodes[m] for m in nodes))
