"""An object of ours on a member, as an informer of that member keeps it.

The apply side checks whether the object stands, the status side reads its `status`, and the session
reads its owners, to know which Workload to wake when it changes. One generic struct serves every
kind, because the kinds of `spec.manifests` are not known in advance. Fields that no part reads are
dropped: a member has thousands of objects, and the spec is the largest part.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    LABEL_WORKLOAD_UID,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from machinery.api.resources import Resource
from machinery.api.responses import shaped
from machinery.types.metadata import Key, Meta, Object
from propagator.members.field_digest import FieldPrint, ManagedFieldsEntry, print_of, rivals_of
from propagator.members.sanitize import check_metadata, is_label_value, object_status

_REPLICATED = {("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "ReplicaSet")}
_WITH_PODS = _REPLICATED | {("apps", "DaemonSet"), ("batch", "Job"), ("batch", "CronJob")}
_VERSION_DIGITS = 19
"""A resourceVersion is a number of 64 bits."""


class ManagedObject(Object, frozen=True):
    """A member's object with the label `stowage.dev/managed`; fields outside these are not kept."""

    status: dict[str, Any] = msgspec.field(default_factory=dict)
    applied: FieldPrint | None = None
    """The fields of the object that our last apply still owns."""
    rivals: tuple[str, ...] = ()
    """The other managers that wrote to its spec or data."""
    replicas: int | None = None
    """`spec.replicas` of a Deployment, StatefulSet or ReplicaSet; None of any other kind."""
    pods_uid: str | None = None
    """The label `stowage.dev/workload-uid` in its pod template, empty without one; None of a kind
    whose pod template is not known."""


class _WireMeta(Meta, frozen=True, rename="camel"):
    managed_fields: list[ManagedFieldsEntry] = msgspec.field(default_factory=list)


class Wire(Object, frozen=True):
    """An object as it is decoded; `slim` makes a ManagedObject of it at once."""

    metadata: _WireMeta = msgspec.field(default_factory=_WireMeta)
    status: Any = None
    """A mapping; any other value, as a custom kind may have, counts as empty."""


_NoMapping: TypeAlias = str | int | float | bool | list[Any] | None
"""Counts as an empty mapping."""


class _PodLabels(msgspec.Struct, frozen=True):
    uid: Any = msgspec.field(default="", name=LABEL_WORKLOAD_UID)


class _PodMeta(msgspec.Struct, frozen=True):
    labels: _PodLabels | _NoMapping = None


class _PodTemplate(msgspec.Struct, frozen=True):
    metadata: _PodMeta | _NoMapping = None

    @property
    def uid(self) -> str:
        meta = self.metadata
        labels = meta.labels if isinstance(meta, _PodMeta) else None
        uid = labels.uid if isinstance(labels, _PodLabels) else ""
        return uid if isinstance(uid, str) and is_label_value(uid) else ""


class _JobSpec(msgspec.Struct, frozen=True):
    template: _PodTemplate | _NoMapping = None


class _JobTemplate(msgspec.Struct, frozen=True):
    spec: _JobSpec | _NoMapping = None


class _WireSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: Any = None
    template: _PodTemplate | _NoMapping = None
    job_template: _JobTemplate | _NoMapping = None

    @property
    def pods(self) -> _PodTemplate | None:
        """The template of the pods, that of a CronJob's Jobs included."""
        job = self.job_template.spec if isinstance(self.job_template, _JobTemplate) else None
        pods = job.template if isinstance(job, _JobSpec) else self.template
        return pods if isinstance(pods, _PodTemplate) else None


class _WireWithPods(Wire, frozen=True):
    spec: _WireSpec | _NoMapping = None


def wire_of(resource: Resource) -> type[Wire]:
    """Return the form in which an object of that kind is decoded."""
    return _WireWithPods if (resource.group, resource.kind) in _WITH_PODS else Wire


def managed(resource: Resource, answer: Mapping[str, Any]) -> ManagedObject:
    """Return the kept form of an API server's answer. Raises TransportError."""
    return slim(resource, shaped(answer, wire_of(resource)))


def slim(resource: Resource, found: Wire | ManagedObject) -> ManagedObject:
    """Return the kept form of a decoded object; an object in that form is returned as it is.

    Raises TooMuch for more metadata than an object can have.
    """
    if isinstance(found, ManagedObject):
        return found
    check_metadata(found.metadata)
    entries = found.metadata.managed_fields
    said = found.spec if isinstance(found, _WireWithPods) else None
    spec = said if isinstance(said, _WireSpec) else _WireSpec()
    counted = (resource.group, resource.kind) in _REPLICATED and type(spec.replicas) is int
    return ManagedObject(
        metadata=_bare(found.metadata),
        kind=resource.kind,  # the items of a list come without theirs
        api_version=resource.api_version,
        status=object_status(found.status if isinstance(found.status, dict) else {}),
        applied=print_of(entries, resource.kind),
        rivals=rivals_of(entries),
        replicas=spec.replicas if counted else None,
        pods_uid=sys.intern(spec.pods.uid) if spec.pods is not None else None,
    )


def owners(metadata: Meta) -> dict[str, Key]:
    """Return the owning Workloads by UID: {uid: (namespace, name)}.

    An annotation whose value is not `namespace/name` was not written by us and is skipped.
    """
    found: dict[str, Key] = {}
    for annotation, value in metadata.annotations.items():
        namespace, slash, name = value.partition("/")
        if annotation.startswith(OWNER_PREFIX) and slash and namespace and name:
            found[annotation.removeprefix(OWNER_PREFIX)] = (namespace, name)
    return found


def orphan_marks(metadata: Meta) -> set[str]:
    """Return the UIDs of Workloads that leave the object here when they are deleted, or have."""
    keys = (key for key in metadata.annotations if key.startswith(ORPHAN_PREFIX))
    return {key.removeprefix(ORPHAN_PREFIX) for key in keys}


def stands_alike(one: ManagedObject, other: ManagedObject) -> bool:
    """Whether only the statuses may differ: what was applied stands in both or in none."""
    if one.applied is None or one.applied != other.applied:
        return False
    mine, theirs = one.metadata, other.metadata
    return (
        mine.uid == theirs.uid
        and mine.deleting == theirs.deleting
        and mine.generation == theirs.generation
        and mine.labels == theirs.labels
        and mine.annotations == theirs.annotations
    )


class Mark(NamedTuple):
    """The registration and the cluster by which an object was written; empty: not known."""

    registration: str = ""
    """The UID of the MemberCluster."""
    cluster: str = ""
    """The UID of the member's kube-system."""

    def __str__(self) -> str:
        return "/".join(self)


def mark_of(found: ManagedObject) -> Mark:
    """Return the mark on an object; empty where it was written before there were marks."""
    registration, _, cluster = found.metadata.annotations.get(ANNOTATION_MEMBER, "").partition("/")
    return Mark(registration, cluster)


def hub_of(found: ManagedObject) -> str:
    """Return the mark of the hub that wrote the object; empty where there were no marks yet."""
    return found.metadata.annotations.get(ANNOTATION_HUB, "")


def hub_version_of(found: ManagedObject) -> int:
    """Return the Workload's resourceVersion that the object was last written for; 0: unknown."""
    return version_number(found.metadata.annotations.get(ANNOTATION_HUB_VERSION, "")) or 0


def version_number(version: str) -> int | None:
    """Return a resourceVersion as an integer to compare; None for one that is not a number."""
    short = len(version) <= _VERSION_DIGITS and version.isascii() and version.isdigit()
    return int(version) if short else None


def _bare(meta: Meta) -> Meta:
    return Meta(**{field: getattr(meta, field) for field in Meta.__struct_fields__})
