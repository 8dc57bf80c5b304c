"""A Workload as the propagator keeps it: out of the hub's answer, and with shared texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from crds.names import (
    ANNOTATION_CLUSTERS,
    ANNOTATION_DELETION,
    ANNOTATION_KINDS,
    ANNOTATION_ORDINALS,
    ANNOTATION_RESTORED,
)
from machinery.types.api import Placement
from machinery.types.metadata import OwnerReference, shared
from machinery.types.workload_api import Footprint, LeavingShare, OrdinalRange
from propagator.types.workload import ResourceRef, Workload

S = TypeVar("S", bound=msgspec.Struct)
_READ = (
    ANNOTATION_CLUSTERS,
    ANNOTATION_DELETION,
    ANNOTATION_KINDS,
    ANNOTATION_ORDINALS,
    ANNOTATION_RESTORED,
)
_NOTHING = msgspec.Raw()
_NO_TEXTS: dict[str, str] = {}
_NO_OWNERS: list[OwnerReference] = []
_NO_RAW: list[msgspec.Raw] = []
_NO_REFS: list[ResourceRef] = []
_NO_LEAVING: list[LeavingShare] = []
_NO_ENTRIES: list[dict[str, Any]] = []
_NO_RANGES: list[OrdinalRange] = []


def kept(workload: Workload) -> Workload:
    """Copy the Workload out of the API response that its Raw fields point into."""
    meta, spec, status = workload.metadata, workload.spec, workload.status
    bare = structs.replace(
        meta,
        namespace=shared(meta.namespace),
        creation_timestamp=meta.creation_timestamp if meta.deleting else "",
        labels=meta.labels or _NO_TEXTS,
        annotations={key: meta.annotations[key] for key in _READ if key in meta.annotations}
        or _NO_TEXTS,
        finalizers=_same(tuple(meta.finalizers)),
        owner_references=meta.owner_references or _NO_OWNERS,
    )
    own = structs.replace(
        spec,
        scheduler_name=shared(spec.scheduler_name),
        distribution=shared(spec.distribution),
        adoption=shared(spec.adoption),
        drift=shared(spec.drift),
        on_delete=shared(spec.on_delete),
        delivery=shared(spec.delivery),
        dependencies=shared(spec.dependencies),
        target_deployment=_own(spec.target_deployment),
        target_service=_own(spec.target_service),
        template=_own(spec.template),
        manifests=[_own(raw) for raw in spec.manifests] or _NO_RAW,
        resources=spec.resources or _NO_REFS,
        overrides=_own(spec.overrides),
        rollout=_own(spec.rollout),
    )
    said = structs.replace(
        status,
        state=shared(status.state),
        placements=_placed(status.placements),
        leaving=[
            structs.replace(p, cluster=shared(p.cluster), cause=shared(p.cause))
            for p in status.leaving
        ]
        or _NO_LEAVING,
        overrides=_own(status.overrides),
        revisions=_own(status.revisions),
        clusters=[_sharing(each) for each in status.clusters],
        kept=status.kept or _NO_ENTRIES,
        drift=status.drift or _NO_ENTRIES,
        dependencies=[_sharing(each) for each in status.dependencies] or _NO_ENTRIES,
        ordinals=status.ordinals or _NO_RANGES,
        ready_summary=shared(status.ready_summary),
        cluster_summary=shared(status.cluster_summary),
        conditions=[_interned(each) for each in status.conditions],
        footprint=_footprint(status.footprint.clusters, status.footprint.kinds),
    )
    return Workload(
        metadata=bare,
        kind=shared(workload.kind),
        api_version=shared(workload.api_version),
        spec=own,
        status=said,
    )


@lru_cache(maxsize=1024)
def _same(texts: tuple[str, ...]) -> list[str]:
    """Nearly all Workloads have the same finalizers."""
    return [shared(each) for each in texts]


def _placed(placements: Sequence[Placement]) -> list[Placement]:
    if len(placements) == 1:
        (only,) = placements
        return _single(only.cluster, only.replicas, only.completions)
    return [Placement(shared(p.cluster), p.replicas, p.completions) for p in placements]


@lru_cache(maxsize=8192)
def _single(cluster: str, replicas: int, completions: int | None) -> list[Placement]:
    return [Placement(shared(cluster), replicas, completions)]


@lru_cache(maxsize=8192)
def _footprint(clusters: str, kinds: str) -> Footprint:
    return Footprint(shared(clusters), shared(kinds))


def _own(raw: msgspec.Raw) -> msgspec.Raw:
    return raw.copy() if memoryview(raw) else _NOTHING


def _sharing(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: shared(value) if isinstance(value, str) else value for key, value in entry.items()}


def _interned(struct: S) -> S:
    values = structs.astuple(struct)
    return type(struct)(*(shared(each) if type(each) is str else each for each in values))
