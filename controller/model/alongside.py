"""The pods of manifests, and the largest request by overrides, for quotas. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.model.objects import Manifest
from controller.model.overridden import Overridden
from controller.model.requests import request_of
from crds.fields.labels import KEEPS
from crds.names import ANNOTATION_KEEP
from machinery.kinds.paths import InvalidTemplate, steps, value_at
from machinery.kinds.profile import Profile
from machinery.kinds.table import profile_of
from machinery.kinds.templates import pods_in, replicas_in
from machinery.overrides.override import (
    ClusterOverride,
    OverrideMisfit,
    UnreadableOverrides,
    cluster_overrides_of,
    overridden,
)
from machinery.overrides.variables import ClusterFacts

Body = Mapping[str, Any]
Amounts = Mapping[str, int]
_NOWHERE = ClusterFacts("", {})
_PODS = ("spec.template", "spec.jobTemplate.spec.template")
"""The paths of a pod template in an object of a kind without a profile."""


def alongside(manifests: Sequence[Manifest], raw: bytes) -> dict[str, int]:
    """Return the request of all pods that the manifests make on one cluster, "pods" their number.

    The largest request by any of the overrides `raw` counts. Raises ValueError, naming the
    manifest, for malformed pods.
    """
    found: dict[str, int] = {}
    for at, each in enumerate(manifests):
        if not isinstance(each.spec, dict):
            continue
        meta = each.metadata if isinstance(each.metadata, dict) else {}
        body = {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "metadata": {"name": meta.get("name")},
            "spec": each.spec,
        }
        profile = profile_of(each.api_version, each.kind)
        try:
            amounts = [_request(profile, form) for form in _forms(profile, body, raw)]
        except ValueError as e:
            raise ValueError(f"spec.manifests[{at}]: {e}") from e
        for name, n in _most(amounts).items():
            found[name] = found.get(name, 0) + n
    return found


def stays(meta: Any, raw: bytes) -> bool:
    annotations = meta.get("annotations") if isinstance(meta, Mapping) else None
    said = annotations.get(ANNOTATION_KEEP) if isinstance(annotations, Mapping) else None
    return said == KEEPS[-1] or ANNOTATION_KEEP.encode() in raw


def most_of(changes: Overridden) -> Amounts:
    places = range(len(changes.overrides))
    chosen = [*((at,) for at in places), tuple(places)]
    return _most([changes.on(each, _NOWHERE).request for each in chosen])


def _forms(profile: Profile, body: Body, raw: bytes) -> Iterator[Body]:
    yield body
    about = (body["kind"], body["metadata"]["name"])
    known = ((o.target, o) for o in _known(raw))
    mine = [o for target, o in known if target and (target.kind, target.name) == about]
    pods, path = steps(profile.pod_path or _PODS[0]), profile.replicas_path
    for chosen in [*([each] for each in mine), *([mine] if len(mine) > 1 else [])]:
        try:
            yield overridden(dict(body), chosen, _NOWHERE, pods=pods, replicas_path=path)
        except (OverrideMisfit, ValueError):
            continue  # it reaches no member


def _known(raw: bytes) -> Sequence[ClusterOverride]:
    try:
        return cluster_overrides_of(raw) if raw else ()
    except UnreadableOverrides:
        return ()  # none of them applies


def _request(profile: Profile, body: Body) -> dict[str, int]:
    if profile.known:
        number = 1 if profile.whole else replicas_in(profile, body)
        pods = [(each.template, each.count) for each in pods_in(profile, body)]
    else:
        asked = body["spec"].get("replicas")
        number = asked if isinstance(asked, int) and asked >= 0 else 1
        held = (value_at(body, path) for path in _PODS)
        pods = [(each, 1) for each in held if isinstance(each, Mapping)] or [(body, 1)]
    found: dict[str, int] = {}
    for each, count in pods:
        spec = each.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list):
            continue
        try:
            asks = request_of(spec)
        except (AttributeError, TypeError) as e:
            raise InvalidTemplate("its containers cannot be read") from e
        for name, n in asks.items():
            found[name] = found.get(name, 0) + n * number * count
    return found


def _most(amounts: Sequence[Amounts]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in amounts:
        found |= {name: max(n, found.get(name, 0)) for name, n in each.items()}
    return found
