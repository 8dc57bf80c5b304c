"""Reservations from plain dicts, and what the tests ask of a hub that has some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS
from tests.controller.live import EVENTS_EVERY, World, condition
from tests.patience import until


def owner(name: str = "demo", **more: Any) -> dict[str, Any]:
    """An owner by its name, as spec.owners has it."""
    return {"object": {"kind": "Workload", "name": name, **more}}


def pods(**requests: str) -> dict[str, Any]:
    """spec.template: a pod that asks for that much."""
    container = {"name": "main", "resources": {"requests": requests or {"cpu": "4"}}}
    return {"spec": {"containers": [container]}}


def reservation(
    name: str = "room",
    *,
    requests: Mapping[str, str] | None = None,
    owners: Sequence[Mapping[str, Any]] | None = None,
    labels: Mapping[str, str] | None = None,
    namespace: str = "shop",
    **spec: Any,
) -> dict[str, Any]:
    """A Reservation of one unit of 4 cpu for the Workload demo, unless told otherwise."""
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "schedulerName": "stowage",  # the schema fills it in; a hub in memory has none
            "template": pods(**(requests or {"cpu": "4"})),
            "owners": list(owners or [owner()]),
            **spec,
        },
    }


async def reserve(world: World, name: str = "room", **how: Any) -> None:
    """Create `reservation(name, …)`."""
    await world.client.create(RESERVATIONS, reservation(name, namespace=world.namespace, **how))


async def stored(world: World, name: str = "room") -> dict[str, Any]:
    return await world.client.get(RESERVATIONS, name, namespace=world.namespace)


async def phase(world: World, wanted: str, name: str = "room", **says: Any) -> dict[str, Any]:
    """The status of a reservation, as soon as its phase is that, and its fields say so."""
    latest: dict[str, Any] = {}

    async def there() -> bool:
        nonlocal latest
        latest = (await stored(world, name)).get("status", {})
        right = all(latest.get(field) == value for field, value in says.items())
        return latest.get("phase") == wanted and right

    await until(there, what=lambda: latest)
    return latest


def ready(status: Mapping[str, Any]) -> tuple[str, str]:
    """(status, reason) of the condition Ready."""
    found = condition(status, "Ready")
    return found["status"], found["reason"]


def inside(workload: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """{(reservation, cluster): units} as a Workload tells."""
    told = workload.get("status", {}).get("reservations") or []
    return {(each["name"], each["cluster"]): each["replicas"] for each in told}


async def within(world: World, name: str, **shares: int) -> dict[str, Any]:
    """The Workload, as soon as it has so many units inside a reservation, by cluster."""

    def holds(status: Mapping[str, Any]) -> bool:
        found: dict[str, int] = {}
        for (_, cluster), units in inside({"status": status}).items():
            found[cluster] = found.get(cluster, 0) + units
        return found == shares

    return await world.until(name, holds)


async def told(world: World, reason: str, name: str = "room", *, least: int = 1) -> list[str]:
    """The notes of the Events of that reason about a reservation."""
    uid = (await stored(world, name))["metadata"]["uid"]
    notes: list[str] = []

    async def there() -> bool:
        about = await world.events_about(uid)
        notes[:] = [e["note"] for e in about if e["reason"] == reason]
        return len(notes) >= least

    await until(there, every=EVENTS_EVERY)
    return notes


async def free(world: World, cluster: str, **amounts: str) -> None:
    """The cluster has one node with that much of everything, and nothing else is counted there."""
    status = {
        "nodeGroups": [{"count": 1, "labels": {}, "taints": [], "free": amounts}],
        "capacity": {"nodes": 1, "allocatable": amounts, "requested": {}},
    }
    written = await world.client.merge_patch(
        MEMBER_CLUSTERS, cluster, {"status": status}, subresource="status"
    )
    await world._heard(written)
