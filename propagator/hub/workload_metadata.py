"""What is written of a Workload: its notes before any object is written, and its entries. Pure.

The finalizer keeps a deleted Workload until its objects are gone, which each noted member must
confirm. The noted kinds let another process find all objects (`noted_kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

from crds.names import ANNOTATION_CLUSTERS, FINALIZER
from machinery.types.written_clusters import MemberRecord
from propagator.members.noted_kinds import missing_kinds
from propagator.types.workload import Workload

Patch: TypeAlias = dict[str, Any]


def is_ours(workload: Workload) -> bool:
    """Whether members may hold objects of the Workload, by its finalizer."""
    return FINALIZER in workload.metadata.finalizers


def missing(
    workload: Workload,
    kinds: set[tuple[str, str]],
    *,
    there: Callable[[str], bool],
) -> dict[str, Any]:
    """Return a merge patch, empty if complete, for writes of `kinds`.

    `there` returns whether a cluster exists.
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
    record = _annotated(workload)
    after = record.without(name)
    if after == record or name in workload.placements:
        return {}
    return {"annotations": {ANNOTATION_CLUSTERS: after.text() or None}}


def footprint_without(workload: Workload, name: str) -> dict[str, Any]:
    """As `without_member`, for the status."""
    record = _placed(workload)
    after = record.without(name)
    if after == record or name in workload.placements:
        return {}
    return {"footprint": {"clusters": after.text() or None}}


def with_members(workload: Workload, status: Patch, found: Collection[str]) -> Patch:
    """Return that status, with those that hold something and are not noted, as after a set-back."""
    if not (lacking := [name for name in found if name not in record_of(workload)]):
        return status
    noted = {"clusters": _placed(workload).adding(lacking).text()}
    return status | {"footprint": status.get("footprint", {}) | noted}


def with_only(workload: Workload, names: Collection[str]) -> tuple[Patch, Patch]:
    noted, placed = _annotated(workload), _placed(workload)
    after, left = noted.only(names), placed.only(names)
    metadata: Patch = (
        {} if after == noted else {"annotations": {ANNOTATION_CLUSTERS: after.text() or None}}
    )
    status: Patch = {} if left == placed else {"footprint": {"clusters": left.text() or None}}
    return metadata, status


def record_of(workload: Workload) -> MemberRecord:
    """Return the members that may have been sent objects, and have not confirmed their end."""
    return workload.sent


def _annotated(workload: Workload) -> MemberRecord:
    """Noted by this propagator."""
    return MemberRecord.read(workload.metadata.annotations.get(ANNOTATION_CLUSTERS, ""))


def _placed(workload: Workload) -> MemberRecord:
    """Noted with the placements."""
    return MemberRecord.read(workload.status.footprint.clusters)


def _missing_members(workload: Workload, there: Callable[[str], bool]) -> dict[str, str]:
    record, noted = record_of(workload), _annotated(workload)
    lacking = [name for name in workload.placements if name not in record and there(name)]
    return {ANNOTATION_CLUSTERS: noted.adding(lacking).text()} if lacking else {}


WIDE = 32
"""The minimum number of shares for a JSON patch."""


def entries_patch(workload: Workload, status: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return a JSON patch of the changes; None if the list of shares has to be written whole.

    A merge patch replaces a list whole: 180 KiB for a thousand shares. This one names entries by
    position, and the version.
    """
    old, new = workload.status.clusters, status["clusters"]
    if (
        len(new) < WIDE
        or "footprint" in status
        or [each["name"] for each in old] != [each["name"] for each in new]
    ):
        return None
    changed = [at for at, entry in enumerate(new) if entry != old[at]]
    if len(changed) > len(new) // 2:
        return None
    version = workload.metadata.resource_version
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        *({"op": "replace", "path": f"/status/clusters/{at}", "value": new[at]} for at in changed),
        *_fields(workload, status),
    ]


def _fields(workload: Workload, status: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Only one of the other fields can be unset."""
    for field, value in status.items():
        if field != "clusters" and value is not None:
            yield {"op": "add", "path": f"/status/{field}", "value": value}
    if status["serviceExternalIP"] is None and workload.status.service_external_ip is not None:
        yield {"op": "remove", "path": "/status/serviceExternalIP"}
