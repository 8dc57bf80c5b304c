"""What the hub's Workload must say before anything of it may be written to a member. Pure.

The finalizer, so that nothing is left behind when it is deleted; the kinds beyond the usual ones,
so that another process finds all that was written; and a StatefulSet's first ordinal on each
cluster, so that no two clusters give their units the same name.
"""

from __future__ import annotations

import json
from typing import Any

from crds.names import FINALIZER
from propagator.kinds import USUAL_KINDS
from propagator.model import ANNOTATION_KINDS, ANNOTATION_ORDINALS, Workload
from propagator.render import ORDINAL_BLOCK


def is_ours(workload: Workload) -> bool:
    """Whether members may hold something of it, as far as its finalizer tells."""
    return FINALIZER in workload.metadata.finalizers


def missing(workload: Workload) -> dict[str, Any]:
    """The fields of its metadata, as a merge patch, that it lacks; empty when it has it all."""
    metadata: dict[str, Any] = {}
    if not is_ours(workload):
        metadata["finalizers"] = [*workload.metadata.finalizers, FINALIZER]
    annotations = _missing_kinds(workload) | _missing_ordinals(workload)
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def first_ordinals(workload: Workload) -> dict[str, int]:
    """Each cluster's first ordinal: those it has, and the lowest free block for every new one.

    A cluster keeps its block for good, so that scaling or moving renumbers nobody.
    """
    ordinals = workload.ordinals()
    taken = set(ordinals.values())
    for name in sorted(set(workload.placements) - ordinals.keys()):
        first = 0
        while first in taken:
            first += ORDINAL_BLOCK
        taken.add(first)
        ordinals[name] = first
    return ordinals


def _missing_kinds(workload: Workload) -> dict[str, str]:
    kinds = workload.remembered() | (set(workload.kinds()) - USUAL_KINDS)
    if kinds == workload.remembered():
        return {}
    return {ANNOTATION_KINDS: ",".join(sorted("/".join(pair) for pair in kinds))}


def _missing_ordinals(workload: Workload) -> dict[str, str]:
    if workload.template_kind != "StatefulSet":
        return {}
    ordinals = first_ordinals(workload)
    if ordinals == workload.ordinals():
        return {}
    return {ANNOTATION_ORDINALS: json.dumps(ordinals, sort_keys=True)}
