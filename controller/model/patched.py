"""The pods of a Workload with the patch of a WorkloadSpread over them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from controller.model import podtemplate
from controller.model.objects import WorkloadSpec
from controller.model.place import Place, together
from controller.model.requests import parts_of, request_of
from machinery.kinds.profile import Profile, with_article
from machinery.kinds.templates import at_place, put, template_places
from machinery.types import strategic_merge

_KEPT = 1024
"""Patched pods that are remembered: every pass asks for the same few."""
_NO_TEMPLATE = "{} has no pod template that it could be laid over"
PatchedPod: TypeAlias = tuple[Mapping[str, int], Place]
"""The request of a pod, and the nodes that it may lie on."""


def laid_over(
    patch: bytes, pod: bytes, source: WorkloadSpec | None, profile: Profile, kind: str
) -> PatchedPod:
    """Return the pod, or all pods of a replica, with a patch as JSON over each template.

    `pod` and `source` are those of a WorkloadInfo.

    Raises:
        ValueError: the patch does not fit; names the field.
    """
    if pod:
        return _merged(pod, patch)
    if source is not None and source.template is not None:
        body = {"spec": source.template.spec}
        return _each_merged(msgspec.json.encode(body), profile, patch)
    raise ValueError(_NO_TEMPLATE.format(with_article(kind)))


def most_patched(
    told: Sequence[Any] | None, pod: bytes, source: WorkloadSpec | None, profile: Profile
) -> dict[str, int]:
    """Return the most that a replica requests by the patches of `status.overrides`."""
    most: dict[str, int] = {}
    for each in told or ():
        patch = each.get("patch") if isinstance(each, Mapping) else None
        if not patch:
            continue
        with suppress(ValueError, msgspec.MsgspecError):  # no member takes it
            said = msgspec.json.decode(patch, type=dict[str, Any]) if type(patch) is str else patch
            encoded = msgspec.json.encode(said, order="deterministic")
            request, _ = laid_over(encoded, pod, source, profile, profile.kind)
            for name, n in request.items():
                most[name] = max(n, most.get(name, 0))
    return most


@lru_cache(maxsize=_KEPT)
def _merged(pod: bytes, patch: bytes) -> PatchedPod:
    merged = strategic_merge.merge(msgspec.json.decode(pod), msgspec.json.decode(patch))
    podtemplate.check_pods(merged)
    spec = merged.get("spec") or {}
    try:
        request = request_of(spec, (merged.get("metadata") or {}).get("labels") or {})
    except ValueError as e:
        raise ValueError(str(e).removeprefix("spec.template.")) from e
    return request, Place.of(spec)


@lru_cache(maxsize=_KEPT)
def _each_merged(body: bytes, profile: Profile, patch: bytes) -> PatchedPod:
    """Lay a patch over each template of a kind of several sorts of pods."""
    patched_body, said = msgspec.json.decode(body), msgspec.json.decode(patch)
    places = template_places(profile, patched_body)
    if not places:
        raise ValueError(_NO_TEMPLATE.format(with_article(profile.kind)))
    for place in places:
        merged = strategic_merge.merge(at_place(patched_body, place), said)
        podtemplate.check_pods(merged)
        put(patched_body, place, merged)
    return together(parts_of(profile, patched_body))
