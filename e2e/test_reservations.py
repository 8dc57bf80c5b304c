"""What a Reservation promises, seen where it counts: who finds room on a member, and who does not.

A reservation of 7500m takes a node of 8 cpu, so one with as many units as member-1 has nodes fills
it, in the books of the controller or, with `hold: Member`, on the member itself.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.harness import Playground, deployment, pod_template, stowage, wait, workload
from machinery.types import quantities

FILLING = "7500m"
"""Of the 8 cpu of each node: a unit of 600m fits no more."""
THERE = {"targetCluster": {"name": "member-1"}}


@pytest.fixture(autouse=True)
def only_local(playground: Playground) -> None:
    if playground.provider != "local":
        pytest.skip("fills a member's nodes, which are the host's own on kind")


def nodes(playground: Playground) -> int:
    """Of member-1."""
    return len(playground.members["member-1"].items("nodes"))


def roomy(playground: Playground) -> int:
    """Nodes of member-1 with room for a large unit, as the hub knows it; placeholders take none."""
    groups = playground.hub.get("mc", "member-1")["status"]["nodeGroups"]
    free = [(quantities.amount("cpu", each["free"]["cpu"]), each["count"]) for each in groups]
    return sum(count for cpu, count in free if cpu >= quantities.amount("cpu", FILLING))


def reservation(name: str, namespace: str, *owners: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Room for units of 7500m on member-1."""
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "template": pod_template(name, cpu=FILLING),
            "owners": list(owners),
            **THERE,
            **spec,
        },
    }


def labelled(app: str) -> dict[str, Any]:
    """An owner by its label."""
    return {"labelSelector": {"matchLabels": {"app": app}}}


def large(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A Workload whose units take a node each."""
    body = deployment(name, cpu=FILLING)
    return workload(name, namespace, targetDeployment=body, **spec)


def small(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A Workload that fits beside nothing of 7500m, on member-1 alone."""
    return workload(name, namespace, targetDeployment=deployment(name, cpu="600m"), **THERE, **spec)


def of(playground: Playground, namespace: str, name: str) -> dict[str, Any]:
    """The reservation's status."""
    found: dict[str, Any] = playground.hub.get("rsv", name, namespace)
    return dict(found.get("status", {}))


def until(playground: Playground, namespace: str, name: str, phase: str) -> dict[str, Any]:
    """Its status, once it is in that phase; Available with all of its units."""

    def found() -> dict[str, Any]:
        status = of(playground, namespace, name)
        lacking = phase == "Available" and status.get("pending")
        if status.get("phase") != phase or lacking:
            raise ValueError(json.dumps(status))
        return status

    return wait(f"reservation {name} to be {phase}", found)


def said(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """Its condition of that type."""
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def until_lacking(playground: Playground, namespace: str, name: str) -> None:
    """The Workload finds no room."""
    playground.until_condition(namespace, name, "Scheduled", reason="InsufficientCapacity")


@pytest.mark.proves("E25", "E26", "E27", "E28")
def test_room_is_kept_for_its_owner_whatever_speaks_against_the_neighbours(
    playground: Playground, namespace: str
) -> None:
    hub, units = playground.hub, nodes(playground)
    hub.apply(reservation("room", namespace, labelled("owner"), replicas=units, allocateOnce=False))
    status = until(playground, namespace, "room", "Available")
    assert status["clusterName"] == "member-1"
    assert status["allocatable"]["cpu"] in (f"{units * 7500}m", f"{units * 7.5:g}")
    table = hub("-n", namespace, "get", "rsv", "room").split()
    assert table[:4] == ["NAME", "PHASE", "CLUSTER", "AGE"]
    assert table[4:7] == ["room", "Available", "member-1"]
    hub.apply(small("stranger", namespace))
    until_lacking(playground, namespace, "stranger")

    apart = {
        "labelSelector": {"matchLabels": {"app": "room"}},
        "topologyKey": "stowage.dev/cluster",
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    hub.apply(large("owner", namespace, replicas=units, workloadAntiAffinity=rule))
    playground.until_running(namespace, "owner")
    assert playground.placements(namespace, "owner") == {"member-1": units}
    stored = hub.get("wl", "owner", namespace)
    assert stored["spec"]["workloadAntiAffinity"] == rule, "what is stored is its user's"
    (inside,) = stored["status"]["reservations"]
    assert (inside["name"], inside["cluster"], inside["replicas"]) == ("room", "member-1", units)

    def told() -> bool:
        status = of(playground, namespace, "room")
        names = [each["name"] for each in status.get("currentOwners", [])]
        return names == ["owner"] and status["allocated"]["cpu"] == status["allocatable"]["cpu"]

    wait("the reservation to tell its owner", told)
    words = stowage("explain", "wl/owner", "-n", namespace, "--kubeconfig", str(hub.kubeconfig))
    assert "room" in words
    until_lacking(playground, namespace, "stranger")

    hub("-n", namespace, "delete", "wl", "owner")
    wait(
        "the room to come back", lambda: not of(playground, namespace, "room").get("currentOwners")
    )
    assert of(playground, namespace, "room")["phase"] == "Available"
    until_lacking(playground, namespace, "stranger")
    hub("-n", namespace, "delete", "rsv", "room")
    playground.until_running(namespace, "stranger")


@pytest.mark.proves("E29")
def test_what_expires_or_served_once_gives_its_room_to_everybody(
    playground: Playground, namespace: str
) -> None:
    hub, units = playground.hub, nodes(playground)
    short = {"replicas": units, "ttl": "1h"}
    hub.apply(reservation("short", namespace, labelled("nobody"), **short))
    until(playground, namespace, "short", "Available")
    hub.apply(small("waits", namespace))
    until_lacking(playground, namespace, "waits")
    hub.apply(reservation("short", namespace, labelled("nobody"), **short | {"ttl": "8s"}))
    status = until(playground, namespace, "short", "Failed")
    assert said(status, "Ready")["reason"] == "Expired"
    playground.until_running(namespace, "waits")
    hub("-n", namespace, "delete", "wl", "waits")

    hub.apply(reservation("once", namespace, labelled("first"), replicas=units))
    until(playground, namespace, "once", "Available")
    hub.apply(small("second", namespace))
    until_lacking(playground, namespace, "second")
    hub.apply(small("first", namespace))
    playground.until_running(namespace, "first")
    status = until(playground, namespace, "once", "Succeeded")
    assert [each["name"] for each in status["currentOwners"]] == ["first"]
    playground.until_running(namespace, "second")


@pytest.mark.proves("E28")
def test_room_that_is_held_on_the_member_gives_way_to_the_owner(
    playground: Playground, namespace: str
) -> None:
    hub, member, units = playground.hub, playground.members["member-1"], nodes(playground)
    hub.apply(
        reservation(
            "real", namespace, labelled("owner"), replicas=units, hold="Member", allocateOnce=False
        )
    )
    until(playground, namespace, "real", "Available")

    def held() -> int:
        pods = member.items("pods", namespace)
        return sum(
            p["spec"].get("priorityClassName") == "stowage-placeholder"
            and p["status"].get("phase") == "Running"
            for p in pods
        )

    wait("the placeholders to run", lambda: held() == units)
    foreign = deployment("local-user", cpu="600m")
    foreign["metadata"]["namespace"] = namespace
    member.apply(foreign)  # who does not ask us preempts a placeholder: it has the least priority
    wait("a placeholder to give way", lambda: held() == units - 1)
    member("-n", namespace, "delete", "deployment", "local-user")
    wait("it to come back", lambda: held() == units)
    wait("the hub to know of the room", lambda: roomy(playground) == units)
    hub.apply(large("owner", namespace, replicas=units))
    playground.until_running(namespace, "owner")
    wait("all to have given way", lambda: held() == 0)
    hub("-n", namespace, "delete", "wl", "owner")
    wait("them to come back", lambda: held() == units)
    hub("-n", namespace, "delete", "rsv", "real")
    wait("them to go", lambda: not member.items("pods", namespace))
