"""The objects that a plan starts from and those it applies, from files or from a hub.

The hub has admitted its objects; those of files go through `stowage.fleet.admission`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controller import catalogue
from controller.eventhandlers import known, read_anew
from controller.framework.runtime.feature import placed_kinds
from controller.model.objects import MemberCluster, Workload
from controller.model.placed import placed_key
from crds.admission.validation import rights_needed
from crds.faults import suggestion
from crds.names import API_VERSION, GROUP
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_KINDS, WORKLOADS, Resource
from machinery.clock import microtime
from machinery.errors import ConfigurationError, Forbidden, NotFound
from machinery.kinds.workloadkinds import WorkloadKind, reading_of, use_stored
from machinery.types.bounds import clean
from machinery.types.metadata import Key, Object
from stowage.fleet import admission, cluster_files
from stowage.fleet.manifests import Document
from stowage.hub import ObjectReader

Json = Mapping[str, Any]


@dataclass(slots=True)
class PlanInputs:
    """Clusters, Workloads, other objects, and notes for the user.

    `objects` are those of all kinds that features read, by kind and key. `stored` are the Workloads
    as JSON, so that an edit in a file can be laid over them.
    """

    clusters: list[MemberCluster] = field(default_factory=list)
    workloads: dict[Key, Workload] = field(default_factory=dict)
    objects: dict[tuple[str, Key], Object] = field(default_factory=dict)
    stored: dict[Key, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, workload: Workload, stored: Json) -> None:
        self.workloads[workload.metadata.key] = workload
        self.stored[workload.metadata.key] = stored


@dataclass(slots=True)
class PlanRequest:
    """The objects of the files: Workloads by key, and the keys of all placed ones, in order.

    `bodies` are the Workloads as JSON, `beside` the kinds and keys of our other objects, `others`
    the objects that are none of ours.
    """

    workloads: dict[Key, Workload] = field(default_factory=dict)
    bodies: dict[Key, Json] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    beside: list[tuple[str, Key]] = field(default_factory=list)
    others: list[Document] = field(default_factory=list)


def of_hub(api: ObjectReader) -> PlanInputs:
    """Return the objects of the hub. Raises ConfigurationError for a hub without our kinds."""
    found = PlanInputs()
    try:
        with suppress(NotFound, Forbidden):  # an older hub, or an older role
            for each in api.each(WORKLOAD_KINDS, WorkloadKind):
                found.objects[WORKLOAD_KINDS.kind, each.metadata.key] = each
        _read_by_kinds(found)
        found.clusters = [*api.each(MEMBER_CLUSTERS, MemberCluster)]
        for each in api.each(WORKLOADS, dict[str, Any]):
            found.add(known(msgspec.convert(each, Workload)), each)
        for kind in admission.Kinds(catalogue.features()):
            if kind.resource == WORKLOAD_KINDS:
                continue
            theirs = kind.resource.group != GROUP  # of a package whose kind may not be served
            with suppress(NotFound) if theirs else nullcontext():
                for known_as in api.each(kind.resource, kind.type_):
                    found.objects[kind.resource.kind, known_as.metadata.key] = known_as
    except NotFound as e:
        raise ConfigurationError(
            f"the hub does not know the kinds of {GROUP}: run stowage install first"
        ) from e
    return found


def use_kinds(found: PlanInputs) -> None:
    """Have the table of kinds follow the WorkloadKinds, and no others."""
    use_stored(each for each in found.objects.values() if isinstance(each, WorkloadKind))


def _read_by_kinds(found: PlanInputs) -> None:
    """Have the table of kinds follow the WorkloadKinds, and read the Workloads by it."""
    use_kinds(found)
    for key, each in found.workloads.items():
        found.workloads[key] = read_anew(each)


def kinds_of(documents: Sequence[Document]) -> list[WorkloadKind]:
    """Return the WorkloadKinds of files. Raises ConfigurationError for one that cannot be used."""
    kinds, found = admission.Kinds(catalogue.features()), []
    for document in documents:
        if document.of(GROUP, WORKLOAD_KINDS.kind) and (kind := kinds.of(document)) is not None:
            body = admission.admitted(document, namespace="", kind=kind)
            each = document.decoded(body, WorkloadKind)
            if fault := reading_of(each).fault:
                raise document.error(fault)
            found.append(each)
    return found


def one(api: ObjectReader, resource: Resource, namespace: str, name: str) -> Workload | None:
    """Return one object of the hub as a Workload; None for one that takes part in no decision.

    Raises NotFound.
    """
    if resource == WORKLOADS:
        body = api.read(WORKLOADS, name, namespace, dict[str, Any])
        return known(msgspec.convert(body, Workload))
    body = api.read(resource, name, namespace, dict[str, Any])
    placed = (kind for kind in placed_kinds(catalogue.features()) if kind.resource == resource)
    kind = next(placed, None)
    return None if kind is None else kind.read(msgspec.convert(body, kind.type_), known)


def of_fleet(documents: Sequence[Document], *, namespace: str) -> PlanInputs:
    """Return the clusters, Workloads with their status, and other objects of `--fleet` files.

    Raises ConfigurationError for a wrong object, and without any cluster.
    """
    found, once, others = PlanInputs(), _Once(), []
    kinds = admission.Kinds(catalogue.features())
    use_stored(kinds_of(documents))
    for document in documents:
        if document.of(GROUP, "Workload"):
            body = admission.admitted(document, namespace=namespace)
            given = document.body["metadata"]
            body["metadata"] |= {k: given[k] for k in given if k not in admission.USERS}
            body["status"] = document.body.get("status") or {}
            found.add(admission.workload(document, body), body)
        elif (kind := kinds.of(document)) is not None:
            _add(found, document, namespace if kind.resource.namespaced else "", kind)
        elif document.of(GROUP, "MemberCluster") or not document.kind:
            found.clusters.append(cluster_files.member(document))
        else:
            others.append(document)
            continue
        once.see(document, namespace)
    found.notes += ignored(others)
    if not found.clusters:
        raise ConfigurationError("no MemberCluster in the files of --fleet")
    return found


def to_apply(
    documents: Sequence[Document], present: PlanInputs, *, namespace: str, now: datetime
) -> PlanRequest:
    """Return the objects of the files, in their order, laid over `present`, which gets the others.

    New objects are the youngest of all, each younger than the one before it, because the queue
    sorts by age. A status in a file is ignored, as an apply ignores it. Raises ConfigurationError
    for a wrong object, and for one that the files hold twice.
    """
    found, once = PlanRequest(), _Once()
    kinds = admission.Kinds(catalogue.features())
    if new := kinds_of(documents):
        present.objects |= {(WORKLOAD_KINDS.kind, each.metadata.key): each for each in new}
        _read_by_kinds(present)
    for document in documents:
        if document.of(GROUP, "Workload"):
            body = _laid_over(document, present, namespace, now)
            workload = admission.workload(document, body)
            found.workloads[workload.metadata.key] = workload
            found.bodies[workload.metadata.key] = body
            found.keys.append(workload.metadata.key)
            now += timedelta(microseconds=1)
        elif (kind := kinds.of(document)) is not None:
            if kind.resource != WORKLOAD_KINDS:  # these came first
                _replace(present, document, namespace, now, kind)
            before = found.workloads.keys() - present.stored.keys()
            present.notes += _too_late(document, before, namespace)
            if kind.placed is not None:
                key = admission.key_of(document, namespace)
                found.keys.append(placed_key(kind.placed.resource, *key))
            else:
                found.beside.append((document.kind, admission.key_of(document, namespace)))
            now += timedelta(microseconds=1)
        else:
            found.others.append(document)
            continue
        once.see(document, namespace)
    _refuse_unknown(found.others, kinds)
    if documents and not (found.keys or found.beside):
        raise _nothing(documents)
    return found


def _refuse_unknown(others: Sequence[Document], kinds: admission.Kinds) -> None:
    """Raise ConfigurationError for an object of our group whose kind there is not, or of none."""
    for document in others:
        version = str(document.body.get("apiVersion") or "")
        if not document.kind:
            raise ConfigurationError(f"{document.at}: kind: Required value")
        if document.of(GROUP, "MemberCluster"):
            continue
        known = {"Workload", "MemberCluster", *(kind.resource.kind for kind in kinds)}
        meant = suggestion(document.kind, known)
        if version.partition("/")[0] == GROUP or (not version and meant):
            raise ConfigurationError(
                f'{document.at}: no matches for kind "{clean(document.kind)}" in version '
                f'"{clean(version) or API_VERSION}"{meant}'
            )


def _nothing(documents: Sequence[Document]) -> ConfigurationError:
    """Return the fault of files that hold nothing of ours: an apply of them would place nothing."""
    first = documents[0]
    more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
    return ConfigurationError(
        f"{first.at}: no Workload in these files: found {clean(first.kind)} {clean(first.name)}"
        f"{more}; `stowage wrap -f` makes Workloads of such objects"
    )


def _too_late(document: Document, before: Collection[Key], namespace: str) -> Iterator[str]:
    """Yield a note if an object targets one of the new Workloads `before` it.

    A placed Workload does not move for an object that is applied later.
    """
    spec = document.body.get("spec")
    target = spec.get("targetRef") if isinstance(spec, Mapping) else None
    if not isinstance(target, Mapping):
        return
    space, name = admission.key_of(document, namespace)
    if (space, target.get("name")) in before:
        what = f"{document.kind} {name}"
        yield (
            f"{space}/{target['name']}: {what} stands behind it; apply {what} first, as a Workload "
            "that is placed already stays where it is"
        )


def ignored(documents: Sequence[Document]) -> list[str]:
    """Return one note that names these objects; none without any."""
    if not documents:
        return []
    named = ", ".join(
        f"{each.kind or 'an object without a kind'} {each.name}" for each in documents
    )
    return [f"ignored, as it has no say in this: {named}"]


class _Once:
    """Refuses an object that the files hold twice."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, Key], str] = {}

    def see(self, document: Document, namespace: str) -> None:
        key = admission.key_of(document, namespace)
        kind = document.kind or "MemberCluster"
        if kind == "MemberCluster":
            key = ("", str(document.name or document.body.get("name")))
        before = self._places.setdefault((kind, key), document.place)
        if before != document.place:
            name = "/".join(filter(None, key))
            raise document.error(f"metadata.name: {name} is in {before} already")


def _laid_over(
    document: Document, present: PlanInputs, namespace: str, now: datetime
) -> dict[str, Any]:
    key = admission.key_of(document, namespace)
    before, created = present.stored.get(key), microtime(now)
    body = admission.admitted(document, namespace=namespace, created=created, before=before)
    for right in rights_needed(body):
        said = f"the right to {right} ({right.field})"
        present.notes.append(f"{'/'.join(key)}: {said} is not looked at")
    return body


def _add(
    found: PlanInputs, document: Document, namespace: str, kind: admission.AdmittedKind
) -> None:
    given = document.body.get("metadata") or {}
    created = str(given.get("creationTimestamp") or "")
    body = admission.admitted(document, namespace=namespace, created=created, kind=kind)
    body["metadata"] |= {k: v for k, v in given.items() if k not in admission.USERS}
    body["status"] = document.body.get("status") or {}
    key = (document.kind, admission.key_of(document, namespace))
    found.objects[key] = _decoded(document, body, kind)


def _replace(
    present: PlanInputs,
    document: Document,
    namespace: str,
    now: datetime,
    kind: admission.AdmittedKind,
) -> None:
    """Lay an object of a file over the one in `present`, which keeps its identity and status."""
    key = (document.kind, admission.key_of(document, namespace))
    there = present.objects.get(key)
    before: dict[str, Any] | None = msgspec.to_builtins(there) if there is not None else None
    created = there.metadata.creation_timestamp if there is not None else microtime(now)
    body = admission.admitted(
        document, namespace=namespace, created=created, before=before, kind=kind
    )
    if before is not None:
        body["metadata"] = {**before["metadata"], **body["metadata"]}
    body["status"] = before.get("status", {}) if before is not None else {}
    present.objects[key] = _decoded(document, body, kind)


def _decoded(document: Document, body: Json, kind: admission.AdmittedKind) -> Object:
    """Return the object. Raises ConfigurationError, also if its feature cannot read it."""
    found = document.decoded(body, kind.type_)
    if kind.placed is not None:
        try:
            read = kind.placed.read(found, known)
        except Exception as e:  # a feature of another package may raise anything
            raise document.error(f"it cannot be read: {type(e).__name__}: {e}") from e
        if read is not None and read.fault:
            raise document.error(read.fault)
    return found
