"""The rows of the page's tables, from the snapshot: computed once for each revision and second.

The same dictionaries of JSON values are shown in HTML and sent as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from controller.model.objects import MemberCluster
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import Clock
from machinery.errors import Forbidden
from machinery.types import quantities
from machinery.types.api import Capacity
from stowage.console import words
from stowage.report import fleet, status
from stowage.report.findings import Report, condition
from stowage.web.snapshot import FleetObjects

Row = dict[str, Any]
T = TypeVar("T")

LABEL_ZONE, LABEL_REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
RESOURCES = ("cpu", "memory", "pods")
FRESH_SECONDS = 1.0
"""For so long a table serves, though objects change."""
AGED_SECONDS = 5.0
"""For so long where none changes: ages and leases go on."""
GOOD = frozenset(
    {"Ready", "Running", "Scheduled", "Complete", "Finished", "Available", "Succeeded", "True"}
)
CALM = frozenset(
    {
        *("Cordoned", "Draining", "Drained", "Creating", "Leaving", "Moving", "Removing"),
        *("LeftToOthers", "Scheduling"),
    }
)


def tone(state: str) -> str:
    """Return `good`, `calm`, `wait` or `bad`: the shape and colour that a state is shown with."""
    if state in GOOD:
        return "good"
    if state in CALM:
        return "calm"
    return "wait" if state in ("Pending", "Undecided", "Unknown", "") else "bad"


def wave_tone(wave: Mapping[str, Any], rollout: Mapping[str, Any]) -> str:
    """Return the tone of a wave of a rollout, as `stowage rollout status -o json` tells it."""
    if wave.get("failed"):
        return "bad"
    asks = rollout["phase"] == "AwaitingApproval" and wave["name"] == rollout["wave"]
    if asks or wave.get("deferred"):
        return "wait"
    return "good" if wave.get("clusters") and wave.get("healthy") == wave["clusters"] else "calm"


class FleetView:
    """Tables over one snapshot; `system` is the namespace of the Leases, empty for files."""

    def __init__(self, snapshot: FleetObjects, *, system: str, clock: Clock) -> None:
        self._snapshot, self._system, self._clock = snapshot, system, clock
        self._kept: dict[str, tuple[int, float, Any]] = {}

    def _computed(self, name: str, compute: Callable[[], T]) -> T:
        now, revision = self._clock.monotonic(), self._snapshot.revision
        if (kept := self._kept.get(name)) is not None:
            age = now - kept[1]
            if age < FRESH_SECONDS or (kept[0] == revision and age < AGED_SECONDS):
                found: T = kept[2]
                return found
        made = compute()
        self._kept[name] = (revision, now, made)
        return made

    def report(self) -> Report:
        def compute() -> Report:
            found = status.read(self._snapshot, None, self._system, self._clock.now())
            if not self._system:  # files hold no Lease that anybody renews
                found.processes = []
            return found

        return self._computed("report", compute)

    def clusters(self) -> list[Row]:
        """Return a row for each cluster, by name; none where the reader may not list them."""
        return self._computed("clusters", self._clusters)

    def workloads(self) -> list[Row]:
        """Return a row for each Workload, by namespace and name."""
        return self._computed("workloads", self._workloads)

    def _clusters(self) -> list[Row]:
        held = _held(self._workload_objects())
        try:
            every = [*self._snapshot.each(MEMBER_CLUSTERS, MemberCluster)]
        except Forbidden:
            every = []
        return [cluster_row(each, *held.get(each.metadata.name, (0, 0))) for each in every]

    def _workloads(self) -> list[Row]:
        return [workload_row(each) for each in self._workload_objects()]

    def _workload_objects(self) -> list[fleet.WorkloadSummary]:
        try:
            return [*self._snapshot.each(WORKLOADS, fleet.WorkloadSummary)]
        except Forbidden:
            return []

    def on(self, cluster: str) -> list[Row]:
        """Return the Workloads with a share on that cluster, the largest first."""
        found = [
            {**workload_row(each), "units": share.replicas}
            for each in self._workload_objects()
            for share in each.status.placements
            if share.cluster == cluster
        ]
        return sorted(found, key=lambda row: (-row["units"], row["namespace"], row["name"]))


def _held(workloads: Iterable[fleet.WorkloadSummary]) -> Mapping[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for each in workloads:
        for share in each.status.placements:
            units, many = found.get(share.cluster, (0, 0))
            found[share.cluster] = (units + share.replicas, many + 1)
    return found


def cluster_row(cluster: MemberCluster, units: int, workloads: int) -> Row:
    ready = condition(cluster.status.conditions, "Ready")
    state, labels = fleet.cluster_state(cluster, ready), cluster.metadata.labels
    capacity = cluster.status.capacity or Capacity()
    return {
        "name": cluster.metadata.name,
        "state": state,
        "tone": tone(state),
        "ready": ready is not None and ready.status == "True",
        "since": ready.last_transition_time if ready else "",
        "message": ready.message if ready else "",
        "zone": labels.get(LABEL_ZONE, ""),
        "region": labels.get(LABEL_REGION, ""),
        "version": cluster.version,
        "provider": cluster.provider,
        "labels": dict(labels),
        "nodes": capacity.nodes,
        "units": units,
        "workloads": workloads,
        **{each: _room(each, capacity) for each in RESOURCES},
    }


def _room(resource: str, capacity: Capacity) -> Row:
    offered = quantities.bounded(resource, capacity.allocatable.get(resource, "0"))
    asked = quantities.bounded(resource, capacity.requested.get(resource, "0"))
    return usage(resource, offered, asked)


def usage(resource: str, offered: int, asked: int) -> Row:
    """Return an amount of what is offered: `percent` is whole, 0 where nothing is offered."""
    return {
        "allocatable": offered,
        "requested": asked,
        "percent": asked * 100 // offered if offered else 0,
        "text": f"{quantities.readable(resource, asked)} of "
        f"{quantities.readable(resource, offered)}",
    }


def workload_row(each: fleet.WorkloadSummary) -> Row:
    """Return a Workload with its units and, where it has one, its trouble."""
    state = fleet.workload_state(each)
    said = _trouble(each)
    return {
        "namespace": each.metadata.namespace,
        "name": each.metadata.name,
        "state": state,
        "tone": tone(state),
        "desired": each.status.desired,
        "assigned": each.status.assigned,
        "pending": each.status.pending,
        "ready": each.status.ready,
        "clusters": words.shares({p.cluster: p.replicas for p in each.status.placements}),
        "placements": {p.cluster: p.replicas for p in each.status.placements},
        "reason": said[0],
        "message": said[1],
        "created": each.metadata.creation_timestamp,
    }


def _trouble(each: fleet.WorkloadSummary) -> tuple[str, str]:
    for kind in ("Scheduled", "Propagated"):
        said = each.condition(kind)
        if said is not None and said.status != "True" and said.reason != "Propagating":
            return said.reason, said.message
    return "", ""


def sums(rows: Iterable[Row]) -> list[Row]:
    """Return the room of all clusters together, a row for each resource."""
    total = {each: [0, 0] for each in RESOURCES}
    for row in rows:
        for resource, pair in total.items():
            pair[0] += row[resource]["allocatable"]
            pair[1] += row[resource]["requested"]
    return [{"resource": each, **usage(each, *pair)} for each, pair in total.items()]


def sorted_by(rows: Sequence[Row], key: str) -> list[Row]:
    """Return rows by a column; `-key` is the largest first. An unknown column leaves them."""
    name, down = key.removeprefix("-"), key.startswith("-")
    if not rows or name not in rows[0]:
        return [*rows]

    def value(row: Row) -> Any:
        found = row[name]
        return found["percent"] if isinstance(found, dict) and "percent" in found else found

    try:
        return sorted(rows, key=value, reverse=down)
    except TypeError:  # a column that has no order, such as labels
        return [*rows]


Columns = dict[str, Any]


def cluster_columns(rows: Sequence[Row], revision: int) -> Columns:
    """Return the clusters: `ready` is 0 or 1, amounts are in millicores, bytes and pods."""
    return {
        "rev": revision,
        "n": len(rows),
        "name": [row["name"] for row in rows],
        "ready": [int(row["ready"]) for row in rows],
        **{each: _dictionary(row[each] for row in rows) for each in _WORDS},
        "units": [row["units"] for row in rows],
        **{
            each: {
                "alloc": [row[each]["allocatable"] for row in rows],
                "req": [row[each]["requested"] for row in rows],
            }
            for each in RESOURCES
        },
    }


_WORDS = ("state", "zone", "region", "version", "provider")


def workload_columns(rows: Sequence[Row], revision: int) -> Columns:
    return {
        "rev": revision,
        "n": len(rows),
        "name": [row["name"] for row in rows],
        **{each: _dictionary(row[each] for row in rows) for each in ("namespace", "state")},
        **{each: [row[each] for row in rows] for each in ("desired", "assigned", "ready")},
    }


def _dictionary(values: Iterable[str]) -> Columns:
    """Return each word once, and for each row the place of its word."""
    places: dict[str, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return {"dict": [*places], "idx": at}
