"""The range of ordinals of each cluster, from a Workload's status.

`status.ordinals` is written with the placements. A missing start is taken from the clusters'
reports, and no new range is given before every cluster has reported. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controller.model.objects import Workload
from crds.fields.shares import ShareState
from crds.names import ANNOTATION_ORDINALS
from machinery.kinds.ordinals import MOST_RANGES, known_ranges, with_new_ranges
from machinery.types.workload_api import OrdinalRange


def known_in(workload: Workload, first: int) -> dict[str, int]:
    """`first` is the template's start."""
    status = workload.status
    told = {share.name: share.start for share in status.clusters if share.start is not None}
    noted = {each.cluster: each.start for each in status.ordinals}
    return known_ranges({**_annotated(workload, first), **noted}, told)


def ordinals_of(
    workload: Workload, placements: Mapping[str, int], known: Mapping[str, int], first: int
) -> list[OrdinalRange]:
    """Return the ranges after the decision, by cluster.

    `known` is `known_in` by the present names of clusters; `first` is the template's start.
    """
    status = workload.status
    silent = (s for s in status.clusters if s.name not in known and s.state not in _NOTHING_YET)
    if not known or not any(silent):
        known = with_new_ranges(known, sorted(placements), first)
    needed = {*placements, *(each.cluster for each in status.leaving)}
    needed |= {each.name for each in status.clusters if each.start is not None}
    kept = sorted(known, key=lambda name: (name not in needed, name))[:MOST_RANGES]
    return [OrdinalRange(name, known[name]) for name in sorted(kept)]


_NOTHING_YET = (ShareState.PENDING.value, ShareState.LEAVING.value)


def _annotated(workload: Workload, first: int) -> dict[str, int]:
    try:
        found: Any = json.loads(workload.metadata.annotations.get(ANNOTATION_ORDINALS, "{}"))
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: start or first for name, start in pairs if type(start) is int and start >= 0}
