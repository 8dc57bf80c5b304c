"""The kept form of an object of ours on a member, and whether it is as our last apply left it.

One struct serves every kind. Fields that no part reads are dropped.

Our managedFields entry shrinks when, and only when, another manager takes a field. Kept are a
number over its paths, and which paths have others below: the server merges some maps and lists, and
owns others as a whole. An empty merged list has no entry: each process re-applies it once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from crds.fields.shares import MOST_FIELDS
from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_MEMBER,
    ANNOTATION_SINCE,
    FIELD_MANAGER,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD_UID,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
    Edits,
)
from machinery.api.resources import Resource
from machinery.api.responses import shaped
from machinery.clock import stored_time
from machinery.kinds.fieldpaths import told
from machinery.kinds.paths import value_at
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import Judged, fields_of, judge, of_same_template, reads_whole
from machinery.kinds.table import profile_of
from machinery.kinds.templates import (
    MOST_ELEMENTS,
    Place,
    at_place,
    first_ordinal,
    label_places,
    labelled_places,
    pods_each,
)
from machinery.types.bounds import CONDITIONS, MESSAGE, NAME, clean
from machinery.types.metadata import Key, Meta, Object, shared
from propagator.members.capacity.kept import PodLabels
from propagator.members.sanitize import check_metadata, is_label_value, load_balancer

_REVISION = "deployment.kubernetes.io/revision"
"""Set by the Deployment controller. Only it knows that it gave a rollout up."""
_FAILURE, _CREATE = "ReplicaFailure", "FailedCreate"
ANNOTATION_TOLD = "stowage.dev/status-fields"
"""The paths of `spec.statusFields` of the object, by name, as JSON: read when it arrives."""
_VERSION_DIGITS = 19
"""A resourceVersion is a number of 64 bits."""


class Refused(NamedTuple):
    """That its own controller may not make pods, since when, and the member's words."""

    since: datetime
    words: str


class ManagedObject(Object, frozen=True):
    judged: Judged = Judged()
    load_balancer: dict[str, Any] | None = None
    applied: FieldPrint | None = None
    """The fields that our last apply still owns."""
    rivals: tuple[str, ...] = ()
    pods_uid: str | None = None
    """The label `stowage.dev/workload-uid` in its pod templates, empty without one. None if the
    kind's pod template is unknown, unless it has the label where earlier releases set it.
    """
    pods_labels: tuple[tuple[Place, tuple[tuple[str, str], ...]], ...] = ()
    """Our labels in its pod templates by their place, where `pods_uid` does not tell them all."""
    pods_templates: tuple[str, ...] = ()
    """The digests of its pod templates, of a kind whose pods outlive an edit of them."""
    pods_each: int = 1
    """The pods of one of its replicas, or of the whole object."""
    start: int | None = None
    """The first ordinal in its spec; None for a kind without ordinals."""
    fields: tuple[tuple[str, str], ...] = ()
    """The values of its status that the Workload wants to be told, by the names it gave them."""
    pod_labels: PodLabels | None = None
    """The labels of its pod template; None if the kind's pod template is unknown."""
    refused: Refused | None = None

    @property
    def replicas(self) -> int | None:
        """The number in its spec; None for a kind that does not scale."""
        return self.judged.replicas


class _WireMeta(Meta, frozen=True, rename="camel"):
    managed_fields: list[ManagedFieldsEntry] = msgspec.field(default_factory=list)


class Wire(Object, frozen=True):
    """The decoded form; `slim` converts it at once."""

    metadata: _WireMeta = msgspec.field(default_factory=_WireMeta)
    status: Any = None
    """A mapping; any other value of a custom kind counts as empty."""


class _WireWithSpec(Wire, frozen=True):
    spec: Any = None


def wire_of(resource: Resource) -> type[Wire]:
    profile = profile_of(resource.api_version, resource.kind)
    return _WireWithSpec if reads_whole(profile) else Wire


def managed(resource: Resource, answer: Mapping[str, Any]) -> ManagedObject:
    """Raises TransportError."""
    return slim(resource, shaped(answer, wire_of(resource)))


def slim(resource: Resource, found: Wire | ManagedObject) -> ManagedObject:
    """Raises TooMuch for more metadata than an object can have."""
    if isinstance(found, ManagedObject):
        return found
    check_metadata(found.metadata)
    entries = found.metadata.managed_fields
    profile = profile_of(resource.api_version, resource.kind)
    status = found.status if isinstance(found.status, dict) else {}
    body = {"spec": None, "status": status}
    if isinstance(found, _WireWithSpec):
        body = {"spec": found.spec, "status": status, "metadata": _seen(found.metadata)}
    judged = judge(
        profile, body, generation=found.metadata.generation, deleting=found.metadata.deleting
    )
    return ManagedObject(
        metadata=_own(found.metadata),
        kind=resource.kind,  # the items of a list come without theirs
        api_version=resource.api_version,
        judged=_shared(judged),
        load_balancer=load_balancer(status.get("loadBalancer")),
        applied=print_of(entries, resource.kind),
        rivals=rivals_of(entries),
        pods_uid=_pods_uid(profile, body),
        pods_labels=_pods_labels(profile, body),
        pods_templates=_pods_templates(profile, body),
        pods_each=pods_each(profile, body),
        start=first_ordinal(profile, body) if profile.ordered else None,
        pod_labels=_pod_labels(profile, body),
        refused=_refused(status.get("conditions")),
        fields=_fields(profile, found.metadata.annotations.get(ANNOTATION_TOLD, ""), body),
    )


def _fields(profile: Profile, asked: str, body: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The member could write any annotation: what it may tell is bounded here."""
    paths: dict[str, str] = {}
    if asked:
        with suppress(msgspec.DecodeError):
            paths = msgspec.json.decode(asked, type=dict[str, str])
    said = {name: told(body, path) for name, path in itertools.islice(paths.items(), MOST_FIELDS)}
    said = {
        each: value for each, value in fields_of(profile, body).items() if each not in paths
    } | said
    return tuple((shared(name), value) for name, value in said.items() if value)


def after(before: ManagedObject | None, now: ManagedObject) -> ManagedObject:
    if before is None or not before.judged.given_up or before.metadata.uid != now.metadata.uid:
        return now
    was, is_ = (each.metadata.annotations.get(_REVISION) for each in (before, now))
    if was != is_:
        return now
    judged = of_same_template(before.judged, now.judged)
    return msgspec.structs.replace(now, judged=_shared(judged))


def _refused(conditions: Any) -> Refused | None:
    """Read the condition by which a ReplicaSet, and what is made like one, tells of a refusal."""
    for each in conditions[:CONDITIONS] if isinstance(conditions, list) else ():
        if not isinstance(each, dict) or each.get("type") != _FAILURE:
            continue
        reason, words = each.get("reason"), each.get("message")
        if each.get("status") != "True" or not isinstance(reason, str):
            continue
        if not reason.startswith(_CREATE) or not isinstance(words, str):
            continue
        since = each.get("lastTransitionTime")
        moment = stored_time(since) if isinstance(since, str) else None
        return Refused(moment, shared(clean(words, MESSAGE))) if moment is not None else None
    return None


def _seen(meta: Meta) -> dict[str, Any]:
    """Return the metadata that an expression may read."""
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "generation": meta.generation,
        "labels": meta.labels,
        "annotations": meta.annotations,
    }


def _pods_uid(profile: Profile, body: Mapping[str, Any]) -> str | None:
    place = next(iter(label_places(profile, body)), None)
    if place is None:
        return "" if profile.known and profile.pods else None
    labels = at_place(body, place)
    uid = labels.get(LABEL_WORKLOAD_UID, "") if isinstance(labels, Mapping) else ""
    if not isinstance(uid, str) or not is_label_value(uid):
        uid = ""
    return shared(uid) if uid or profile.known else None


_OURS = (LABEL_WORKLOAD_UID, LABEL_TEMPLATE)


def _pods_labels(
    profile: Profile, body: Mapping[str, Any]
) -> tuple[tuple[Place, tuple[tuple[str, str], ...]], ...]:
    """Those of a kind whose profile is another one than when it was made, or is gone."""
    if profile.known and (profile.pod_path or not profile.pods):
        return ()
    places = label_places(profile, body)
    if not profile.known:
        found = [*itertools.islice(labelled_places(body, LABEL_WORKLOAD_UID), MOST_ELEMENTS)]
        return () if found == places else tuple((each, _ours(body, each)) for each in found)
    said = [(each, _ours(body, each)) for each in places]
    alike = len({dict(ours).get(LABEL_WORKLOAD_UID) for _, ours in said}) < 2
    return () if alike else tuple(said)


def _ours(body: Any, place: Place) -> tuple[tuple[str, str], ...]:
    labels = at_place(body, place)
    pairs = ((each, labels.get(each)) for each in _OURS) if isinstance(labels, Mapping) else ()
    return tuple((k, shared(v)) for k, v in pairs if isinstance(v, str) and is_label_value(v))


def _pods_templates(profile: Profile, body: Mapping[str, Any]) -> tuple[str, ...]:
    if profile.edits is not Edits.NEW_PODS:
        return ()
    labels = (at_place(body, place) for place in label_places(profile, body))
    found = (each.get(LABEL_TEMPLATE) for each in labels if isinstance(each, Mapping))
    return tuple(shared(each) for each in found if isinstance(each, str) and is_label_value(each))


def _pod_labels(profile: Profile, body: Mapping[str, Any]) -> PodLabels | None:
    """Raises TooMuch for more labels than an object can have."""
    if not profile.pod_path:
        return None
    found = value_at(body, f"{profile.pod_path}.metadata.labels")
    pairs = found.items() if isinstance(found, dict) else ()
    labels = {key: text for key, text in pairs if isinstance(text, str)}
    check_metadata(Meta(labels=labels))
    return tuple((shared(key), shared(text)) for key, text in labels.items())


@lru_cache(maxsize=4096)
def _shared(judged: Judged) -> Judged:
    """Most objects of a kind have the same."""
    return judged


def owners(metadata: Meta) -> dict[str, Key]:
    """Return the owning Workloads by UID: {uid: (namespace, name)}.

    Values other than `namespace/name` are not ours, and are skipped.
    """
    found: dict[str, Key] = {}
    for annotation, value in metadata.annotations.items():
        namespace, slash, name = value.partition("/")
        if annotation.startswith(OWNER_PREFIX) and slash and namespace and name:
            found[annotation.removeprefix(OWNER_PREFIX)] = (namespace, name)
    return found


def orphan_marks(metadata: Meta) -> set[str]:
    """Return the UIDs of Workloads that leave, or left, the object behind when deleted."""
    keys = (key for key in metadata.annotations if key.startswith(ORPHAN_PREFIX))
    return {key.removeprefix(ORPHAN_PREFIX) for key in keys}


def stands_alike(one: ManagedObject, other: ManagedObject) -> bool:
    """Whether at most the statuses differ."""
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
    """The registration and the cluster that an object was written through; empty if unknown."""

    registration: str = ""
    """The UID of the MemberCluster."""
    cluster: str = ""
    """The UID of the member's kube-system."""

    def __str__(self) -> str:
        return "/".join(self)

    @staticmethod
    def of(metadata: Meta) -> Mark:
        """Empty for an object of a release without marks."""
        registration, _, cluster = metadata.annotations.get(ANNOTATION_MEMBER, "").partition("/")
        return Mark(registration, cluster)


def mark_of(found: ManagedObject) -> Mark:
    return Mark.of(found.metadata)


def hub_of(found: ManagedObject) -> str:
    """Empty for an object of a release without marks."""
    return found.metadata.annotations.get(ANNOTATION_HUB, "")


def hub_version_of(found: ManagedObject) -> int:
    """Return the Workload's version of the last apply; 0 if unknown."""
    return version_number(found.metadata.annotations.get(ANNOTATION_HUB_VERSION, "")) or 0


def written_since(found: ManagedObject) -> list[str]:
    """Return the restores of the hub after which the object was written last."""
    return found.metadata.annotations.get(ANNOTATION_SINCE, "").split(",")


def version_number(version: str) -> int | None:
    """None if the version is not a number."""
    short = len(version) <= _VERSION_DIGITS and version.isascii() and version.isdigit()
    return int(version) if short else None


def _own(meta: _WireMeta) -> Meta:
    """Drop marks that a controller copied from its own object, as KServe does."""
    bare = Meta(**{field: getattr(meta, field) for field in Meta.__struct_fields__})
    made = any(owner.controller for owner in meta.owner_references)
    if not made or any(is_ours(entry) for entry in meta.managed_fields):
        return bare
    marks = (OWNER_PREFIX, ORPHAN_PREFIX)
    own = {key: text for key, text in meta.annotations.items() if not key.startswith(marks)}
    return msgspec.structs.replace(bare, annotations=own)


_MASK = 2**64 - 1
_ITEM = "[]"
_NOT_COMPARED = ("apiVersion", "kind", "metadata")
"""Labels and annotations are compared by value: an object may have those of several owners."""
_SERVERS = ("f:metadata", "f:status")
_MOST_MERGED = 500
"""An object with more nested paths gets no print; a Deployment has 30."""
_MOST_RIVALS = 5


class ManagedFieldsEntry(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    api_version: str = ""
    time: str = ""
    fields: Any = msgspec.field(default=None, name="fieldsV1")


class FieldPrint(NamedTuple):
    """A number over the paths of our entry, and the paths that have others below them."""

    number: int
    merged: frozenset[int]


def print_of(entries: list[ManagedFieldsEntry], kind: str) -> FieldPrint | None:
    """None without an apply of ours, or if it is too large."""
    ours = [entry for entry in entries if is_ours(entry)]
    if not ours:
        return None
    number, merged = 0, set()
    for entry in ours:
        for path, has_more in _owned(entry, kind):
            if has_more:
                merged.add(path)
            else:
                number += path
    if len(merged) > _MOST_MERGED:
        return None
    return FieldPrint(number & _MASK, _shared_paths(frozenset(merged)))


def print_of_body(body: Mapping[str, Any], merged: frozenset[int]) -> int:
    """Return the number that our entry has right after an apply of that body."""
    compared = {key: value for key, value in body.items() if key not in _NOT_COMPARED}
    todo: list[tuple[int, Any]] = []
    if compared:  # an object may be nothing but its name
        todo.append((_root(body["apiVersion"], body["kind"]), compared))
    number = 0
    while todo:
        path, value = todo.pop()
        if isinstance(value, Mapping) and value and path in merged:
            todo += [(_below(path, str(key)), inner) for key, inner in value.items()]
        elif isinstance(value, list) and value and path in merged:
            item = _below(path, _ITEM)
            number += item * len(value)
            for inner in value:
                if isinstance(inner, Mapping):
                    todo += [(_below(item, str(key)), each) for key, each in inner.items()]
        else:
            number += path
    return number & _MASK


def rivals_of(entries: list[ManagedFieldsEntry]) -> tuple[str, ...]:
    """Without managers of metadata and status only."""
    names = {
        clean(f"{each.manager} ({each.subresource})" if each.subresource else each.manager, NAME)
        for each in entries
        if not is_ours(each)
        and isinstance(each.fields, dict)
        and any(key not in _SERVERS for key in each.fields)
    }
    return _shared_names(tuple(sorted(names)[:_MOST_RIVALS]))


def is_ours(entry: ManagedFieldsEntry) -> bool:
    return (entry.manager, entry.operation, entry.subresource) == (FIELD_MANAGER, "Apply", "")


def _owned(entry: ManagedFieldsEntry, kind: str) -> Iterator[tuple[int, bool]]:
    """Yield each path that the entry owns, and each on the way there (True)."""
    fields = entry.fields if isinstance(entry.fields, dict) else {}
    compared = {key: value for key, value in fields.items() if key != "f:metadata"}
    todo: list[tuple[int, Any]] = [(_root(entry.api_version, kind), compared)]
    while todo:
        path, node = todo.pop()
        if not isinstance(node, dict):
            continue
        yield path, True
        for key, below in node.items():
            mark, _, name = key.partition(":")
            if mark == ".":
                continue  # the item itself is owned, with fields in it: it counts below
            inner = _below(path, name if mark == "f" else _ITEM)
            if mark != "f" or not below:
                yield inner, False
            if below:
                todo.append((inner, below))


def _root(api_version: str, kind: str) -> int:
    return hash((api_version, kind)) & _MASK


def _below(path: int, name: str) -> int:
    return hash((path, name)) & _MASK


@lru_cache(maxsize=1024)
def _shared_paths(merged: frozenset[int]) -> frozenset[int]:
    """Objects of one shape share theirs."""
    return merged


@lru_cache(maxsize=1024)
def _shared_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names
