"""Clusters to measure on: 1,000 synthetic ones, and more made like them.

`data/fleet_1000.json` has one row a cluster: labels, a taint on every twentieth, nodes of one size
and the used amounts. Each row becomes a MemberCluster as the propagator publishes it: its nodes in
three groups, of which one is rather full and one rather empty.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, workload_info

DATA = Path(__file__).parent / "data" / "fleet_1000.json"
LABELS = ("env", "provider", "region", "tier", "zone")
TAINT = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}


def clusters(count: int) -> list[MemberCluster]:
    """Return `count` clusters; beyond the rows of the data these repeat under other names."""
    data = json.loads(DATA.read_text())
    rows = data["rows"]
    made = []
    for number in range(count):
        row = dict(zip(data["columns"], rows[number % len(rows)], strict=True))
        made.append(_cluster(f"member-{number:05}", row, data["node"]))
    return made


def _cluster(name: str, row: dict[str, Any], node: dict[str, int]) -> MemberCluster:
    labels = {key: row[key] for key in LABELS}
    nodes = row["nodes"]
    total = {"cpu": node["cpu_milli"], "memory": node["memory_mi"], "pods": node["pods"]}
    used = {"cpu": row["used_cpu_milli"], "memory": row["used_memory_mi"], "pods": row["used_pods"]}
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Connected"}],
        "version": "v1.36.3",
        "provider": row["provider"],
        "nodeGroups": _groups(nodes, total, used, row["zone"]),
        "capacity": {
            "nodes": nodes,
            "allocatable": _quantities({r: n * nodes for r, n in total.items()}),
            "requested": _quantities(used),
        },
    }
    spec = {"taints": [TAINT] if row["tainted"] else []}
    document = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
    return msgspec.convert(document, MemberCluster)


def _groups(
    nodes: int, total: dict[str, int], used: dict[str, int], zone: str
) -> list[dict[str, Any]]:
    labels = {"kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": zone}
    third = nodes // 3
    groups = []
    for count, percent in ((third, 60), (nodes - 2 * third, 100), (third, 140)):
        free = {r: (n - used[r] // nodes) * percent // 100 for r, n in total.items()}
        free = {r: min(n, total[r]) for r, n in free.items()}
        if count:
            groups.append({"count": count, "labels": labels, "free": _quantities(free)})
    return groups


def _quantities(amounts: dict[str, int]) -> dict[str, str]:
    texts = {"cpu": "{}m", "memory": "{}Mi", "pods": "{}"}
    return {resource: texts[resource].format(n) for resource, n in amounts.items()}


def info(name: str = "demo", **spec: Any) -> WorkloadInfo:
    """Return a Deployment of ten units of 500m and 1Gi; `spec` are fields of Workload.spec."""
    pod = {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 10, "template": template},
    }
    document = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        "spec": {"schedulerName": "stowage", "targetDeployment": deployment, **spec},
    }
    return workload_info(msgspec.convert(document, Workload))
