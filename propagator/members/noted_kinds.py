"""Which kinds a Workload may have objects of on members, and how that is known. Pure.

Every one of these kinds is listed before a Workload is removed. A kind is noted before its first
write. The table of `KindsSource` is complete:

| source | condition                                   | may be on members  | may be written |
|--------|---------------------------------------------|--------------------|----------------|
| NOTES  | the kinds are noted, even if none are       | the noted          | the noted      |
| SPOILT | a note has more kinds than we ever write    | usual, spec, noted | none           |
| SPEC   | placed by our controller, never edited, all | the spec's         | the spec's     |
|        | of its kinds usual, and none noted          |                    |                |
| EDITED | none noted; edited since, or placed by      | the usual          | none           |
|        | a writer that noted only the members        |                    |                |
| UNSENT | none noted, and no member, or the first     | the usual          | none           |
|        | spec was not SPEC: nothing can be written   |                    |                |

SPEC saves most Workloads a write: their kinds are noted with the first status. A note leads from
any source to NOTES, with all that may be on members (`_before`). An edit leads from SPEC to EDITED,
which covers all that SPEC can have had.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeAlias

from crds.names import ANNOTATION_CLUSTERS, ANNOTATION_KINDS
from crds.workload import WorkloadCondition
from machinery.types import conditions
from machinery.types.written_clusters import MemberRecord
from propagator.members.kinds import USUAL_KINDS
from propagator.types.workload import MOST_KINDS, Workload

Pair: TypeAlias = tuple[str, str]
"""(apiVersion, kind)."""


class KindsSource(Enum):
    NOTES = "its notes"
    SPOILT = "notes that we did not write"
    SPEC = "its only spec"
    EDITED = "nothing, after an edit"
    UNSENT = "nothing, before the first write"


def kinds_source(workload: Workload) -> KindsSource:
    if workload.spoilt:
        return KindsSource.SPOILT
    if ANNOTATION_KINDS in workload.metadata.annotations or workload.status.footprint.kinds:
        return KindsSource.NOTES
    if ANNOTATION_CLUSTERS in workload.metadata.annotations:
        return KindsSource.EDITED
    if not workload.status.footprint.clusters:
        return KindsSource.UNSENT
    if workload.metadata.generation > 1:
        return KindsSource.EDITED
    usual = workload.metadata.generation == 1 and USUAL_KINDS.issuperset(workload.kinds())
    return KindsSource.SPEC if usual else KindsSource.UNSENT


def needed_kinds(workload: Workload) -> set[Pair]:
    match kinds_source(workload):
        case KindsSource.NOTES:
            return set(workload.remembered())
        case KindsSource.SPEC:
            return set(workload.kinds())
        case KindsSource.SPOILT:
            return {*USUAL_KINDS, *workload.kinds(), *workload.remembered()}
        case KindsSource.EDITED | KindsSource.UNSENT:
            return set(USUAL_KINDS)


def writable_kinds(workload: Workload) -> set[Pair]:
    """Return the kinds that may be written now, because they will be found again."""
    match kinds_source(workload):
        case KindsSource.NOTES:
            return set(workload.remembered())
        case KindsSource.SPEC:
            return set(workload.kinds())
        case _:
            return set()


def missing_kinds(workload: Workload, kinds: set[Pair], *, alone: bool) -> dict[str, str]:
    """Return the annotation that must exist before these kinds are written; or nothing.

    `alone`: no other member is noted, or may have been sent objects.
    """
    row = kinds_source(workload)
    if row is KindsSource.SPEC and alone and kinds == set(workload.kinds()):
        return {}
    before = _before(workload, row)
    new = sorted(kinds - before)[: max(MOST_KINDS - len(before), 0)]
    if row is KindsSource.NOTES and not new:
        return {}
    return {ANNOTATION_KINDS: _listed({*before, *new})}


def first_kinds(workload: Workload) -> dict[str, Any]:
    """Return the status fields for the first report, or nothing."""
    if kinds_source(workload) is not KindsSource.SPEC:
        return {}
    return {"footprint": {"kinds": _listed(workload.kinds())}}


def without_kinds(workload: Workload, idle: set[Pair]) -> dict[str, Any]:
    noted = set(workload.remembered())
    gone = idle - set(workload.kinds())
    if kinds_source(workload) is not KindsSource.NOTES or not noted & gone:
        return {}
    return {"annotations": {ANNOTATION_KINDS: _listed(noted - gone)}}


def _before(workload: Workload, row: KindsSource) -> set[Pair]:
    """A Workload of SPEC without a status, on its only member, has not been written there by us."""
    if row is KindsSource.UNSENT:
        return set()
    if row is KindsSource.SPEC and not _spoken_of(workload) and not _several(workload):
        return set()
    return needed_kinds(workload)


def _spoken_of(workload: Workload) -> bool:
    return bool(conditions.among(workload.conditions, WorkloadCondition.PROPAGATED.value))


def _several(workload: Workload) -> bool:
    placed = MemberRecord.read(workload.status.footprint.clusters)
    return placed.everybody or len({*placed.entries, *workload.placements}) > 1


def _listed(kinds: Iterable[Pair]) -> str:
    return ",".join(sorted("/".join(pair) for pair in kinds))
