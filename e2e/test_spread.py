"""The promises of WorkloadSpread, read from what the members run.

The members get labels of this file's own: member-1 is the pool that is filled first, member-2 the
elastic one, and each is a part of its own. A full member is made by filling its nodes. The spread
is applied first: a Workload that is placed already stays on its clusters.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Playground, deployment, steady, wait, workload
from e2e.room import Room

POOL = "spread.example.com/pool"
PART = "spread.example.com/part"
LABELS = {
    "member-1": {POOL: "normal", PART: "a"},
    "member-2": {POOL: "elastic", PART: "b"},
    "member-3": {PART: "c"},
}
COST = "controller.kubernetes.io/pod-deletion-cost"
NODE, FILLING, SMALL = 16, 15, 2
"""The room that a node offers, and that units take: a small unit fits beside no large one."""


@pytest.fixture(scope="module", autouse=True)
def labels(playground: Playground) -> Iterator[None]:
    for member, labels in LABELS.items():
        pairs = (f"{key}={value}" for key, value in labels.items())
        playground.hub("label", "mc", member, "--overwrite", *pairs)
    yield
    for member, labels in LABELS.items():
        playground.hub("label", "mc", member, *(f"{key}-" for key in labels))


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


def told(playground: Playground, namespace: str, name: str) -> dict[str, dict[str, Any]]:
    """Return the subsets in the spread's status, by name."""
    status = playground.hub.get("ws", name, namespace).get("status", {})
    return {each["name"]: each for each in status.get("subsetStatuses", [])}


def until_told(
    playground: Playground, namespace: str, name: str, **subsets: tuple[int, int]
) -> None:
    """Wait until each subset has these replicas and missingReplicas."""

    def found() -> bool:
        said = told(playground, namespace, name)
        numbers = {k: (s.get("replicas", 0), s.get("missingReplicas")) for k, s in said.items()}
        return numbers == subsets

    wait(f"{name} to tell {subsets}", found)


def events(playground: Playground, namespace: str, name: str) -> Counter[str]:
    """Return the number of events on the spread, by reason."""
    found = playground.hub.items("events", namespace)
    mine = (e for e in found if e["involvedObject"].get("kind") == "WorkloadSpread")
    return Counter(e["reason"] for e in mine if e["involvedObject"]["name"] == name)


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


@pytest.mark.long
@pytest.mark.proves("W4", "W8", "W9", "W11")
def test_a_proportion_over_parts_with_a_patch_for_each(
    playground: Playground, namespace: str
) -> None:
    def patch(arch: str, cpu: str, memory: str) -> dict[str, Any]:
        limits = {"limits": {"cpu": cpu, "memory": memory}}
        container = {"name": "main", "resources": limits}
        return {"metadata": {"labels": {"arch": arch}}, "spec": {"containers": [container]}}

    template = deployment("zones")
    beside = {"name": "beside", "image": "registry.k8s.io/pause:3.10"}
    template["spec"]["template"]["spec"]["containers"].append(beside)
    playground.hub.apply(
        spread(
            "zones",
            namespace,
            subset("a", PART, "a", maxReplicas="20%", patch=patch("x86", "500m", "800Mi")),
            subset("b", PART, "b", maxReplicas="20%", patch=patch("arm", "300m", "600Mi")),
            subset("c", PART, "c", maxReplicas="60%"),
        ),
        workload("zones", namespace, targetDeployment=template, replicas=10),
    )
    until_placed(playground, namespace, "zones", member_1=2, member_2=2, member_3=6)
    for number, shares in ((5, (1, 1, 3)), (10, (2, 2, 6))):
        playground.hub("-n", namespace, "scale", "wl", "zones", f"--replicas={number}")
        names = ("member_1", "member_2", "member_3")
        until_placed(playground, namespace, "zones", **dict(zip(names, shares, strict=True)))
    for member, arch, limits in (
        ("member-1", "x86", {"cpu": "500m", "memory": "800Mi"}),
        ("member-2", "arm", {"cpu": "300m", "memory": "600Mi"}),
        ("member-3", None, None),
    ):
        found = playground.seen(member, namespace, "zones")
        assert found is not None
        pods = found["spec"]["template"]
        main, other = pods["spec"]["containers"]
        assert pods["metadata"]["labels"].get("arch") == arch
        assert main["resources"].get("limits") == limits
        assert main["resources"]["requests"] == {"cpu": "10m"}
        assert other["name"] == "beside"
        assert not other.get("resources")


@pytest.mark.long
@pytest.mark.proves("W28", "W29", "W30", "W32")
def test_a_full_member_is_passed_by_at_once_or_after_a_while(
    playground: Playground, namespace: str
) -> None:
    room = Room(playground.members)
    try:
        for member in playground.members:
            room.offer(member, [NODE] * len(room.nodes(member)))
        fill_and_pass(playground, namespace, room)
    finally:
        room.close()


def fill_and_pass(playground: Playground, namespace: str, room: Room) -> None:
    """Fill member-1, and assert where units without room there go."""
    hub = playground.hub
    nodes = len(room.nodes("member-1"))
    filling = deployment("filling")
    room.takes(filling["spec"]["template"], FILLING)
    hub.apply(
        workload(
            "filling", namespace, targetDeployment=filling, replicas=nodes,
            targetCluster={"name": "member-1"},
        )
    )  # fmt: skip
    playground.until_running(namespace, "filling")

    def full() -> bool:
        groups = hub.get("mc", "member-1")["status"]["nodeGroups"]
        return all(group["free"].get(room.resource) == str(NODE - FILLING) for group in groups)

    wait("the capacity of member-1 to say so", full)
    subsets = (subset("normal", POOL, "normal"), subset("elastic", POOL, "elastic"))
    for name, simulate in (("knows", True), ("tries", False)):
        adaptive = {"rescheduleCriticalSeconds": 3, "disableSimulationSchedule": not simulate}
        strategy = {"type": "Adaptive", "adaptive": adaptive}
        small = deployment(name)
        room.takes(small["spec"]["template"], SMALL)
        hub.apply(
            spread(name, namespace, *subsets, scheduleStrategy=strategy),
            workload(name, namespace, targetDeployment=small, replicas=2),
        )
    until_placed(playground, namespace, "knows", member_2=2)
    history = playground.status(namespace, "knows")["history"]
    assert [change["assigned"] for change in history] == [2], "the first decision was right"
    until_placed(playground, namespace, "tries", member_2=2)
    playground.until_running(namespace, "tries")

    def marks() -> list[tuple[str, str, str]]:
        subset = told(playground, namespace, "tries")["normal"]
        return [(c["type"], c["status"], c["reason"]) for c in subset["conditions"]]

    wait("the mark", lambda: ("Schedulable", "False", "PodUnschedulable") in marks())
    assert "conditions" not in told(playground, namespace, "knows")["normal"] or all(
        c["status"] == "True" for c in told(playground, namespace, "knows")["normal"]["conditions"]
    )
    wait("the event", lambda: events(playground, namespace, "tries")["Rescheduled"])
    hub("-n", namespace, "scale", "wl", "tries", "--replicas=3")
    until_placed(playground, namespace, "tries", member_2=3)


@pytest.mark.long
@pytest.mark.proves("W27", "W15")
def test_fixed_waits_where_it_is_and_an_edit_of_the_cap_moves_nothing(
    playground: Playground, namespace: str
) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "f"}}}
    picky = deployment("f")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    picky["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    nodes = len(playground.members["member-1"].items("nodes"))
    units = nodes + 1
    caps = (subset("normal", POOL, "normal", maxReplicas=units), subset("elastic", POOL, "elastic"))
    playground.hub.apply(
        spread("f", namespace, *caps),
        workload("f", namespace, targetDeployment=picky, replicas=units),
    )
    until_placed(playground, namespace, "f", member_1=units)

    def waits() -> bool:
        shares = playground.status(namespace, "f").get("clusters", [])
        return any(each.get("unschedulable", 0) == 1 for each in shares)

    wait("a unit without a node", waits)
    caps[0]["maxReplicas"] = 1
    playground.hub.apply(spread("f", namespace, *caps))
    until_told(playground, namespace, "f", normal=(units, 0), elastic=(0, -1))
    steady(
        playground,
        "the units stay where they are",
        lambda: playground.placements(namespace, "f") == {"member-1": units},
    )
    playground.hub("-n", namespace, "scale", "wl", "f", f"--replicas={units + 1}")
    until_placed(playground, namespace, "f", member_1=units, member_2=1)
