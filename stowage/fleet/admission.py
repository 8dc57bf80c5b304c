"""Objects from files as the API server would store them after an apply.

Labels get their one form, scheduler and method their defaults. An object that admission would
refuse is an error with file, document and field, in the API server's words.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.eventhandlers import known
from controller.framework.runtime.feature import Feature, placed_kinds
from controller.model.objects import Workload
from controller.model.placed import PlacedKind
from crds.admission.mutating import LAST_APPLIED
from crds.admission.validation import (
    normalised,
    object_defaults,
    object_violations,
    violations,
)
from crds.base import NAME
from crds.names import API_VERSION, GROUP
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS, Resource
from machinery.types.metadata import Object
from stowage.fleet.manifests import Document

Json = Mapping[str, Any]

USERS = ("name", "namespace", "labels", "annotations")
"""The metadata that a file may set."""


@dataclass(frozen=True, slots=True)
class AdmittedKind:
    """A kind beside Workload; `placed` is set if its objects get clusters."""

    resource: Resource
    type_: type[Object]
    placed: PlacedKind | None = None

    def violations(self, body: Json, before: Json | None) -> list[str]:
        """Return what admission refuses of an object, also as an edit of the one before."""
        ours = self.resource.group == GROUP
        return object_violations(self.resource.kind, body, before) if ours else []

    def defaults(self, body: Json) -> Json:
        """Return the merge patch with an object's defaults."""
        return object_defaults(self.resource.kind, body) if self.resource.group == GROUP else {}


class Kinds:
    """The kinds of the features: those that files may hold beside MemberCluster and Workload."""

    def __init__(self, features: Sequence[Feature]) -> None:
        types = {watch.resource: watch.type_ for each in features for watch in each.watches}
        placed = {kind.resource: kind for kind in placed_kinds(features)}
        types |= {resource: kind.type_ for resource, kind in placed.items()}
        self._all = [
            AdmittedKind(resource, type_, placed.get(resource))
            for resource, type_ in types.items()
            if resource not in (MEMBER_CLUSTERS, WORKLOADS)
        ]

    def __iter__(self) -> Iterator[AdmittedKind]:
        return iter(self._all)

    def of(self, document: Document) -> AdmittedKind | None:
        """Return the kind of an object; None for an unknown one."""
        found = (k for k in self._all if document.of(k.resource.group, k.resource.kind))
        return next(found, None)


def admitted(
    document: Document,
    *,
    namespace: str,
    created: str = "",
    before: Json | None = None,
    kind: AdmittedKind | None = None,
) -> dict[str, Any]:
    """Return the object as it would be stored, new or over `before`, without a status.

    It is a Workload if `kind` is None. Raises ConfigurationError with all that admission refuses.
    """
    body = _formed(document, namespace=namespace, created=created)
    if kind is None and before is not None:
        _lay_over(body, before)
    wrong = violations(body) if kind is None else kind.violations(body, before)
    if wrong:
        raise document.error(wrong)
    _patch(body, normalised(body) if kind is None else kind.defaults(body))
    return body


def key_of(document: Document, namespace: str) -> tuple[str, str]:
    """Return (namespace, name), also of an object that is not admitted."""
    metadata = document.body.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else None
    return (str(own or namespace), document.name)


def workload(document: Document, body: Json) -> Workload:
    """Return the Workload with its `info`. Raises ConfigurationError."""
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
        wrong = "lower-case letters, digits, - and . make a name"
        raise document.error(f"metadata.name: {wrong if document.name else 'Required value'}")
    if not body.get("apiVersion"):
        raise document.error(f"apiVersion: write {API_VERSION}")
    own = {key: metadata[key] for key in USERS if metadata.get(key)}
    body["metadata"] = {"namespace": namespace, "creationTimestamp": created, **own}
    document.decoded(body, Object)
    return body


def _lay_over(body: dict[str, Any], before: Json) -> None:
    """Keep identity, labels and status of the object before, and replicas that were scaled."""
    meta, old = body["metadata"], before["metadata"]
    applied = _applied(old)
    marks = {
        part: {**_left(old, part, applied), **(meta.get(part) or {})}
        for part in ("labels", "annotations")
    }
    body["metadata"] = {**old, **marks}
    body["status"] = before.get("status") or {}
    # Set by kubectl scale or an autoscaler. kubectl removes the number only if the last apply set
    # it and this file leaves it out.
    scaled = before["spec"].get("replicas")
    if scaled is not None and "replicas" not in body["spec"] and _REPLICAS not in applied:
        body["spec"]["replicas"] = scaled


def _left(old: Json, part: str, applied: Collection[tuple[str, str, str]]) -> dict[str, str]:
    there = old.get(part) or {}
    return {key: there[key] for key in there if ("metadata", part, key) not in applied}


_REPLICAS = ("spec", "", "replicas")


def _applied(metadata: Json) -> set[tuple[str, str, str]]:
    """Return the labels, annotations and fields of the spec that an apply removes when left out.

    As (metadata, labels or annotations, key) and (spec, "", field).
    """
    said: dict[str, Any] = json.loads((metadata.get("annotations") or {}).get(LAST_APPLIED, "{}"))
    found = set(_paths(said, ""))
    for entry in metadata.get("managedFields") or ():
        if entry.get("operation") == "Apply":
            found |= set(_paths(entry.get("fieldsV1") or {}, "f:"))
    return found


def _paths(of: Json, mark: str) -> Iterator[tuple[str, str, str]]:
    meta = of.get(f"{mark}metadata") or {}
    for part in ("labels", "annotations"):
        for key in meta.get(mark + part) or ():
            yield ("metadata", part, key.removeprefix(mark))
    for name in of.get(f"{mark}spec") or ():
        yield ("spec", "", name.removeprefix(mark))


def _patch(body: dict[str, Any], patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            body.pop(key, None)
        elif isinstance(value, Mapping):
            _patch(body.setdefault(key, {}), value)
        else:
            body[key] = value
