"""What a caller sees of what was computed over the whole fleet: explanations, plans, simulations.

Such an answer is made anew of its fields: numbers, codes, and names of what the caller may see. Its
sentences are written for who may see all of the fleet, so they are left out, or made of the fields
beside them. Nothing depends on which hidden names there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from machinery.api.resources import RESERVATIONS, WORKLOAD_GROUPS, WORKLOADS
from stowage.console import words
from stowage.console.words import count
from stowage.report import fleet
from stowage.web.narrowing import NarrowedSnapshot, elsewhere

Json = Mapping[str, Any]
Rows = Sequence[Json]

_PLAIN = ("namespace", "name", "uid", "kind", "hash", "time", "desired", "assigned", "pending")
_CODES = ("state", "reason", "moveLater")
_OF_A_CLUSTER = ("name", "fits", "plugin", "score", "total", "scores", "replicas", "reasons")
_OF_A_GROUP = ("namespace", "name", "kind", "min", "desired", "assigned", "held", "outcome")
_ALONE = frozenset(
    {
        "AllowedKinds",
        "ClusterAffinity",
        "ClusterOverrides",
        "ClusterReady",
        "ClusterResources",
        "ClusterSelector",
        "Failover",
        "NamespaceGiven",
        "NodeRoom",
        "SpreadConstraints",
        "TaintToleration",
        "TargetNamespace",
    }
)
"""The plugins that refuse with words about the Workload and the refused cluster alone."""
_HELPS = {
    "Lift": "whatever makes {name} refuse {clusters}",
    "Room": "room for {replicas}",
    "Quota": "more of the quota or cap of {name}",
    "Bound": "another {name}",
    "Several": "nothing by itself: each cluster is refused for several reasons",
    "NoCluster": "a cluster that is registered",
}
_STOPS = {
    "Refused": "{clusters}: refused by {name}",
    "NoRoom": "{clusters}: no room for more",
    "NoCluster": "no cluster is registered",
    "Quota": "{clusters}: a quota or cap is used up",
}
_REMARKS = "What is said of other clusters and of Workloads of others is not shown."


def explained(told: Json, shown: NarrowedSnapshot, stored: Json) -> Json:
    """Return an explanation of a Workload as a caller may see it.

    `stored` is the Workload, with the shares that it has.
    """
    if shown.scope.whole:
        return told
    if "clusters" not in told:
        head = {key: told[key] for key in ("namespace", "name", "kind") if key in told}
        return {**head, "remarks": ["What would be decided now is not told."]}
    found = _record(told, shown)
    placed = (stored.get("status") or {}).get("placements") or []
    before = {each["cluster"]: each["replicas"] for each in placed}
    after = {each["cluster"]: each["replicas"] for each in found["placements"]}
    remarks = [_REMARKS]
    if before != after:
        remarks.insert(
            0,
            f"The status says {words.shares(before)}; "
            f"decided now it would be {words.shares(after)}.",
        )
    return {**found, "remarks": remarks}


def what_if(result: Json, shown: NarrowedSnapshot) -> dict[str, Any]:
    """Return the answer of a what-if as a caller may see it: what becomes of others is a sum."""
    if shown.scope.whole:
        return {**result}
    if "runs" in result:
        runs = [_run(each, shown) for each in result["runs"]]
        return {"key": result["key"], "runs": runs, "notes": []}
    if "unitsHit" in result:
        return {**_run(result, shown), "notes": []}
    rows = [each for each in result["workloads"] if _own(each, shown)]
    groups = [each for each in result["groups"] if _own_group(each, shown)]
    return {
        "workloads": [_planned(each, shown) for each in rows],
        "groups": [_group(each, shown) for each in groups],
        "others": _sum(_others(result["workloads"], shown)),
        "notes": [],
    }


def _record(told: Json, shown: NarrowedSnapshot) -> dict[str, Any]:
    reads = shown.scope.reads
    rooms = told.get("reservations", ())
    return {
        **{key: told[key] for key in (*_PLAIN, *_CODES) if key in told},
        "message": "",
        "placements": shares(told["placements"], shown),
        "clusters": [
            _cluster(each) for each in told["clusters"] if not shown.hides_cluster(each["name"])
        ],
        "reservations": [e for e in rooms if reads(RESERVATIONS, e["namespace"], e["name"])],
        "pendingReasons": [_note(each, _STOPS) for each in told["pendingReasons"]],
        "remedies": [_note(each, _HELPS) for each in told["remedies"]],
    }


def _planned(told: Json, shown: NarrowedSnapshot) -> dict[str, Any]:
    return {**_record(told, shown), "present": shares(told["present"], shown)}


def _cluster(row: Json) -> dict[str, Any]:
    found = {key: row[key] for key in _OF_A_CLUSTER}
    return {**found, "reason": row["reason"] if row["plugin"] in _ALONE else ""}


def _note(note: Json, sentences: Mapping[str, str]) -> dict[str, Any]:
    kind, number, name = note["kind"], note["number"], note["name"]
    if kind in ("Several", "Room"):
        name = ""  # a cluster, or a Reservation of any namespace
    told = sentences.get(kind, "a rule of its placement").format(
        name=name or "rule",
        clusters=count(number, "cluster"),
        replicas=count(number, "more replica"),
    )
    return {"kind": kind, "number": number, "name": name, "text": told}


def _group(told: Json, shown: NarrowedSnapshot) -> dict[str, Any]:
    found = {key: told[key] for key in (*_OF_A_GROUP, "reason") if key in told}
    members = [
        {
            **{key: each[key] for key in ("name", "desired", "assigned")},
            **{key: shares(each[key], shown) for key in ("placements", "found")},
            "message": "",
        }
        for each in told["workloads"]
    ]
    return {**found, "message": "", "helps": [], "workloads": members}


def shares(rows: Rows, shown: NarrowedSnapshot) -> list[Json]:
    """Return shares; those on clusters that the caller may not see are one."""
    away = [each for each in rows if shown.hides_cluster(each["cluster"])]
    seen = [each for each in rows if not shown.hides_cluster(each["cluster"])]
    return [*seen, *([elsewhere(away)] if away else [])]


def _own(row: Json, shown: NarrowedSnapshot) -> bool:
    return shown.scope.reads(WORKLOADS, row["namespace"], row["name"])


def _own_group(row: Json, shown: NarrowedSnapshot) -> bool:
    return shown.scope.reads(WORKLOAD_GROUPS, row["namespace"], row["name"])


def _others(rows: Iterable[Json], shown: NarrowedSnapshot) -> list[Json]:
    return [each for each in rows if not _own(each, shown)]


def _sum(rows: Rows) -> dict[str, int]:
    """Return the replicas of others that move or lose their place, or that were decided."""
    units = (r["moves"] + r["noPlace"] if "moves" in r else r["desired"] or 0 for r in rows)
    return {"workloads": len(rows), "units": sum(units)}


def _run(run: Json, shown: NarrowedSnapshot) -> dict[str, Any]:
    """Return a simulation with numbers of the caller's own Workloads, not the fleet's."""
    own = [each for each in run["workloads"] if _own(each, shown)]
    now = [each.status for each in shown.each(WORKLOADS, fleet.WorkloadSummary)]
    placed = sum(share.replicas for status in now for share in status.placements)
    waiting = sum(status.pending for status in now)
    stuck = sum(each["noPlace"] - each["pending"] for each in own)
    hides = shown.hides_clusters
    brake = {"state": run["brake"]["state"], "lost": 0, "registered": 0, "limit": 0, "message": ""}
    return {
        "title": run["title"],
        "unitsHit": sum(each["moves"] + each["noPlace"] for each in own),
        "workloadsHit": len(own),
        "before": {**run["before"], "placed": placed, "noPlace": waiting},
        "after": {
            "placed": placed - stuck,
            "noPlace": waiting + stuck,
            "awaitsFence": sum(each["awaitsFence"] for each in own),
            "holdsData": sum(each["holdsData"] for each in own),
            "onPaper": sum(each["onPaper"] for each in own),
        },
        "moves": sum(each["moves"] for each in own),
        "steps": max((each["order"] for each in own), default=0),
        "brake": brake if hides else run["brake"],
        "tightest": None if hides else run["tightest"],
        "clusters": [] if hides else run["clusters"],
        "workloads": [_outcome(each, shown) for each in own],
        "others": _sum(_others(run["workloads"], shown)),
    }


def _outcome(row: Json, shown: NarrowedSnapshot) -> dict[str, Any]:
    why = "" if shown.hides_clusters else row["why"]
    both = {key: shares(row[key], shown) for key in ("before", "after")}
    return {**row, **both, "lacks": "", "why": why}
