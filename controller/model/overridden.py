"""The pods of a Workload and of its manifests with overrides, as far as placement reads them. Pure.

Only a Workload with overrides keeps its whole template.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from controller.model import podtemplate
from controller.model.load import ANYWHERE
from controller.model.objects import Manifest, Template, WorkloadSpec
from controller.model.place import Place, together
from controller.model.requests import parts_of, request_of
from crds.fields.labels import KEEPS
from crds.names import ANNOTATION_KEEP, LABEL_CLUSTER
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
from machinery.overrides.variables import ClusterFacts, labels_named

MOST_FORMS_BYTES = 64 * 1024 * 1024
"""The bytes of template and overrides that one Workload may need, counted once for each form."""
_ENTRY_BYTES = 1024
_Asked: TypeAlias = tuple[
    tuple[bytes, bytes, Profile], tuple[int, ...], tuple[tuple[str, str], ...]
]
"""The texts, the places of the overrides, and the labels of clusters that they read."""


@dataclass(frozen=True, slots=True)
class Overridden:
    """The overrides of the main object, with the object itself as JSON."""

    overrides: tuple[ClusterOverride, ...]
    labels: tuple[frozenset[str], ...]
    """The labels of a cluster that each of them reads."""
    raw: bytes
    body: bytes
    profile: Profile
    fault: str = ""
    """Why the overrides are unreadable: none of them applies then."""

    @property
    def size(self) -> int:
        return len(self.raw) + len(self.body)

    def on(self, chosen: Sequence[int], cluster: ClusterFacts) -> OverriddenPods:
        if not chosen:
            return OverriddenPods()
        read = frozenset[str]().union(*(self.labels[at] for at in chosen))
        told = {key: cluster.labels[key] for key in sorted(read) if key in cluster.labels}
        about = (self.raw, self.body, self.profile)
        return _RESULTS.of((about, tuple(chosen), tuple(told.items())))


@dataclass(frozen=True, slots=True)
class OverriddenPods:
    """A replica with its pod skeleton, or the first override that does not fit, and why."""

    pod: bytes = b""
    request: Mapping[str, int] = field(default_factory=dict)
    place: Place = ANYWHERE
    misfit: str = ""
    text: str = ""

    @classmethod
    def of(cls, template: Any) -> OverriddenPods:
        """Raises ValueError for a malformed one."""
        podtemplate.check_pods(template)
        metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
        request = request_of(spec, metadata.get("labels") or {})
        return cls(podtemplate.skeleton(metadata, spec), request, Place.of(spec))

    @classmethod
    def of_all(cls, profile: Profile, body: Mapping[str, Any]) -> OverriddenPods:
        """Raises ValueError for a malformed one."""
        for each in pods_in(profile, body):
            podtemplate.check_pods(each.template)
        request, place = together(parts_of(profile, body))
        return cls(request=request, place=place)


def overridden_of(spec: WorkloadSpec, template: Template, profile: Profile) -> Overridden | None:
    if not spec.overrides:
        return None
    raw = b""
    try:
        raw = msgspec.json.encode(spec.overrides)
        found = _of_main(raw)
        body = msgspec.json.encode(template, order="deterministic")
        return Overridden(found, tuple(map(_labels, found)), raw, body, profile)
    except UnreadableOverrides as e:
        return Overridden((), (), raw, b"", profile, fault=str(e))
    except RecursionError:
        return Overridden((), (), raw, b"", profile, fault="spec.overrides: nested too deep")


def _of_main(raw: bytes) -> tuple[ClusterOverride, ...]:
    return tuple(each for each in cluster_overrides_of(raw) if each.target is None)


def _labels(override: ClusterOverride) -> frozenset[str]:
    operations = [each.value for each in override.json_patch or ()]
    # Excluding the name keeps one form for clusters that differ only in it.
    return labels_named([override.patch, operations]) - {LABEL_CLUSTER}


class _Results:
    """Least recently used first out, bounded by bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._kept: OrderedDict[_Asked, OverriddenPods] = OrderedDict()

    def of(self, asked: _Asked) -> OverriddenPods:
        known = self._kept.get(asked)
        if known is not None:
            self._kept.move_to_end(asked)
            return known
        found = _evaluated(*asked)
        self._kept[asked] = found
        self._held += _size(found)
        while self._held > self._most and len(self._kept) > 1:
            self._held -= _size(self._kept.popitem(last=False)[1])
        return found


def _size(pods: OverriddenPods) -> int:
    return len(pods.pod) + len(pods.text) + _ENTRY_BYTES


def _evaluated(
    about: tuple[bytes, bytes, Profile],
    chosen: tuple[int, ...],
    labels: tuple[tuple[str, str], ...],
) -> OverriddenPods:
    raw, whole, profile = about
    body: dict[str, Any] = msgspec.json.decode(whole)
    pods, path = steps(profile.pod_path), profile.replicas_path
    cluster = ClusterFacts("", {**dict(labels), LABEL_CLUSTER: ""})
    known = _of_main(raw)
    overrides = [known[at] for at in chosen]
    try:
        found: Any = overridden(body, overrides, cluster, pods=pods, replicas_path=path)
        if pods:
            return OverriddenPods.of(value_at(found, profile.pod_path) or {})
        return OverriddenPods.of_all(profile, found)
    except OverrideMisfit as e:
        return OverriddenPods(misfit=e.override, text=str(e))
    except ValueError as e:
        return OverriddenPods(misfit=overrides[-1].name, text=str(e))


_RESULTS = _Results(MOST_FORMS_BYTES)


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
