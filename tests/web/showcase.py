"""The fleet of the pictures: eight clusters in three regions, one lost, and a shop that runs on them.

All moments are fixed, so that the pages say the same whenever they are shown.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from controller.model.objects import Workload
from controller.model.unit import workload_info
from machinery.clock import timestamp
from machinery.kinds.revisions import digest_of, revision_data
from tests.web import fleets

FILE = "fleet.json"
NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
CLUSTERS = {
    "eu-paris": ("eu", 21),
    "eu-berlin": ("eu", 17),
    "eu-madrid": ("eu", 9),
    "us-ohio": ("us", 26),
    "us-oregon": ("us", 14),
    "us-texas": ("us", 5),
    "ap-tokyo": ("ap", 19),
    "ap-mumbai": ("ap", 11),
}
SHARES = {
    "web": {"eu-paris": 4, "us-ohio": 4, "ap-tokyo": 2},
    "cart": {"eu-berlin": 3, "us-oregon": 3},
    "search": {"eu-paris": 2, "us-ohio": 2, "ap-mumbai": 2},
    "checkout": {"eu-berlin": 2, "us-ohio": 2},
    "images": {"eu-madrid": 2, "ap-tokyo": 2},
    "mail": {"us-texas": 2},
}


def ago(minutes: int) -> str:
    return timestamp(NOW - timedelta(minutes=minutes))


def _cluster(name: str, region: str, used: int) -> dict[str, Any]:
    lost = "cluster us-texas cannot be reached: no route to host" if name == "us-texas" else ""
    made = fleets.cluster(name, zone=f"{region}-1", lost=lost, used=used)
    made["metadata"]["labels"]["topology.kubernetes.io/region"] = region
    free = {"cpu": f"{(32 - used) * 250}m", "memory": f"{32 - used}Gi", "pods": "90"}
    made["status"]["nodeGroups"] = [{"count": 4, "free": free}]
    if name == "eu-madrid":
        made["spec"] = {"unschedulable": True}
    return made


def _weight(number: int, of: int) -> list[dict[str, Any]]:
    return [{"rule": "Weight", "numbers": {"number": number, "of": of}}]


def _steps(first: int, number: int, before: int, of: int) -> list[dict[str, Any]]:
    """A share that grew once: the rule of each unit is on its page."""
    placed = {"units": first, "time": ago(2880), "cause": "Placed"}
    scaled = {"units": number - first, "time": ago(95), "cause": "Scaled"}
    return [
        {**placed, "because": _weight(first, before)},
        {**scaled, "because": _weight(number, of)},
    ]


def _workload(name: str, shares: dict[str, int]) -> dict[str, Any]:
    total = sum(shares.values())
    made = fleets.workload(name, shares, desired=total)
    made["spec"]["targetDeployment"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "500m", "memory": "512Mi"}
    }
    status = made["status"]
    first = {c: n - 1 for c, n in shares.items()}
    before = sum(first.values())
    status["reasons"] = [
        {"cluster": c, "steps": _steps(first[c], n, before, total)} for c, n in shares.items()
    ]
    status["history"] = [
        {
            "time": ago(2880),
            "cause": "Placed",
            "desired": before,
            "assigned": before,
            "moves": [_move(c, n, before) for c, n in first.items()],
        },
        {
            "time": ago(95),
            "cause": "Scaled",
            "desired": total,
            "assigned": total,
            "moves": [{"from": first[c], **_move(c, n, total)} for c, n in shares.items()],
        },
    ]
    status["clusters"] = [
        {"name": c, "replicas": n, "scheduled": n, "ready": n, "state": "Running"}
        for c, n in shares.items()
    ]
    hashed = workload_info(msgspec.convert(made, Workload)).hash
    status["decision"] = {"hash": hashed, "time": ago(95)}
    return made


def _rolled_out(made: dict[str, Any]) -> dict[str, Any]:
    """The same while its new image goes from wave to wave."""
    region = {"matchLabels": {"topology.kubernetes.io/region": "eu"}}
    waves = [
        {"name": "europe", "clusterSelector": region, "soakSeconds": 600, "approval": True},
        {"name": "others", "clusterSelector": {}, "maxConcurrent": 1},
    ]
    spec = made["spec"]
    spec["rollout"] = {"waves": waves}
    revision = digest_of(revision_data(spec))
    spec["rollout"]["approvals"] = [{"revision": revision, "wave": "europe"}]
    made["status"]["rollout"] = {
        "revision": revision,
        "stable": "91ab" + "0" * 12,
        "phase": "Progressing",
        "wave": "others",
        "message": "us-ohio: 2 of 4 replicas of the new revision are Ready",
        "waves": [
            {"name": "europe", "clusters": 1, "healthy": 1},
            {"name": "others", "clusters": 2, "healthy": 0, "updating": ["us-ohio"]},
        ],
    }
    hashed = workload_info(msgspec.convert(made, Workload)).hash
    made["status"]["decision"]["hash"] = hashed
    return made


def _waiting() -> list[dict[str, Any]]:
    """Two that wait: one for room, one for a cluster that its rules match."""
    why = ("InsufficientCapacity", "0/8 clusters: 7 insufficient cpu, 1 not ready")
    large = fleets.workload("render", {}, namespace="lab", desired=6, why=why)
    container = large["spec"]["targetDeployment"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "6"}}
    why = ("FailedToSchedule", "0/8 clusters: 8 didn't match clusterSelector")
    choosy = fleets.workload("kiosk", {}, desired=2, why=why)
    choosy["spec"]["clusterSelector"] = {"site": "store"}
    return [large, choosy]


def _move(cluster: str, number: int, of: int) -> dict[str, Any]:
    return {"cluster": cluster, "to": number, "because": _weight(number, of)}


def _beside() -> list[dict[str, Any]]:
    container = {"name": "main", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    subset = {"matchExpressions": [{"key": "topology.kubernetes.io/region", "operator": "In"}]}
    subset["matchExpressions"][0]["values"] = ["eu"]
    return [
        {
            "kind": "WorkloadGroup",
            "metadata": {"name": "training", "namespace": "lab"},
            "spec": {"minMember": 8},
            "status": {
                "phase": "Scheduling",
                "workloads": 2,
                "desired": 9,
                "scheduled": 0,
                "waiting": 0,
                "conditions": [
                    {
                        **fleets.condition("Scheduled", "False", "GroupDenied"),
                        "message": "resource gap: cpu 6 more (6 of 8 replicas have room)",
                    }
                ],
            },
        },
        {
            "kind": "WorkloadGroup",
            "metadata": {"name": "nightly", "namespace": "lab"},
            "spec": {"minMember": 4},
            "status": {
                "phase": "Running",
                "workloads": 2,
                "desired": 5,
                "scheduled": 5,
                "waiting": 0,
                "running": 4,
                "succeeded": 1,
                "gate": "Open",
                "conditions": [fleets.condition("Scheduled", "True", "Scheduled")],
            },
        },
        {
            "kind": "WorkloadSpread",
            "metadata": {"name": "search", "namespace": "shop"},
            "spec": {
                "targetRef": {
                    "apiVersion": "stowage.dev/v1alpha1",
                    "kind": "Workload",
                    "name": "search",
                },
                "subsets": [
                    {"name": "own", "maxReplicas": 4, "requiredNodeSelectorTerm": subset},
                    {"name": "elastic"},
                ],
            },
            "status": {
                "summary": "own=2/4,elastic=4",
                "subsetStatuses": [
                    {"name": "own", "replicas": 2, "missingReplicas": 2, "deletionCost": 200},
                    {"name": "elastic", "replicas": 4, "missingReplicas": -1, "deletionCost": 100},
                ],
                "conditions": [fleets.condition("Ready", "True", "Valid")],
            },
        },
        {
            "kind": "Reservation",
            "metadata": {"name": "launch", "namespace": "shop", "creationTimestamp": ago(300)},
            "spec": {
                "template": {"spec": {"containers": [container]}},
                "replicas": 6,
                "allocateOnce": False,
                "ttl": "0",  # a what-if has a process of its own, and hence the machine's clock
                "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
            },
            "status": {
                "phase": "Available",
                "clusterName": "eu-paris,us-oregon",
                "desired": 6,
                "assigned": 6,
                "pending": 0,
                "allocatable": {"cpu": "12", "memory": "24Gi"},
                "allocated": {"cpu": "4", "memory": "8Gi"},
                "owners": 1,
                "placements": [
                    {"cluster": "eu-paris", "replicas": 3},
                    {"cluster": "us-oregon", "replicas": 3},
                ],
                "conditions": [
                    fleets.condition("Scheduled", "True", "Scheduled"),
                    fleets.condition("Ready", "True", "Available"),
                ],
            },
        },
        {
            "kind": "WorkloadPolicy",
            "metadata": {"name": "regions", "namespace": "shop"},
            "spec": {
                "topologyKey": "topology.kubernetes.io/region",
                "labelSelector": {"matchLabels": {"app": "cart"}},
                "allocationPolicy": [{"name": "eu", "replicas": 3}, {"name": "us", "replicas": 3}],
            },
            "status": {
                "workloads": 1,
                "allocated": [
                    {"name": "eu", "replicas": 3, "desired": 3},
                    {"name": "us", "replicas": 3, "desired": 3},
                ],
                "conditions": [fleets.condition("Ready", "True", "Valid")],
            },
        },
        {
            "kind": "WorkloadQuota",
            "metadata": {"name": "team", "namespace": "shop"},
            "spec": {"hard": {"units": "60", "requests.cpu": "40"}},
            "status": {"used": {"units": "38", "requests.cpu": "28"}},
        },
    ]


def written(folder: Path) -> None:
    """Write the fleet to FILE in that folder."""
    with mock.patch.object(fleets, "AGO", ago(185)):
        items = [_cluster(name, *of) for name, of in CLUSTERS.items()]
        placed = {name: _workload(name, shares) for name, shares in SHARES.items()}
        items += [*({**placed, "web": _rolled_out(placed["web"])}).values()]
        items += _waiting()
        items += [{"apiVersion": "stowage.dev/v1alpha1", **each} for each in _beside()]
    listed = {"kind": "List", "apiVersion": "v1", "items": items}
    (folder / FILE).write_text(json.dumps(listed))
