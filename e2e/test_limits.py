"""What a member's own scheduler makes of its share: units that it has no node for go elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness import Playground, deployment, wait, workload

ZONE = "topology.kubernetes.io/zone"


def alone_on_its_node(name: str) -> dict[str, Any]:
    """A Deployment of which each node runs one pod, whatever room it has."""
    found = deployment(name)
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    found["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    return found


def weight(zone: str, number: int) -> dict[str, Any]:
    return {"clusterSelector": {"matchLabels": {ZONE: zone}}, "weight": number}


@pytest.mark.proves("D3", "Y4")
def test_units_that_find_no_node_go_where_there_is_one(
    playground: Playground, namespace: str
) -> None:
    # As many nodes as a member has, which is one on kind: all units go to the first, half too many.
    nodes = len(playground.members["member-1"].json("get", "nodes")["items"])
    weights = [weight("zone-1", 100), weight("zone-2", 1)]
    playground.hub.apply(
        workload(
            "picky",
            namespace,
            targetDeployment=alone_on_its_node("picky"),
            template=None,
            replicas=2 * nodes,
            distribution="Divided",
            distributionWeights=weights,
        )
    )

    def crowded() -> bool:
        shares = playground.status(namespace, "picky").get("clusters", [])
        waits = {each["name"]: each.get("unschedulable", 0) for each in shares}
        return waits.get("member-1") == nodes

    wait("units without a node", crowded)
    assert playground.placements(namespace, "picky") == {"member-1": 2 * nodes}
    (share,) = [
        each
        for each in playground.status(namespace, "picky")["clusters"]
        if each["name"] == "member-1"
    ]
    assert share["unschedulableSince"]

    wait(
        "the limit of member-1",
        lambda: playground.status(namespace, "picky").get("limits"),
        timeout=100,
    )
    status = playground.until_running(namespace, "picky")
    assert playground.placements(namespace, "picky") == {"member-1": nodes, "member-2": nodes}
    assert [(each["cluster"], each["replicas"]) for each in status["limits"]] == [
        ("member-1", nodes)
    ]
    assert status["readySummary"] == f"{2 * nodes}/{2 * nodes}"
    for member in ("member-1", "member-2"):
        found = playground.seen(member, namespace, "picky")
        assert found is not None
        assert (found["spec"]["replicas"], found["status"]["readyReplicas"]) == (nodes, nodes)
