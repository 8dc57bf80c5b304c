"""Reservations from plain dicts, and what the tests ask of a hub that has some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from machinery.api.resources import RESERVATIONS
from tests.controller.live import condition


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


def ready(status: Mapping[str, Any]) -> tuple[str, str]:
    """(status, reason) of the condition Ready."""
    found = condition(status, "Ready")
    return found["status"], found["reason"]


def inside(workload: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """{(reservation, cluster): units} as a Workload tells."""
    told = workload.get("status", {}).get("reservations") or []
    return {(each["name"], each["cluster"]): each["replicas"] for each in told}
