"""Workloads that a test itself places, on a hub without a controller."""

from __future__ import annotations

import json
from typing import Any

from e2e.harness import workload
from stowage.playground.cluster import Cluster


def served(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A Workload of a Deployment with its Service, which no controller of the hub places."""
    ports = {"selector": {"app": name}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": ports}
    return workload(name, namespace, schedulerName="by-hand", targetService=service, **spec)


def place(
    hub: Cluster, name: str, namespace: str, cluster: str, *, replicas: int = 1, **more: Any
) -> None:
    """Write its placements, and further fields of its status."""
    status = {"placements": [{"cluster": cluster, "replicas": replicas}], **more}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    hub.kubectl("-n", namespace, "patch", "wl", name, *patch)
