"""Events about MemberClusters and Workloads."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from crds.names import API_VERSION
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.runtime.event_recorder import EventRecorder, ObjectRef, one_cluster
from propagator.types.cluster import MemberCluster
from propagator.types.workload import Workload


def tell_of(
    recorder: EventRecorder,
    about: MemberCluster | Workload,
    reason: Enum,
    note: str,
    action: str = "Propagating",
    *,
    warns: bool = False,
    clusters: Collection[str] = (),
) -> None:
    """`clusters` are the members that an event about a Workload is related to."""
    meta, of_cluster = about.metadata, isinstance(about, MemberCluster)
    kind = (MEMBER_CLUSTERS if of_cluster else WORKLOADS).kind
    recorder.event(
        ObjectRef(API_VERSION, kind, meta.namespace, meta.name, meta.uid),
        type="Warning" if warns else "Normal",
        reason=str(reason.value),
        note=note,
        action=action,
        related=one_cluster(clusters),
    )
