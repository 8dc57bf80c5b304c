"""The promises of WorkloadSpread, read from what the members run.

The members get a label of this file's own: member-1 is the pool that is filled first, member-2 the
elastic one. The spread is applied first: a Workload that is placed already stays on its clusters.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Playground, wait, workload

POOL = "spread.example.com/pool"
POOLS = {"member-1": "normal", "member-2": "elastic"}
COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.fixture(scope="module", autouse=True)
def labels(playground: Playground) -> Iterator[None]:
    for member, pool in POOLS.items():
        playground.hub("label", "mc", member, "--overwrite", f"{POOL}={pool}")
    yield
    for member in POOLS:
        playground.hub("label", "mc", member, f"{POOL}-")


def subset(name: str, key: str, *values: str, **fields: Any) -> dict[str, Any]:
    """Return the subset of the clusters with one of these values."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"name": name, "requiredNodeSelectorTerm": term, **fields}


def spread(name: str, namespace: str, *subsets: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a WorkloadSpread on the Workload of its own name."""
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": name}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetRef": target, "subsets": list(subsets), **spec},
    }


def until_placed(playground: Playground, namespace: str, name: str, **shares: int) -> None:
    """Wait for these shares on the hub, and on the members."""
    wanted = {member.replace("_", "-"): units for member, units in shares.items()}
    wait(
        f"{name} to be placed as {wanted}",
        lambda: playground.placements(namespace, name) == wanted,
    )
    wait(f"the members to run {wanted}", lambda: deployed(playground, namespace, name) == wanted)


def deployed(playground: Playground, namespace: str, name: str) -> dict[str, int]:
    """Return spec.replicas of the Deployment on each member that has it."""
    found = {member: playground.seen(member, namespace, name) for member in playground.members}
    return {member: it["spec"]["replicas"] for member, it in found.items() if it}


def until_told(
    playground: Playground, namespace: str, name: str, **subsets: tuple[int, int]
) -> None:
    """Wait until each subset has these replicas and missingReplicas."""

    def found() -> bool:
        status = playground.hub.get("ws", name, namespace).get("status", {})
        return subsets == {
            each["name"]: (each.get("replicas", 0), each.get("missingReplicas"))
            for each in status.get("subsetStatuses", [])
        }

    wait(f"{name} to tell {subsets}", found)


def costs(playground: Playground, member: str, namespace: str) -> Counter[str]:
    """Return the number of pods there by deletion cost."""
    pods = playground.members[member].items("pods", namespace)
    return Counter(p["metadata"].get("annotations", {}).get(COST, "") for p in pods)


@pytest.mark.long
@pytest.mark.proves("W2", "W3", "W6", "W7", "W10", "W13", "W14")
def test_the_elastic_pool_comes_in_last_and_goes_first(
    playground: Playground, namespace: str
) -> None:
    hub = playground.hub
    hub.apply(
        spread(
            "web", namespace, subset("normal", POOL, "normal", maxReplicas=10),
            subset("elastic", POOL, "elastic"),
        ),
        workload("web", namespace, replicas=8),
    )  # fmt: skip
    until_placed(playground, namespace, "web", member_1=8)
    until_told(playground, namespace, "web", normal=(8, 2), elastic=(0, -1))
    for number, shares in (
        (13, {"member_1": 10, "member_2": 3}),
        (11, {"member_1": 10, "member_2": 1}),
    ):
        hub("-n", namespace, "scale", "wl", "web", f"--replicas={number}")
        until_placed(playground, namespace, "web", **shares)
    until_told(playground, namespace, "web", normal=(10, 0), elastic=(1, -1))
    wait("the costs", lambda: costs(playground, "member-1", namespace) == {"200": 10})
    wait("the costs", lambda: costs(playground, "member-2", namespace) == {"100": 1})
    path = f"/apis/stowage.dev/v1alpha1/namespaces/{namespace}/workloads/web/scale"
    scale = json.loads(hub("get", "--raw", path))
    assert (scale["status"]["replicas"], scale["status"]["selector"]) == (11, "app=web")
    generation = hub.get("wl", "web", namespace)["metadata"]["generation"]
    hub("-n", namespace, "delete", "ws", "web")
    wait("the overrides to go", lambda: not playground.status(namespace, "web").get("overrides"))
    assert playground.placements(namespace, "web") == {"member-1": 10, "member-2": 1}
    assert hub.get("wl", "web", namespace)["metadata"]["generation"] == generation
