"""The promises of Reservation: which Workload finds room on a member, and which does not.

Each node of member-1 offers room for one large unit (`e2e.room`), so a reservation of as many units
as it has nodes fills it, in the controller's ledger or, with `hold: Member`, on the member itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import Playground, deployment, pod_template, stowage, wait, workload
from e2e.room import Room

NODE, LARGE, SMALL = 16, 15, 2
"""The room that a node offers, and that units take. A small unit fits beside no large one."""
THERE = {"targetCluster": {"name": "member-1"}}


@pytest.fixture
def room(playground: Playground) -> Iterator[Room]:
    """Offer room for one large unit on each node of member-1."""
    made = Room({"member-1": playground.members["member-1"]})
    units = len(made.nodes("member-1"))
    made.offer("member-1", [NODE] * units)
    wait("the hub to know of it", lambda: roomy(playground, made) == units)
    yield made
    made.close()


def roomy(playground: Playground, room: Room) -> int:
    """Return the nodes of member-1 with room for a large unit, as the hub counts them."""
    groups = playground.hub.get("mc", "member-1")["status"]["nodeGroups"]
    free = [(int(each["free"].get(room.resource, 0)), each["count"]) for each in groups]
    return sum(count for amount, count in free if amount >= LARGE)


def reservation(
    room: Room, name: str, namespace: str, *owners: dict[str, Any], **spec: Any
) -> dict[str, Any]:
    """Return a Reservation of large units on member-1."""
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "template": room.takes(pod_template(name), LARGE),
            "owners": list(owners),
            **THERE,
            **spec,
        },
    }


def labelled(app: str) -> dict[str, Any]:
    """Return an owner by its label."""
    return {"labelSelector": {"matchLabels": {"app": app}}}


def taking(room: Room, amount: int, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a Workload whose units take so much of the room."""
    body = deployment(name)
    room.takes(body["spec"]["template"], amount)
    return workload(name, namespace, targetDeployment=body, **spec)


def of(playground: Playground, namespace: str, name: str) -> dict[str, Any]:
    """Return the reservation's status."""
    found: dict[str, Any] = playground.hub.get("rsv", name, namespace)
    return dict(found.get("status", {}))


def until(playground: Playground, namespace: str, name: str, phase: str) -> dict[str, Any]:
    """Return its status, once it is in that phase; Available with all of its units."""

    def found() -> dict[str, Any]:
        status = of(playground, namespace, name)
        lacking = phase == "Available" and status.get("pending")
        if status.get("phase") != phase or lacking:
            raise ValueError(json.dumps(status))
        return status

    return wait(f"reservation {name} to be {phase}", found)


def said(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return its condition of that type."""
    return next((c for c in status.get("conditions", []) if c["type"] == kind), {})


def until_lacking(playground: Playground, namespace: str, name: str) -> None:
    """Wait until the Workload finds no room."""
    playground.until_condition(namespace, name, "Scheduled", reason="InsufficientCapacity")


@pytest.mark.long
@pytest.mark.proves("E25", "E26", "E27", "E28")
def test_room_is_kept_for_its_owner_whatever_speaks_against_the_neighbours(
    playground: Playground, namespace: str, room: Room
) -> None:
    hub, units = playground.hub, len(room.nodes("member-1"))
    hub.apply(
        reservation(room, "room", namespace, labelled("owner"), replicas=units, allocateOnce=False)
    )
    status = until(playground, namespace, "room", "Available")
    assert status["clusterName"] == "member-1"
    assert status["allocatable"][room.resource] == str(units * LARGE)
    table = hub("-n", namespace, "get", "rsv", "room").split()
    assert table[:4] == ["NAME", "PHASE", "CLUSTER", "AGE"]
    assert table[4:7] == ["room", "Available", "member-1"]
    hub.apply(taking(room, SMALL, "stranger", namespace, **THERE))
    until_lacking(playground, namespace, "stranger")

    apart = {
        "labelSelector": {"matchLabels": {"app": "room"}},
        "topologyKey": "stowage.dev/cluster",
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    hub.apply(taking(room, LARGE, "owner", namespace, replicas=units, workloadAntiAffinity=rule))
    playground.until_running(namespace, "owner")
    assert playground.placements(namespace, "owner") == {"member-1": units}
    stored = hub.get("wl", "owner", namespace)
    assert stored["spec"]["workloadAntiAffinity"] == rule, "what is stored is its user's"
    (inside,) = stored["status"]["reservations"]
    assert (inside["name"], inside["cluster"], inside["replicas"]) == ("room", "member-1", units)

    def told() -> bool:
        status = of(playground, namespace, "room")
        names = [each["name"] for each in status.get("currentOwners", [])]
        return names == ["owner"] and status["allocated"] == status["allocatable"]

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


@pytest.mark.long
@pytest.mark.proves("E29")
def test_what_expires_or_served_once_gives_its_room_to_everybody(
    playground: Playground, namespace: str, room: Room
) -> None:
    hub, units = playground.hub, len(room.nodes("member-1"))
    short = {"replicas": units, "ttl": "1h"}
    hub.apply(reservation(room, "short", namespace, labelled("nobody"), **short))
    until(playground, namespace, "short", "Available")
    hub.apply(taking(room, SMALL, "waits", namespace, **THERE))
    until_lacking(playground, namespace, "waits")
    hub.apply(reservation(room, "short", namespace, labelled("nobody"), **short | {"ttl": "8s"}))
    status = until(playground, namespace, "short", "Failed")
    assert said(status, "Ready")["reason"] == "Expired"
    playground.until_running(namespace, "waits")
    hub("-n", namespace, "delete", "wl", "waits")

    hub.apply(reservation(room, "once", namespace, labelled("first"), replicas=units))
    until(playground, namespace, "once", "Available")
    hub.apply(taking(room, SMALL, "second", namespace, **THERE))
    until_lacking(playground, namespace, "second")
    hub.apply(taking(room, SMALL, "first", namespace, **THERE))
    playground.until_running(namespace, "first")
    status = until(playground, namespace, "once", "Succeeded")
    assert [each["name"] for each in status["currentOwners"]] == ["first"]
    playground.until_running(namespace, "second")


@pytest.mark.long
@pytest.mark.proves("E28")
def test_room_that_is_held_on_the_member_gives_way_to_the_owner(
    playground: Playground, namespace: str, room: Room
) -> None:
    hub, member = playground.hub, playground.members["member-1"]
    units = len(room.nodes("member-1"))
    hub.apply(
        reservation(
            room,
            "real",
            namespace,
            labelled("owner"),
            replicas=units,
            hold="Member",
            allocateOnce=False,
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
    foreign = deployment("local-user")
    room.takes(foreign["spec"]["template"], SMALL)
    foreign["metadata"]["namespace"] = namespace
    member.apply(foreign)  # a foreign pod preempts a placeholder, which has the lowest priority
    wait("a placeholder to give way", lambda: held() == units - 1)
    member("-n", namespace, "delete", "deployment", "local-user")
    wait("it to come back", lambda: held() == units)
    wait("the hub to know of the room", lambda: roomy(playground, room) == units)
    hub.apply(taking(room, LARGE, "owner", namespace, replicas=units))
    playground.until_running(namespace, "owner")
    wait("all to have given way", lambda: held() == 0)
    hub("-n", namespace, "delete", "wl", "owner")
    wait("them to come back", lambda: held() == units)
    hub("-n", namespace, "delete", "rsv", "real")
    wait("them to go", lambda: not member.items("pods", namespace))
