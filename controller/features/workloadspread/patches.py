"""The pods of a Workload in a subset: patch and tolerations for placing, and its status.

A patch is merged over `WorkloadInfo.pod`, as the propagator merges it over the whole template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from controller.features.workloadspread.compiled import (
    CompiledSpread,
    CompiledSubset,
    kept,
    replicas_of,
    subsets_of,
)
from controller.framework.interface import Variant
from controller.model.patched import PatchedPod, laid_over
from controller.model.place import HARD
from controller.model.unit import WorkloadInfo
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.kinds.profile import with_article
from machinery.types.taints import Toleration


def variants(
    spread: CompiledSpread, info: WorkloadInfo, before: Sequence[Variant] = ()
) -> list[Variant]:
    """Return the Workload as it is in the subsets where it differs.

    They are laid over its other variants `before`, too, if they fit. Of several subsets of a
    cluster the first one counts that tolerates its taints, else the first.
    """
    both = []
    for each in before:
        with suppress(ValueError):
            both += [
                replace(other, rows=partial(_both, each.rows, other.rows))
                for other in _varied(spread, _overlaid(info, each))
            ]
    return [*both, *before, *_varied(spread, info)]


def _both(
    first: Callable[[Snapshot], Mask], second: Callable[[Snapshot], Mask], snapshot: Snapshot
) -> Mask:
    return first(snapshot) & second(snapshot)


def _overlaid(info: WorkloadInfo, variant: Variant) -> WorkloadInfo:
    # Of several sorts of pods the overridden ones are not kept: such a patch then fits none.
    pod = variant.pod or info.pod
    return replace(info, pod=pod, source=None, request=variant.request, place=variant.place)


def _varied(spread: CompiledSpread, info: WorkloadInfo) -> Iterator[Variant]:
    said = tuple((*info.tolerations, *each.tolerations) for each in spread.subsets)
    kinds = [Variant(_nowhere, *patched(info, None), info.tolerations)]
    alike: list[list[int]] = [[]]
    for at, (subset, tolerations) in enumerate(zip(spread.subsets, said, strict=True)):
        made = Variant(_nowhere, *patched(info, subset.patch), tolerations)
        if made not in kinds:
            kinds.append(made)
            alike.append([])
        alike[kinds.index(made)].append(at)
    for kind, places in zip(kinds[1:], alike[1:], strict=True):
        yield replace(kind, rows=partial(_among, spread, info.replicas, said, places))


def patched(info: WorkloadInfo, patch: Mapping[str, Any] | None) -> PatchedPod:
    """Return the pod of a Workload with a patch over it.

    Raises:
        ValueError: the patch does not fit; names the field.
    """
    if patch is None:
        return info.request, info.place
    encoded = msgspec.json.encode(patch, order="deterministic")
    return laid_over(encoded, info.pod, info.source, info.profile, info.kind)


def _among(
    spread: CompiledSpread,
    total: int,
    tolerations: tuple[tuple[Toleration, ...], ...],
    places: Sequence[int],
    snapshot: Snapshot,
) -> Mask:
    def first() -> Ints:
        matching = subsets_of(spread, snapshot, total).inside
        bears = {each: snapshot.untolerated(each, HARD) == 0 for each in tolerations}
        tolerant = matching & np.array([bears[each] for each in tolerations])
        first: Ints = np.where(tolerant.any(axis=0), tolerant, matching).argmax(axis=0)
        return np.where(matching.any(axis=0), first, len(matching))

    mask: Mask = np.isin(kept(spread, snapshot, tolerations, first), places)
    return mask


def _nowhere(snapshot: Snapshot) -> Mask:
    return np.zeros(len(snapshot), dtype=np.bool_)


def fault(spread: CompiledSpread, info: WorkloadInfo) -> str:
    for i, subset in enumerate(spread.subsets):
        try:
            patched(info, subset.patch)
        except ValueError as e:
            return f"spec.subsets[{i}].patch: {e}"
    return ""


def fault_of(spread: CompiledSpread, info: WorkloadInfo) -> str:
    if spread.fault:
        return spread.fault
    if info.profile.everywhere:
        runs = "which runs on every cluster in full"
        return f"its target {info.name} holds {with_article(info.kind)}, {runs}"
    return fault(spread, info)


def overrides_of(
    spread: CompiledSpread, subsets: Subsets, placements: Mapping[str, int], snapshot: Snapshot
) -> list[dict[str, Any]] | None:
    """Return status.overrides; None if no cluster holds any replica.

    A cluster stands under its first subset with replicas, or in the last entry, without name.
    """
    replicas = replicas_of(placements, snapshot)
    classes = np.vstack(subsets.classified(replicas))
    first = _first(subsets, classes)
    rows = np.flatnonzero(replicas > 0)
    rows = rows[np.argsort(snapshot.by_name[rows])]
    costs = _costs(subsets)
    found = []
    for at, head in enumerate([*map(_head, spread.subsets), {}]):
        named = rows[first[rows] == at].tolist()
        if named:
            clusters = [_cluster(snapshot.names[row], classes[:, row], costs) for row in named]
            found.append({**head, "clusters": clusters})
    return found or None


def _first(subsets: Subsets, classes: Ints) -> Ints:
    """Shape (n,)."""
    counted = classes[: len(subsets.names)] > 0
    return np.where(counted.any(axis=0), counted.argmax(axis=0), subsets.home)


def _costs(subsets: Subsets) -> list[int]:
    counted, excess, outside = subsets.cost()
    return [*counted.tolist(), *excess.tolist(), int(outside)]


def _cluster(name: str, replicas: Ints, costs: Sequence[int]) -> dict[str, Any]:
    held = [
        {"cost": cost, "replicas": number}
        for cost, number in zip(costs, replicas.tolist(), strict=True)
        if number
    ]
    return {"name": name, "deletionCosts": held}


def _head(subset: CompiledSubset) -> dict[str, Any]:
    """Return its name and patch, as text if the hub would lose a part of it."""
    if not subset.patch:
        return {"name": subset.name}
    patch: Any = subset.patch
    if _holds_null(patch):
        patch = msgspec.json.encode(patch, order="deterministic").decode()
    return {"name": subset.name, "patch": patch}


def _holds_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_null, value.values()))
    return value is None or (isinstance(value, list) and any(map(_holds_null, value)))
