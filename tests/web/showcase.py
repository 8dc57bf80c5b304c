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
import yaml

from controller.model.objects import Workload
from controller.model.unit import workload_info
from crds import LOADER
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
    text = Path(__file__).with_name("beside.yaml").read_text()
    text = text.replace(": AGO", f': "{fleets.AGO}"').replace(": MADE", f': "{ago(300)}"')
    return list(yaml.load(text, LOADER))


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
