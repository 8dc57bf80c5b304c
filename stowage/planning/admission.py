"""Objects from files as the API server would store them after an apply.

This module does the API server's own work in the same words: labels are brought into their one
form, the scheduler and the method are defaulted, and an object that admission would refuse is an
error with file, document and field.
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
"""The metadata that a file may set; the hub sets the rest."""


@dataclass(frozen=True, slots=True)
class AdmittedKind:
    """The admission of one kind beside Workload.

    `violations` is given the object and the one before, None for a new one; `normalised` returns
    the merge patch with the defaults. `placed` is set for a kind whose objects get clusters.
    """

    type_: type[Object]
    violations: Callable[[Json, Json | None], list[str]] = lambda _body, _before: []
    normalised: Callable[[Json], Json] = lambda _body: {}
    placed: PlacedKind | None = None


def _spread_violations(body: Json, before: Json | None) -> list[str]:
    old = None if before is None else {**body, "spec": before["spec"]}
    # the object before was decoded in part; its spec is all that is compared
    return spread_violations(body, old)


def _reservation_violations(body: Json, before: Json | None) -> list[str]:
    old = None if before is None else {**body, "spec": before["spec"]}
    return reservation_violations(body, old)


def _scheduler_defaulted(body: Json) -> Json:
    # the default of the schema, without which no scheduler decides the object
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
"""The admission of our placed kinds; an object of another feature's placed kind is not checked."""


class Kinds:
    """The kinds that files may hold beside MemberCluster and Workload, with these placed kinds."""

    def __init__(self, placed: Iterable[PlacedKind]) -> None:
        self._all = dict(_OURS)
        for kind in placed:
            ours = _PLACED.get(kind.resource, AdmittedKind(Object))
            self._all[kind.resource] = replace(ours, type_=kind.type_, placed=kind)

    def of(self, document: Document) -> AdmittedKind | None:
        """Return the kind of an object; None for an unknown one."""
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
    """Return the object as it would be stored, new or over the one before, without a status.

    The object is a Workload if `kind` is None. Raises ConfigurationError with everything that
    admission would refuse.
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
    """Return (namespace, name); the object need not be admitted."""
    metadata = document.body.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    return (str(own or namespace), document.name)


def workload(document: Document, body: Json) -> Workload:
    """Return the Workload with its unit. Raises ConfigurationError."""
    found = known(document.decoded(body, Workload))
    if found.fault:
        raise document.error(found.fault)
    return found


def _formed(document: Document, *, namespace: str, created: str) -> dict[str, Any]:
    """Return the body with the form that admission relies on: name, version, metadata, spec."""
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
    """Keep identity, labels and status of the object before, and replicas that were scaled."""
    meta, old = body["metadata"], before["metadata"]
    labels = {**(old.get("labels") or {}), **(meta.get("labels") or {})}
    annotations = {**(old.get("annotations") or {}), **(meta.get("annotations") or {})}
    body["metadata"] = {**old, "labels": labels, "annotations": annotations}
    body["status"] = before.get("status") or {}
    # Set by kubectl scale or an autoscaler. kubectl removes the number only if the last apply set
    # it and this file leaves it out.
    scaled = before["spec"].get("replicas")
    if scaled is not None and "replicas" not in body["spec"] and not _applied(old, "replicas"):
        body["spec"]["replicas"] = scaled


def _applied(metadata: Json, name: str) -> bool:
    text: str = (metadata.get("annotations") or {}).get(LAST_APPLIED, "{}")
    return name in json.loads(text).get("spec", {})


def _patch(body: dict[str, Any], patch: Json) -> None:
    """Apply a JSON merge patch in place."""
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping):
            _patch(body.setdefault(key, {}), value)
        else:
            body[key] = value
