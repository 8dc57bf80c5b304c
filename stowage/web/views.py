"""The data of each page, as JSON values: what `?format=json` answers, and the template shows."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.model.objects import MemberCluster
from controller.model.why import of_status
from crds.names import LABEL_CLUSTER
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.clock import Clock
from machinery.errors import BadRequest, Forbidden, NotFound
from machinery.types import conditions, quantities
from stowage.kinds import Reference
from stowage.report import advice, explain, features, groups, history, rooms, status
from stowage.report.findings import Finding
from stowage.web import fleetview
from stowage.web.fleetview import FleetView, Row
from stowage.web.snapshot import FleetObjects

Data = dict[str, Any]
Query = Mapping[str, str]

LIMIT = 100
MOST_LIMIT = 500
SHOWN = 25
"""Rows of a list of findings."""
NAMED = 40
"""Objects that one row names."""
OF: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "Pending",
            "Placed, and not running as they should",
            "Moves that are blocked",
            "Being moved",
            "Being rolled out",
            "Being removed",
        ),
        "Workload",
    ),
    **{kind.title: resource.kind for resource, kind in features.LISTED},
}
"""The kind of the names in each list of `stowage status`."""
ASKED = frozenset({"AwaitingApproval"})
"""States in which a person is waited for, as a person asked for it."""
MATRIX_ROWS, MATRIX_COLUMNS = 25, 20
"""Workloads and clusters of one page of the matrix."""
MOST_CHOICES = 300
"""Choices of a list of the what-if; of more than these one is typed."""
MOST_RENDERED = 100
"""Clusters that are looked at for what differs between them."""
GRID = 60
"""With more clusters than these the first page shows squares without names."""
_JSON = dict[str, Any]


class Views:
    """The data of pages over one snapshot."""

    def __init__(self, snapshot: FleetObjects, *, system: str, clock: Clock) -> None:
        self._snapshot = snapshot
        self.fleet = FleetView(snapshot, system=system, clock=clock)

    def overview(self) -> Data:
        """Return counts, what needs a person, why units wait, clusters and their room."""
        report, clusters = self.fleet.report(), self.fleet.clusters()
        lists = [_list(title, each) for title, each in status.lists(report)]
        urgent = {row["tone"] for each in lists for row in each["findings"] if row["urgent"]}
        calm = not urgent - {"wait"} and all(each.leads for each in report.processes)
        return {
            "headline": status.headline(report),
            "tone": "good" if not report.urgent else "wait" if calm else "bad",
            **report.to_dict(),
            "lists": lists,
            "reasons": self._reasons(),
            "grid": [_tile(row) for row in sorted(clusters, key=_worst_first)],
            "named": len(clusters) <= GRID,
            "capacity": fleetview.sums(clusters),
        }

    def _reasons(self) -> list[Row]:
        """Return why units wait, the most units first, with what helps."""
        found: dict[str, Row] = {}
        for row in self.fleet.workloads():
            if row["pending"] and row["reason"]:
                why = found.setdefault(row["reason"], {"units": 0, "workloads": 0})
                why["units"] += row["pending"]
                why["workloads"] += 1
        helps = {r: advice.SCHEDULED.get(r, "").partition(": stowage")[0] for r in found}
        rows = [{"reason": r, **n, "help": helps[r]} for r, n in found.items()]
        return sorted(rows, key=lambda row: (-row["units"], row["reason"]))

    def clusters(self, query: Query) -> Data:
        """Return the clusters that `q`, `ready` and `label` leave, in the order of `sort`."""
        rows = sorted(self.fleet.clusters(), key=_worst_first)
        if text := query.get("q", ""):
            rows = [row for row in rows if text in row["name"] or text in row["zone"]]
        if (ready := query.get("ready", "")) in ("true", "false"):
            rows = [row for row in rows if row["ready"] == (ready == "true")]
        if state := query.get("state", ""):
            rows = [row for row in rows if row["state"] == state]
        if label := query.get("label", ""):
            key, equals, value = label.partition("=")
            rows = [row for row in rows if key in row["labels"]]
            rows = [row for row in rows if not equals or row["labels"][key] == value]
        return _page(fleetview.sorted_by(rows, query.get("sort", "")), query, "clusters")

    def cluster(self, name: str) -> Data:
        """Return one cluster. Raises NotFound."""
        stored = self._snapshot.read(MEMBER_CLUSTERS, name, None, MemberCluster)
        body = self._snapshot.read(MEMBER_CLUSTERS, name, None, _JSON)
        here = self.fleet.on(name)
        said = body.get("status") or {}
        return {
            **fleetview.cluster_row(stored, sum(row["units"] for row in here), len(here)),
            "cordoned": stored.spec.unschedulable,
            "taints": [taint.text for taint in stored.spec.taints],
            "conditions": said.get("conditions") or [],
            "nodeGroups": said.get("nodeGroups") or [],
            "evacuation": said.get("evacuation"),
            "latencyMilliseconds": said.get("latencyMilliseconds"),
            "reliability": said.get("reliability"),
            "here": here[:MOST_LIMIT],
            "more": max(len(here) - MOST_LIMIT, 0),
        }

    def workloads(self, query: Query) -> Data:
        """Return the Workloads that `ns`, `state`, `q` and `cluster` leave."""
        rows = sorted(self.fleet.workloads(), key=_worst_first)
        if namespace := query.get("ns", ""):
            rows = [row for row in rows if row["namespace"] == namespace]
        if state := query.get("state", ""):
            waits = state == "Pending"  # also of one that runs elsewhere
            rows = [row for row in rows if row["state"] == state or (waits and row["pending"])]
        if text := query.get("q", ""):
            rows = [row for row in rows if text in f"{row['namespace']}/{row['name']}"]
        if cluster := query.get("cluster", ""):
            rows = [row for row in rows if cluster in row["placements"]]
        return _page(fleetview.sorted_by(rows, query.get("sort", "")), query, "workloads")

    def matrix(self, query: Query) -> Data:
        """Return Workloads as `workloads` does, with the clusters that most of their replicas have.

        `elsewhere` of a row are its replicas on the other clusters.
        """
        found = self.workloads({"limit": str(MATRIX_ROWS), **query})
        totals: dict[str, int] = {}
        for row in found["workloads"]:
            for cluster, number in row["placements"].items():
                totals[cluster] = totals.get(cluster, 0) + number
        ranked = sorted(totals, key=lambda name: (-totals[name], name))
        columns = sorted(ranked[:MATRIX_COLUMNS])
        rows = [
            {**row, "elsewhere": sum(n for c, n in row["placements"].items() if c not in columns)}
            for row in found["workloads"]
        ]
        return {
            **found,
            "workloads": rows,
            "columns": columns,
            "others": len(ranked) - len(columns),
        }

    def choices(self) -> Data:
        """Return what the form of a what-if lists; no list where it would be too long."""
        clusters = self.fleet.clusters()
        every_label = (pair for row in clusters for pair in row["labels"].items())
        pairs = {(key, value) for key, value in every_label if value and key != LABEL_CLUSTER}
        workloads = [f"{row['namespace']}/{row['name']}" for row in self.fleet.workloads()]
        every = {
            "clusters": [row["name"] for row in clusters],
            "labels": sorted(f"{key}={value}" for key, value in pairs),
            "keys": sorted({key for key, _ in pairs}),
            "workloads": workloads,
        }
        return {name: each if len(each) <= MOST_CHOICES else [] for name, each in every.items()}

    def states(self) -> list[str]:
        """Return the states that Workloads are in."""
        return sorted({row["state"] for row in self.fleet.workloads()})

    def recorded(self, namespace: str, name: str) -> Data:
        """Return what `stowage explain` reads of a Workload. Raises ConfigurationError."""
        about = Reference(WORKLOADS, name)
        found, beside = explain.read(self._snapshot, namespace, about)
        return explain.recorded(about, found, beside)

    def stored(self, res: Resource, namespace: str, name: str) -> dict[str, Any]:
        """Return an object as it is on the hub. Raises NotFound, BadRequest."""
        found: dict[str, Any] = self._snapshot.read(res, name, namespace, _JSON)
        return found

    def rollout(self, stored: Mapping[str, Any], now: datetime) -> Data | None:
        """Return what `stowage rollout status` tells of a Workload; None without spec.rollout."""
        from stowage.report import rollout  # noqa: PLC0415 - loads the models of the kinds

        if not _spec(stored).get("rollout"):
            return None
        at = rollout.RolloutProgress.of(stored, now)
        return {**at.to_dict(), "headline": at.headline, "next": at.advice}

    def objects(self, stored: Mapping[str, Any], rendered: str) -> Data:
        """Return the spec, the objects that are made of it, what differs, and those on one cluster.

        Values of Secrets are not among it. Raises ValueError for objects that do not fit there,
        NotFound for no such cluster, Forbidden for one whose labels may not be read.
        """
        from stowage.simulation import differences  # noqa: PLC0415 - loads the propagator's parts

        spec = {key: _without_secrets(value) for key, value in _spec(stored).items()}
        found = {"spec": spec, "made": differences.kinds(stored), "differs": "", "rendered": ""}
        if self._snapshot.hides_clusters:  # overrides go by labels
            if rendered:
                raise Forbidden(code=403, reason="Forbidden", message="may not list memberclusters")
            return found
        placed = [share["cluster"] for share in _status(stored).get("placements") or ()]
        clusters = [self._cluster(name) for name in placed[:MOST_RENDERED]]
        try:
            told = differences.text(stored, [each for each in clusters if each]) if placed else ""
        except ValueError as e:  # a Workload that the propagator could not read either
            told = f"It cannot be rendered:\n{e}"
        objects = ""
        if rendered:
            cluster = self._snapshot.read(MEMBER_CLUSTERS, rendered, None, MemberCluster)
            objects = differences.rendered(stored, cluster)
        return {**found, "differs": told if "\n" in told else "", "rendered": objects}

    def _cluster(self, name: str) -> MemberCluster | None:
        try:
            found: MemberCluster = self._snapshot.read(MEMBER_CLUSTERS, name, None, MemberCluster)
        except NotFound:
            return None
        return found

    def history(self, namespace: str, name: str) -> Data:
        """Return what `stowage history -o json` prints. Raises ConfigurationError."""
        about = Reference(WORKLOADS, name)
        found = history.stored(self._snapshot, namespace, about)
        told = history.told(of_status(found.get("status") or {}).history)
        return {"namespace": namespace, "name": name, "kind": about.resource.kind, "history": told}

    def groups(self, query: Query) -> Data:
        rows = [_group(body) for body in self._bodies(WORKLOAD_GROUPS, query)]
        return _page(rows, query, "groups")

    def group(self, namespace: str, name: str) -> Data:
        """Return a group with its Workloads. Raises NotFound."""
        body = self.stored(WORKLOAD_GROUPS, namespace, name)
        told = groups.recorded(groups.gang(self._snapshot, namespace, body))
        return {**_named(body), **told, "topology": _spec(body).get("topology")}

    def spreads(self, query: Query) -> Data:
        rows = [_spread(body) for body in self._bodies(WORKLOAD_SPREADS, query)]
        return _page(rows, query, "spreads")

    def spread(self, namespace: str, name: str) -> Data:
        """Return a spread with its subsets. Raises NotFound."""
        return _spread(self.stored(WORKLOAD_SPREADS, namespace, name))

    def reservations(self, query: Query) -> Data:
        rows = [_reservation(body) for body in self._bodies(RESERVATIONS, query)]
        return _page(rows, query, "reservations")

    def reservation(self, namespace: str, name: str) -> Data:
        """Return a reservation with its owners. Raises NotFound."""
        return _reservation(self.stored(RESERVATIONS, namespace, name))

    def policies(self, query: Query) -> Data:
        """Return policies, and below `quotas` the WorkloadQuotas."""
        rows = [_policy(body) for body in self._bodies(WORKLOAD_POLICIES, query)]
        quotas = [_quota(body) for body in self._bodies(WORKLOAD_QUOTAS, query)]
        return {**_page(rows, query, "policies"), "quotas": quotas[:MOST_LIMIT]}

    def policy(self, namespace: str, name: str) -> Data:
        """Return a policy with its domains. Raises NotFound."""
        return _policy(self.stored(WORKLOAD_POLICIES, namespace, name))

    def _bodies(self, res: Resource, query: Query) -> list[Mapping[str, Any]]:
        try:
            return [*self._snapshot.each(res, _JSON, query.get("ns") or None)]
        except Forbidden:
            return []


# --- parts ----------------------------------------------------------------------------------------


def _list(title: str, findings: Iterable[Finding]) -> Data:
    """Return findings, those that say the same in one row."""
    ranked = status.in_order(findings)
    alike: dict[tuple[Any, ...], list[Finding]] = {}
    for each in ranked:
        alike.setdefault((each.urgent, each.state, each.message, each.help), []).append(each)
    rows = [_alike(some) for some in alike.values()]
    shown = rows[:SHOWN]
    return {
        "title": title,
        "of": OF.get(title, ""),
        "total": len(ranked),
        "urgent": sum(each.urgent for each in ranked),
        "findings": shown,
        "more": sum(len(row["names"]) + row["more"] for row in rows[SHOWN:]),
    }


def _alike(some: Sequence[Finding]) -> Row:
    """Return the row of findings that say the same; of units it has the sums."""
    first = some[0]
    numbers = [re.fullmatch(r"(\d+) of (\d+)", each.units) for each in some]
    sums = [sum(int(found[at]) for found in numbers if found) for at in (1, 2)]
    units = f"{sums[0]} of {sums[1]}" if all(numbers) else ""
    return {
        "names": [each.name for each in some[:NAMED]],
        "more": max(len(some) - NAMED, 0),
        "state": first.state,
        "since": min((each.since for each in some if each.since), default=""),
        "units": units or (first.units if len(some) == 1 else ""),
        "message": first.message,
        "help": advice.named(first.help, first.name) if len(some) == 1 else first.help,
        "urgent": first.urgent,
        "tone": _finding_tone(first),
    }


def _finding_tone(finding: Finding) -> str:
    """Return how a finding is shown: only what is not as it should be is `bad`."""
    if not finding.urgent:
        return "calm"
    return "wait" if finding.state in ASKED else "bad"


def _worst_first(row: Row) -> int:
    """Rank a row by its state; rows of one rank keep their order, which is that of their names."""
    return _TONES[row["tone"]]


_TONES = {"bad": 0, "wait": 1, "calm": 2, "good": 3}


def _tile(row: Row) -> Row:
    return {key: row[key] for key in ("name", "state", "tone", "units", "zone")}


def _page(rows: Sequence[Row], query: Query, name: str) -> Data:
    """Return the rows behind `after`, at most `limit`, and where the next page begins.

    Raises BadRequest for a limit that is none, and for an `after` of somebody else's making.
    """
    limit, start = _limit(query.get("limit", "")), _start(query.get("after", ""))
    shown = [*rows[start : start + limit]]
    onward = start + limit
    return {
        name: shown,
        "total": len(rows),
        "first": start + 1 if shown else 0,
        "next": _opaque(onward) if onward < len(rows) else None,
        "previous": _opaque(max(start - limit, 0)) if start else None,
    }


def _limit(text: str) -> int:
    if not text:
        return LIMIT
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST_LIMIT):
        raise BadRequest(code=400, reason="BadRequest", message=f"limit: 1 to {MOST_LIMIT}")
    return int(text)


def _opaque(number: int) -> str:
    return base64.urlsafe_b64encode(str(number).encode()).decode().rstrip("=")


def _start(text: str) -> int:
    if not text:
        return 0
    try:
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        return min(int(found[:9]), 10**9) if found.isdigit() else _no_after()
    except ValueError:
        return _no_after()


def _no_after() -> int:
    raise BadRequest(code=400, reason="BadRequest", message="after: of an answer's `next`")


def _named(body: Mapping[str, Any]) -> Row:
    return {"namespace": body["metadata"].get("namespace", ""), "name": body["metadata"]["name"]}


def _without_secrets(value: Any) -> Any:
    """Return a field of a spec; of the Secrets in it, without their values."""
    from stowage.simulation import differences  # noqa: PLC0415 - loads the propagator's parts

    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return differences.hidden(value, value) if isinstance(value, Mapping) else value


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return groups.mapping(body.get("spec"))


def _status(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return groups.mapping(body.get("status"))


def _ready(body: Mapping[str, Any]) -> Row:
    said = conditions.find(_status(body), conditions.READY)
    return {
        "ready": said.get("status", "Unknown"),
        "reason": said.get("reason", ""),
        "message": said.get("message", ""),
    }


def _group(body: Mapping[str, Any]) -> Row:
    said = _status(body)
    keys = ("desired", "scheduled", "waiting", "running")
    scheduled = groups.scheduled_of(said)
    return {
        **_named(body),
        "phase": said.get("phase") or "Undecided",
        "min": _spec(body).get("minMember"),
        **{key: said.get(key) or 0 for key in keys},
        "gate": said.get("gate") or "Shut",
        "reason": scheduled.get("reason") or "",
        "message": scheduled.get("message") or "",
    }


def _spread(body: Mapping[str, Any]) -> Row:
    spec = _spec(body)
    told = {each.get("name"): each for each in _status(body).get("subsetStatuses") or ()}
    return {
        **_named(body),
        "target": groups.mapping(spec.get("targetRef")).get("name", ""),
        "strategy": groups.mapping(spec.get("scheduleStrategy")).get("type", "Fixed"),
        **_ready(body),
        "subsets": [_subset(each, told.get(each.get("name"), {})) for each in spec["subsets"]],
    }


def _subset(subset: Mapping[str, Any], told: Mapping[str, Any]) -> Row:
    every = told.get("conditions") or ()
    closed: Row = next((each for each in every if each.get("status") == "False"), {})
    return {
        "name": subset.get("name", ""),
        "cap": subset.get("maxReplicas"),
        "units": told.get("replicas"),
        "missing": told.get("missingReplicas"),
        "closed": closed.get("message") or closed.get("reason") or "",
    }


def _reservation(body: Mapping[str, Any]) -> Row:
    return {**_named(body), **rooms.recorded(body)}


def _policy(body: Mapping[str, Any]) -> Row:
    spec, said = _spec(body), _status(body)
    taken = {each.get("name"): each for each in said.get("allocated") or ()}
    return {
        **_named(body),
        "topologyKey": spec.get("topologyKey", ""),
        "type": spec.get("allocationType", "Preferred"),
        "method": spec.get("allocationMethod") or spec.get("scheduleStrategy") or "Balance",
        "workloads": said.get("workloads") or 0,
        **_ready(body),
        "domains": [
            {
                "name": each.get("name", ""),
                "desired": each.get("replicas", 0),
                "taken": taken.get(each.get("name"), {}).get("replicas"),
            }
            for each in spec.get("allocationPolicy") or ()
        ],
    }


def _quota(body: Mapping[str, Any]) -> Row:
    used = _status(body).get("used") or {}
    return {
        **_named(body),
        **_ready(body),
        "rows": [
            {
                "name": name,
                "hard": str(hard),
                "used": str(used.get(name, "0")) if used else "\N{EN DASH}",
                "percent": _part(name, hard, used),
            }
            for name, hard in sorted((_spec(body).get("hard") or {}).items())
        ],
    }


def _part(name: str, hard: Any, used: Mapping[str, Any]) -> int:
    resource = name.removeprefix("requests.")
    most = quantities.bounded(resource, hard)
    now = quantities.bounded(resource, used.get(name, "0"))
    return now * 100 // most if most else 100 * bool(now)
