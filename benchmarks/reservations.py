"""Reservations and their owners: their cost for decisions on owners, and on other Workloads.

    uv run python -m benchmarks.reservations

A thousand clusters, a thousand reservations of two units, each placed, and a thousand Workloads of
two units that own one each. A line is one decision, the median and the 99th percentile in
milliseconds: on a stranger without reservations, on one beside them, on an owner that goes inside,
on one whose reservation cannot hold it, and on one that owns all of them. The ratio is that to the
first line. The last line is the time of reading all objects at a start, with the reservations and
without.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from benchmarks.decide import times
from benchmarks.fleets import clusters
from controller.config import default_profile
from controller.eventhandlers import known
from controller.features.reservation.compiled import Reservation
from controller.model.objects import Workload
from crds.names import DEFAULT_SCHEDULER
from stowage.simulation.rehearsal import Rehearsal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"
SIZE, UNITS, ROUNDS = 1000, 2, 300


def _template(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def _meta(name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": name, "generation": 1}
    return {**meta, "creationTimestamp": CREATED, "resourceVersion": "1"}


def reservation(number: int, owner: str = "") -> Reservation:
    """Return room on the cluster of that number, for the owner of that number or `owner`."""
    spec = {
        "template": _template(f"room-{number}", "500m"),
        "replicas": UNITS,
        "owners": [{"object": {"kind": "Workload", "name": owner or f"owner-{number}"}}],
        "allocateOnce": False,
        "ttl": "0",
        "schedulerName": DEFAULT_SCHEDULER,
        "distribution": "Divided",
    }
    share = {"cluster": f"member-{number:05}", "replicas": UNITS}
    status = {"phase": "Available", "placements": [share]}
    document = {"metadata": _meta(f"room-{number}"), "spec": spec, "status": status}
    return msgspec.convert(document, Reservation)


def workload(name: str, units: int = UNITS) -> Workload:
    """Return a Workload of so many units."""
    spec = {
        "schedulerName": DEFAULT_SCHEDULER,
        "replicas": units,
        "distribution": "Divided",
        "targetDeployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"template": _template(name, "500m")},
        },
    }
    return known(msgspec.convert({"metadata": _meta(name), "spec": spec}, Workload))


def world(reservations: Sequence[Reservation], *workloads: Workload) -> Rehearsal:
    """Return the state with these reservations placed, and no Workload decided."""
    return Rehearsal(
        {DEFAULT_SCHEDULER: default_profile()},
        clusters=clusters(SIZE),
        workloads=workloads,
        objects=reservations,
        now=NOW,
    )


def line(title: str, rehearsal: Rehearsal, name: str, base: float = 0.0) -> float:
    """Print one decision on that Workload, beside the first line; return the median."""
    p50, p99 = times(partial(rehearsal.once, ("shop", name)), ROUNDS)
    ratio = f"  ratio {p50 / base:5.2f}" if base else ""
    print(f"{SIZE:5} clusters  {title:36}  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms{ratio}")
    return p50


def main() -> None:
    stranger = workload("stranger")
    base = line("stranger, no reservations", world([], stranger), "stranger")
    reservations = [reservation(n) for n in range(SIZE)]
    beside = world(reservations, stranger, workload("owner-7"), workload("owner-8", 40))
    line("stranger beside 1,000 reservations", beside, "stranger", base)
    line("owner that goes inside", beside, "owner-7", base)
    line("owner that does not fit inside", beside, "owner-8", base)
    many = [reservation(n, owner="owner-9") for n in range(SIZE)]
    line("owner of all 1,000", world(many, workload("owner-9", 50)), "owner-9", base)
    started = time.perf_counter()
    world(reservations, *(workload(f"owner-{n}") for n in range(SIZE)))
    both = time.perf_counter() - started
    started = time.perf_counter()
    world([], *(workload(f"owner-{n}") for n in range(SIZE)))
    alone = time.perf_counter() - started
    print(
        f"{SIZE:5} owners and their reservations read  {both * 1000:6.0f} ms"
        f"  the owners alone {alone * 1000:6.0f} ms"
    )


if __name__ == "__main__":
    main()
