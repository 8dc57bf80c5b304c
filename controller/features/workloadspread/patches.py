"""What the patch of a subset makes of the pods of a Workload, as far as placing reads it.

A patch is laid over what the unit keeps of its pods (`Unit.pod`), with the same merge that the
propagator uses on the whole template. One that does not fit is the fault of the whole spread: of a
Workload whose shares would be patched in part nobody could say what it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from controller.features.workloadspread.compiled import Spread
from controller.model import podtemplate
from controller.model.objects import Toleration
from controller.model.requests import request_of
from controller.model.unit import Unit
from machinery.types import strategic_merge

_KEPT = 1024
"""Patched pods that are remembered: the same few are asked for in every pass."""


@dataclass(frozen=True, slots=True)
class PatchedPod:
    """What a pod asks for once it is patched, and which nodes it may lie on."""

    request: Mapping[str, int]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


def patched(unit: Unit, patch: Mapping[str, Any]) -> PatchedPod:
    """The pod of a unit with a patch over it. Raises ValueError, naming the field."""
    if not unit.pod:
        raise ValueError(f"a {unit.kind} has no pod template that it could be laid over")
    return _patched(unit.pod, msgspec.json.encode(patch, order="deterministic"))


def fault(spread: Spread, unit: Unit) -> str:
    """What is wrong with its patches for the pods of its target; empty when nothing."""
    for i, subset in enumerate(spread.subsets):
        if subset.patch is not None:
            try:
                patched(unit, subset.patch)
            except ValueError as e:
                return f"spec.subsets[{i}].patch: {e}"
    return ""


@lru_cache(maxsize=_KEPT)
def _patched(pod: bytes, patch: bytes) -> PatchedPod:
    merged = strategic_merge.merge(msgspec.json.decode(pod), msgspec.json.decode(patch))
    podtemplate.check_pods(merged)
    spec = merged.get("spec") or {}
    try:
        request = request_of(spec)
    except ValueError as e:
        raise ValueError(str(e).removeprefix("spec.template.")) from e
    return PatchedPod(
        request,
        spec.get("nodeSelector") or {},
        tuple(msgspec.convert(spec.get("tolerations") or [], list[Toleration])),
    )
