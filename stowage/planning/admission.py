"""Workloads, and objects of the kinds that features read, from files, as after an apply.

This is the API server's own work, in the same words: labels are brought into their one form, the
scheduler and the method are defaulted, and whatever admission would refuse is an error with file,
document and field.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.eventhandlers import known
from controller.features.workloadgroup.objects import WorkloadGroup
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.features.workloadquota.objects import WorkloadQuota
from controller.features.workloadspread.objects import WorkloadSpread
from controller.model.objects import Workload
from controller.model.placed import PlacedKind
from crds.admission.mutating import LAST_APPLIED
from crds.admission.validation import (
    group_violations,
    normalised,
    normalised_policy,
    policy_violations,
    quota_violations,
    reservation_violations,
    spread_violations,
    violations,
)
from crds.base import NAME
from crds.names import API_VERSION, DEFAULT_SCHEDULER
from machinery.api.resources import (
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    Resource,
)
from machinery.types.metadata import Object
from stowage.planning.manifests import Document

Json = Mapping[str, Any]

USERS = ("name", "namespace", "labels", "annotations")
"""What a file may say of an object's metadata; the rest is the hub's."""


@dataclass(frozen=True, slots=True)
class AdmittedKind:
    """What admission makes of a kind beside Workloads.

    `violations` is given the object, and the one before, if there is one; `normalised` is the merge
    patch of what is left to defaults. `placed` is how its objects get clusters, if they do.
    """

    type_: type[Object]
    violations: Callable[[Json, Json | None], list[str]] = lambda _body, _before: []
    normalised: Callable[[Json], Json] = lambda _body: {}
    placed: PlacedKind | None = None


def _spread_violations(body: Json, before: Json | None) -> list[str]:
    """Held against the spec before; of the rest of that object not all was read."""
    old = None if before is None else {**body, "spec": before["spec"]}
    return spread_violations(body, old)


def _reservation_violations(body: Json, before: Json | None) -> list[str]:
    """As those of a spread."""
    old = None if before is None else {**body, "spec": before["spec"]}
    return reservation_violations(body, old)


def _scheduler_defaulted(body: Json) -> Json:
    """The schema's own default, which decides whether anybody looks at the object at all."""
    return {} if "schedulerName" in body["spec"] else {"spec": {"schedulerName": DEFAULT_SCHEDULER}}


_OURS: Mapping[Resource, AdmittedKind] = {
    WORKLOAD_POLICIES: AdmittedKind(
        WorkloadPolicy, lambda body, _before: policy_violations(body), normalised_policy
    ),
    WORKLOAD_QUOTAS: AdmittedKind(WorkloadQuota, lambda body, _before: quota_violations(body)),
    WORKLOAD_SPREADS: AdmittedKind(WorkloadSpread, _spread_violations),
    WORKLOAD_GROUPS: AdmittedKind(WorkloadGroup, lambda body, _before: group_violations(body)),
}
_PLACED: Mapping[Resource, AdmittedKind] = {
    RESERVATIONS: AdmittedKind(Object, _reservation_violations, _scheduler_defaulted),
}
"""What admission makes of objects of placed kinds; of those of others it knows nothing."""


class Kinds:
    """What files may hold beside MemberClusters and Workloads, with these placed kinds among it."""

    def __init__(self, placed: Iterable[PlacedKind]) -> None:
        self._all = dict(_OURS)
        for kind in placed:
            ours = _PLACED.get(kind.resource, AdmittedKind(Object))
            self._all[kind.resource] = replace(ours, type_=kind.type_, placed=kind)

    def of(self, document: Document) -> AdmittedKind | None:
        """The kind of an object; None for one of any other kind."""
        for resource, kind in self._all.items():
            if document.of(resource.group, resource.kind):
                return kind
        return None


def admitted(
    document: Document,
    *,
    namespace: str,
    created: str = "",
    before: Json | None = None,
    kind: AdmittedKind | None = None,
) -> dict[str, Any]:
    """The object as it would be stored, new or over the one before, without a status.

    It is a Workload without a `kind`. Raises ConfigurationError with everything that admission
    would refuse.
    """
    body = _formed(document, namespace=namespace, created=created)
    if kind is None and before is not None:
        _lay_over(body, before)
    wrong = violations(body) if kind is None else kind.violations(body, before)
    if wrong:
        raise document.error(wrong)
    _patch(body, normalised(body) if kind is None else kind.normalised(body))
    return body


def key_of(document: Document, namespace: str) -> tuple[str, str]:
    """(namespace, name), before anything else is known of the object."""
    metadata = document.body.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    return (str(own or namespace), document.name)


def workload(document: Document, body: Json) -> Workload:
    """The Workload with its unit. Raises ConfigurationError."""
    found = known(document.decoded(body, Workload))
    if found.fault:
        raise document.error(found.fault)
    return found


def _formed(document: Document, *, namespace: str, created: str) -> dict[str, Any]:
    """The form that everything else relies on: a name, a version, metadata and spec."""
    body = copy.deepcopy({key: value for key, value in document.body.items() if key != "status"})
    metadata = body.setdefault("metadata", {})
    if not isinstance(metadata, dict) or not isinstance(body.setdefault("spec", {}), dict):
        raise document.error("metadata and spec are objects")
    if not re.fullmatch(rf"{NAME}(\.{NAME})*", document.name):
        raise document.error("metadata.name: lower-case letters, digits, - and . make a name")
    if not body.get("apiVersion"):
        raise document.error(f"apiVersion: write {API_VERSION}")
    own = {key: metadata[key] for key in USERS if metadata.get(key)}
    body["metadata"] = {"namespace": namespace, "creationTimestamp": created, **own}
    document.decoded(body, Object)
    return body


def _lay_over(body: dict[str, Any], before: Json) -> None:
    """Identity, labels and status stay, and so does a number that was set by somebody else.

    That is kubectl scale, or an autoscaler: the file names no replicas, and never did.
    """
    meta, old = body["metadata"], before["metadata"]
    labels = {**(old.get("labels") or {}), **(meta.get("labels") or {})}
    annotations = {**(old.get("annotations") or {}), **(meta.get("annotations") or {})}
    body["metadata"] = {**old, "labels": labels, "annotations": annotations}
    body["status"] = before.get("status") or {}
    scaled = before["spec"].get("replicas")
    if scaled is not None and "replicas" not in body["spec"] and not _applied(old, "replicas"):
        body["spec"]["replicas"] = scaled


def _applied(metadata: Json, name: str) -> bool:
    """Whether the last kubectl apply set that field of the spec, so that this one removes it."""
    text: str = (metadata.get("annotations") or {}).get(LAST_APPLIED, "{}")
    return name in json.loads(text).get("spec", {})


def _patch(body: dict[str, Any], patch: Json) -> None:
    """A JSON merge patch, in place."""
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping):
            _patch(body.setdefault(key, {}), value)
        else:
            body[key] = value
