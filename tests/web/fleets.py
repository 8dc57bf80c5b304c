"""Fleets in files, with statuses as the two processes would have written them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from machinery.clock import timestamp

AGO = timestamp(datetime.now(UTC) - timedelta(hours=3))
REASONS = (
    ("InsufficientCapacity", "0 of 9 clusters fit: 7 insufficient cpu, 2 not ready"),
    ("FailedToSchedule", "0 of 9 clusters fit: 9 do not match its clusterSelector"),
)


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AGO,
    }


def cluster(name: str, *, zone: str = "zone-1", lost: str = "", used: int = 6) -> dict[str, Any]:
    ready = condition(
        "Ready", "False" if lost else "True", "Unreachable" if lost else "Connected", lost
    )
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": zone, "stowage.dev/cluster-name": name},
        },
        "status": {
            "conditions": [ready],
            "version": "v1.36.3",
            "provider": "kwok",
            "nodeGroups": [{"count": 4, "free": {"cpu": "500m", "memory": "2Gi", "pods": "40"}}],
            "capacity": {
                "nodes": 4,
                "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "440"},
                "requested": {"cpu": str(used), "memory": f"{used * 3}Gi", "pods": str(used * 4)},
            },
        },
    }


def workload(
    name: str,
    shares: dict[str, int],
    *,
    namespace: str = "shop",
    desired: int = 4,
    why: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    assigned = sum(shares.values())
    scheduled = (
        condition("Scheduled", "False", *why)
        if why[0]
        else condition("Scheduled", "True", "Scheduled")
    )
    pod = {
        "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "4"}}}]
    }
    labels = {"app": name}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": AGO},
        "spec": {
            "schedulerName": "stowage",
            "distribution": "Divided",
            "targetDeployment": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "replicas": desired,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            },
        },
        "status": {
            "state": "Running" if assigned else "Pending",
            "desired": desired,
            "assigned": assigned,
            "pending": desired - assigned,
            "ready": assigned,
            "placements": [{"cluster": c, "replicas": n} for c, n in shares.items()],
            "reasons": [
                {
                    "cluster": c,
                    "steps": [
                        {
                            "units": n,
                            "time": AGO,
                            "cause": "Placed",
                            "because": [
                                {"rule": "Weight", "numbers": {"number": n, "of": desired}}
                            ],
                        }
                    ],
                }
                for c, n in shares.items()
            ],
            "history": [
                {
                    "time": AGO,
                    "cause": "Placed",
                    "desired": desired,
                    "assigned": assigned,
                    "moves": [{"cluster": c, "to": n} for c, n in shares.items()],
                }
            ]
            if shares
            else [],
            "clusters": [
                {"name": c, "replicas": n, "ready": n, "state": "Running"}
                for c, n in shares.items()
            ],
            "conditions": [scheduled],
        },
    }


def troubled(folder: Path) -> str:
    """Nine clusters, two of them lost; 40 Workloads that run and 12 that wait."""
    items = [
        cluster(
            f"member-{n}",
            zone=f"zone-{n % 3 + 1}",
            used=10 + 2 * n,
            lost="no route to host" if n in (4, 7) else "",
        )
        for n in range(1, 10)
    ]
    good = [n for n in range(1, 10) if n not in (4, 7)]
    items += [
        workload(f"web-{n}", {f"member-{good[n % 7]}": 3, f"member-{good[(n + 1) % 7]}": 1})
        for n in range(40)
    ]
    items += [
        workload(f"batch-{n}", {}, namespace="train", why=REASONS[n % 4 == 0]) for n in range(12)
    ]
    file = folder / "troubled.yaml"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return str(file)
