"""The metadata that the hub's Workload must have before any object of it is written. Pure.

The finalizer, so that no object is left when the Workload is deleted; the members that are sent
something, so that each is asked at the end; and the kinds, so that another process finds all
objects (`noted_kinds`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crds.names import ANNOTATION_CLUSTERS, FINALIZER
from machinery.types.written_clusters import MemberRecord
from propagator.members.noted_kinds import missing_kinds
from propagator.types.workload import Workload


def is_ours(workload: Workload) -> bool:
    """Whether members may hold objects of the Workload, by its finalizer."""
    return FINALIZER in workload.metadata.finalizers


def missing(
    workload: Workload,
    kinds: set[tuple[str, str]],
    *,
    there: Callable[[str], bool],
) -> dict[str, Any]:
    """Return the missing fields of the metadata, as a merge patch; empty when it has them all.

    `kinds` are those that are about to be written; `there` says whether a cluster exists, as
    nothing is sent to one that does not.
    """
    metadata: dict[str, Any] = {}
    if not is_ours(workload):
        metadata["finalizers"] = [*workload.metadata.finalizers, FINALIZER]
    members = _missing_members(workload, there)
    noted = missing_kinds(workload, kinds, alone=not members)
    annotations = members | noted
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def without_member(workload: Workload, name: str) -> dict[str, Any]:
    """Return the patch of the metadata after a member confirmed that it has nothing; or nothing."""
    record = _annotated(workload)
    after = record.without(name)
    if after == record or name in workload.placements:
        return {}
    return {"annotations": {ANNOTATION_CLUSTERS: after.text() or None}}


def footprint_without(workload: Workload, name: str) -> dict[str, Any]:
    """Return the same patch of the status."""
    record = _placed(workload)
    after = record.without(name)
    if after == record or name in workload.placements:
        return {}
    return {"footprint": {"clusters": after.text() or None}}


def record_of(workload: Workload) -> MemberRecord:
    """Return the members that may have been sent objects, and have not confirmed their end."""
    return _annotated(workload) | _placed(workload)


def _annotated(workload: Workload) -> MemberRecord:
    """Return the members that this propagator noted, as the placement did not."""
    return MemberRecord.read(workload.metadata.annotations.get(ANNOTATION_CLUSTERS, ""))


def _placed(workload: Workload) -> MemberRecord:
    """Return the members that were noted with the placements."""
    return MemberRecord.read(workload.status.footprint.clusters)


def _missing_members(workload: Workload, there: Callable[[str], bool]) -> dict[str, str]:
    record, noted = record_of(workload), _annotated(workload)
    lacking = [name for name in workload.placements if name not in record and there(name)]
    return {ANNOTATION_CLUSTERS: noted.adding(lacking).text()} if lacking else {}
