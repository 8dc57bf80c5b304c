"""Clusters, Workloads and the plugin, for its tests."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.cache.placements import PlacementIndex
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, workload_info
from controller.snapshot.builder import SnapshotBuilder
from controller.snapshot.snapshot import Snapshot
from stowage_carbon.arguments import CarbonArgs
from stowage_carbon.intensities import GRAMS_LABEL
from stowage_carbon.plugin import LIMIT_LABEL, Carbon

REGION = "topology.kubernetes.io/region"
ROOM = {"count": 1, "free": {"cpu": "8", "memory": "32Gi", "pods": "110"}}


def cluster(name: str, region: str = "", **labels: str) -> MemberCluster:
    """A ready cluster with room, in a region."""
    given = {**({REGION: region} if region else {}), **labels}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeGroups": [ROOM]}
    document = {"metadata": {"name": name, "labels": given}, "status": status}
    return msgspec.convert(document, MemberCluster)


def labelled(name: str, grams: str, region: str = "") -> MemberCluster:
    """One with a newer number on it."""
    return cluster(name, region, **{GRAMS_LABEL: grams})


def info(limit: str | None = None, **spec: Any) -> WorkloadInfo:
    """Two units of half a cpu each."""
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": pod}}}
    labels = {} if limit is None else {LIMIT_LABEL: limit}
    document = {
        "metadata": {"name": "report", "namespace": "demo", "labels": labels},
        "spec": {"schedulerName": "stowage", "replicas": 2, "template": template, **spec},
    }
    return workload_info(msgspec.convert(document, Workload))


def snapshot(*clusters: MemberCluster) -> Snapshot:
    """A snapshot of these."""
    builder = SnapshotBuilder()
    for each in clusters:
        builder.upsert(each)
    return builder.snapshot()


class Process:
    """Clusters, as all plugins of a process see them; no Workload is woken."""

    def __init__(self, *clusters: MemberCluster) -> None:
        self.index = PlacementIndex()
        self._snapshot = snapshot(*clusters)

    def snapshot(self) -> Snapshot:
        """The clusters."""
        return self._snapshot

    def activate_in_steps(self, keys: object) -> None:
        """A rehearsal remembers that itself."""
        raise AssertionError(keys)

    def announce(self, *event: object) -> None:
        """A rehearsal remembers that itself."""
        raise AssertionError(event)


def handle(*clusters: MemberCluster) -> DryRunHandle:
    """A handle without a hub, with these clusters."""
    made = DryRunHandle()
    made.begin(Process(*clusters), made.configuration)
    return made


def plugin(*clusters: MemberCluster, **args: Any) -> Carbon:
    """The plugin with a table of its own, unless told otherwise."""
    given = {"regions": {"fr": 60, "de": 380, "pl": 680}, **args}
    return Carbon(CarbonArgs.model_validate(given), handle(*clusters))
