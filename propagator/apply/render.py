"""Renders the objects of one Workload on one cluster, in the order of their waves. Pure.

A template passes through whole. Changed are only: the namespace (manifests may name their own,
which admission and the member's rule have judged), the name where none is given, the number of
replicas, a StatefulSet's first ordinal, the label and the owner annotation by which objects of ours
are found again, the label `stowage.dev/workload-uid` on pods, which an object that exists already
keeps as it has it (`beside`), and a schedulerName that is the hub's own. Fields that only a server
writes (status, uid, resourceVersion …) are left out, and so are all labels and annotations that are
ours: a template must not pass for another Workload's object. Before all this come what differs on
the cluster: the author's overrides, then the patch of the share's subset over the pod template,
then the cluster's own images. An object that names the PriorityClass of placeholders, and is no
placeholder, is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from crds.admission.placeholder import CLASS_TEXT, named
from crds.admission.reserved import strip
from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_MEMBER,
    DEFAULT_SCHEDULER,
    LABEL_MANAGED,
    LABEL_WORKLOAD_UID,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
)
from machinery.kinds.paths import InvalidTemplate, set_at, steps, value_at, without
from machinery.kinds.profile import Profile
from machinery.kinds.scalers import refuse_scaler
from machinery.kinds.table import profile_in
from machinery.kinds.templates import check, labelled_path, made_of
from machinery.kinds.templates import first_ordinal as start_in
from machinery.overrides.images import rewrite
from machinery.overrides.override import (
    ClusterOverride,
    OverrideMisfit,
    UnreadableOverrides,
    check_selector,
    matching,
    overridden,
)
from machinery.overrides.variables import ClusterFacts
from machinery.types.api import ImageRule
from machinery.types.bounds import MESSAGE, clean
from machinery.types.strategic_merge import merge
from propagator.members.objects import ManagedObject
from propagator.types.hub_objects import HubSecret
from propagator.types.overrides import NOTHING, Override
from propagator.types.workload import Workload

ANNOTATION_HASH = "stowage.dev/applied-hash"
"""The annotation on every object of ours with the digest of what was last applied."""
ANNOTATION_TEMPLATE_HASH = "stowage.dev/template-hash"
"""The annotation with the digest that it would have without the images of its cluster, where these
change it."""
ANNOTATION_MADE = "stowage.dev/made-of"
"""The annotation with the digest of what the Workload said of the parts that stay as made."""
ANNOTATION_SUSPEND = "stowage.dev/suspend"
"""The annotation with what the Workload said last of the suspension."""

ORDINALS = "spec.ordinals.start"
"""Where earlier releases set the first ordinal, whatever the group of a StatefulSet."""
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What code raises that meets something else than it was written for."""
_SERVERS_OWN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "finalizers",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One object to be applied. `shared`: several Workloads of a namespace may own it together."""

    api_version: str
    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any]
    digest: str
    shared: bool = False
    main: bool = False
    template_digest: str = ""
    """The digest without the images of the cluster."""
    subset: str = ""
    """The subset whose patch lies over its pod template."""
    fixed: tuple[str, ...] = ()
    """The paths of what an object that stands keeps as it was made."""
    ended: bool = False
    """Whether the share has ended: the object keeps its form, whatever is wanted by now."""


class PatchMisfit(ValueError):
    """A patch does not go with the Workload's template; the message names the field."""


class ForeignClass(PatchMisfit):
    """An object that is no placeholder names their PriorityClass; the message says which one."""


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """What is known of the member that is written to."""

    facts: ClusterFacts
    images: Sequence[ImageRule] = ()
    hub: str = ""
    mark: str = ""
    """The marks that each object carries, of the hub and of the member."""


@dataclass(frozen=True, slots=True)
class _Differences:
    """The author's overrides on one cluster, and the cluster's images."""

    overrides: Sequence[ClusterOverride]
    member: MemberFacts

    def laid(
        self, body: dict[str, Any], *, main: bool = False, name: str = "", replicas_path: str = ""
    ) -> dict[str, Any]:
        """Return an object with its overrides laid over it. Raises OverrideMisfit."""
        kind = str(body.get("kind"))
        about = (kind, name or (body.get("metadata") or {}).get("name"))
        mine = [
            each
            for each in self.overrides
            if (main if each.target is None else (each.target.kind, each.target.name) == about)
        ]
        pods = steps(profile_in(body).pod_path)
        facts = self.member.facts
        return overridden(body, mine, facts, pods=pods, replicas_path=replicas_path)


def render(
    workload: Workload,
    *,
    replicas: int,
    first_ordinal: int | None,
    secrets: Sequence[HubSecret],
    member: MemberFacts,
    override: Override = NOTHING,
    ended: bool = False,
) -> list[Piece]:
    """Return every object of a Workload on one cluster, Secrets first and the template last.

    `first_ordinal` is that of this cluster, None for the template's own; `override` is the
    difference of its share; `ended` says that its end is stored, so that its object may be
    forgotten. Raises PatchMisfit, OverrideMisfit and
    UnreadableOverrides, and InvalidTemplate for any other fault.
    """
    try:
        return _rendered(workload, replicas, first_ordinal, secrets, member, override, ended)
    except (InvalidTemplate, PatchMisfit, OverrideMisfit, UnreadableOverrides):
        raise
    except _FAULTS as e:
        said = clean(f"{type(e).__name__}: {e}", MESSAGE)
        raise InvalidTemplate(f"spec: its objects cannot be made of it ({said})") from e


def _rendered(
    workload: Workload,
    replicas: int,
    first_ordinal: int | None,
    secrets: Sequence[HubSecret],
    member: MemberFacts,
    override: Override,
    ended: bool,
) -> list[Piece]:
    differences = _Differences(matching(workload.cluster_overrides, member.facts.labels), member)
    pieces = [_piece(workload, secret_body(secret), shared=True) for secret in secrets]
    pieces += [_manifest(workload, differences, body) for body in workload.manifests]
    if service := workload.target_service:
        named = (service.get("metadata") or {}).get("name") or workload.metadata.name
        pieces.append(_piece(workload, _bare(differences.laid(service, name=named))))
    body = _main(workload, replicas, first_ordinal, override, differences)
    end = workload.profile.ended
    if end is not None and end.ttl and not ended:
        body = dict(without(body, steps(end.ttl)))
    # Most templates are not read for it.
    made = made_of(workload.profile, workload.template) if workload.profile.immutable else ""
    main = _piece(workload, body, images=member.images, main=True, made=made)
    where = workload.profile.replicas
    if where is not None and member.facts.name in workload.parts:
        main = replace(main, fixed=(*main.fixed, where.total))
    for each in pieces:
        refuse_scaler(f"{each.kind} {each.name}", each.body, main.kind, main.name)
    pieces.append(replace(main, subset=override.subset if override.patch else ""))
    if not workload.keeps_room:
        for piece in pieces:
            _refuse_class(piece)
    return [_marked(piece, member) for piece in pieces]


def copied(
    workload: Workload, bodies: Iterable[dict[str, Any]], member: MemberFacts
) -> list[Piece]:
    """Return objects of the hub that go along as they are; several Workloads may own each."""
    return [_marked(_piece(workload, body, shared=True), member) for body in bodies]


def secret_body(secret: HubSecret) -> dict[str, Any]:
    """Return the Secret for a member: the same for each Workload that brings it along."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret.metadata.name},
        "type": secret.type,
        "data": dict(secret.data),
    }
    return body | ({"immutable": True} if secret.immutable else {})


def _refuse_class(piece: Piece) -> None:
    # At any depth: the fields that hold the pods of a custom kind are not known.
    if named(piece.body):
        raise ForeignClass(f"{piece.kind} {piece.name}: {CLASS_TEXT}")


def _marked(piece: Piece, member: MemberFacts) -> Piece:
    """Return the piece with the marks of hub and member, which its digest leaves out."""
    said = ((ANNOTATION_HUB, member.hub), (ANNOTATION_MEMBER, member.mark))
    marks = {key: mark for key, mark in said if mark}
    if not marks:
        return piece
    meta = piece.body["metadata"]
    annotations = {**meta["annotations"], **marks}
    return replace(piece, body={**piece.body, "metadata": {**meta, "annotations": annotations}})


def _main(
    workload: Workload,
    replicas: int,
    first_ordinal: int | None,
    override: Override,
    differences: _Differences,
) -> dict[str, Any]:
    profile = workload.profile
    path, part = profile.replicas_path, workload.parts.get(differences.member.facts.name)
    template = differences.laid(workload.template, main=True, replicas_path=path)
    check(profile, template)
    if override.patch:
        _patch_pods(template, profile, override)
    body = _bare(template)
    if path:
        set_at(body, path, replicas if part is None else min(replicas, part))
    if part is not None and profile.replicas is not None:
        set_at(body, profile.replicas.total, part)
    if path:
        # A kind that has them no more keeps those that it was given.
        ordinals = (profile.replicas and profile.replicas.ordinals) or ORDINALS
        if first_ordinal or (first_ordinal == 0 and profile.ordered and value_at(body, ordinals)):
            set_at(body, ordinals, first_ordinal)
    _mark_pods(body, profile, workload.uid)
    return body


def _patch_pods(body: dict[str, Any], profile: Profile, override: Override) -> None:
    """Lay the patch over the pod template, and check that the object still selects its pods."""
    kind, path = profile.kind, steps(profile.pod_path)
    if not path:
        raise PatchMisfit(f"a {kind} has no pod template that is known")
    holder = _inner(body, path[:-1])
    template = holder.get(path[-1]) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or not isinstance(template, dict):
        raise PatchMisfit(f"{profile.pod_path} of the {kind} is missing")
    try:
        holder[path[-1]] = merge(template, override.merge_patch())
        check_selector(holder, path[-1:])
    except ValueError as e:
        raise PatchMisfit(str(e)) from e


def _inner(body: Any, path: Sequence[str]) -> Any:
    for part in path:
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _mark_pods(body: dict[str, Any], profile: Profile, uid: str) -> None:
    pods = value_at(body, labelled_path(profile, body))
    if not isinstance(pods, dict):
        return
    if profile.known:
        meta = pods["metadata"] = pods.get("metadata") or {}
        meta.pop("creationTimestamp", None)
        meta["labels"] = {**(meta.get("labels") or {}), LABEL_WORKLOAD_UID: uid}
    spec = pods.get("spec")
    if isinstance(spec, dict) and spec.get("schedulerName") == DEFAULT_SCHEDULER:
        del spec["schedulerName"]  # the hub's scheduler; a member has none of that name


def beside(piece: Piece, live: ManagedObject) -> Piece:
    """Return the piece as it may be laid over the object in its place, whoever made that.

    Its pods keep their numbers, and have the label that they have, or have not: another number or
    label would restart those of an object that was taken over.
    """
    return _with_start(_with_label(piece, live), live) if piece.main else piece


def _with_start(piece: Piece, live: ManagedObject) -> Piece:
    profile = profile_in(piece.body)
    where = profile.replicas
    if live.start is None or where is None or live.start == start_in(profile, piece.body):
        return piece
    *above, last = steps(where.ordinals)
    ordinals = {**(value_at(piece.body, ".".join(above)) or {}), last: live.start}
    return _changed(piece, _with(piece.body, above, ordinals), start=live.start)


def _with_label(piece: Piece, live: ManagedObject) -> Piece:
    label = live.pods_uid
    if label is None:
        return piece
    holder = labelled_path(profile_in(piece.body), piece.body)
    pods = value_at(piece.body, holder)
    if not isinstance(pods, dict):
        return piece
    path, meta = (*steps(holder), "metadata"), pods.get("metadata") or {}
    labels = meta.get("labels") or {}
    if labels.get(LABEL_WORKLOAD_UID, "") == label:
        return piece
    others = {key: value for key, value in labels.items() if key != LABEL_WORKLOAD_UID}
    labels = {**others, LABEL_WORKLOAD_UID: label} if label else others
    bare = {key: value for key, value in meta.items() if key != "labels"}
    body = _with(piece.body, path, {**bare, "labels": labels} if labels else bare)
    return _changed(piece, body, label=label)


def _changed(piece: Piece, body: dict[str, Any], **what: Any) -> Piece:
    """Return the piece with another body; its digests say what is other in it."""
    digest, template_digest = (
        _digest({"digest": each, **what}) for each in (piece.digest, piece.template_digest)
    )
    annotations = {**body["metadata"]["annotations"], ANNOTATION_HASH: digest}
    if ANNOTATION_TEMPLATE_HASH in annotations:
        annotations[ANNOTATION_TEMPLATE_HASH] = template_digest
    body = _with(body, ("metadata", "annotations"), annotations)
    return replace(piece, body=body, digest=digest, template_digest=template_digest)


def applied_of(live: ManagedObject) -> str:
    """Return the digest of what was last applied there, without the images of its cluster."""
    annotations = live.metadata.annotations
    return annotations.get(ANNOTATION_TEMPLATE_HASH) or annotations.get(ANNOTATION_HASH, "")


def _with(body: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of the body with another value at the path."""
    inner = _with(body.get(path[0]) or {}, path[1:], value) if path[1:] else value
    return {**body, path[0]: inner}


def _manifest(workload: Workload, differences: _Differences, manifest: dict[str, Any]) -> Piece:
    made = made_of(profile_in(manifest), manifest)
    body = _bare(differences.laid(manifest))
    namespace = body["metadata"].get("namespace") or ""
    images = differences.member.images
    return _piece(workload, body, images=images, namespace=namespace, made=made)


def _piece(
    workload: Workload,
    body: dict[str, Any],
    *,
    images: Sequence[ImageRule] = (),
    namespace: str = "",
    shared: bool = False,
    main: bool = False,
    made: str = "",
) -> Piece:
    """Return an object; `made` is the digest of what the Workload says of its fixed parts."""
    profile = profile_in(body)
    meta = body["metadata"]
    meta["name"] = meta.get("name") or workload.metadata.name
    meta["namespace"] = namespace or workload.namespace
    meta["labels"] = {**(meta.get("labels") or {}), LABEL_MANAGED: "true"}
    template_digest = digest = _digest(_changeable(body, profile, made))
    if images:
        rewrite(body, images)
        digest = _digest(_changeable(body, profile, made))
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        OWNER_PREFIX + workload.uid: workload.owner,
        ANNOTATION_HASH: digest,
    }
    if digest != template_digest:
        meta["annotations"][ANNOTATION_TEMPLATE_HASH] = template_digest
    if made:
        meta["annotations"][ANNOTATION_MADE] = made
    if (suspend := value_at(body, profile.suspended)) is not None:
        meta["annotations"][ANNOTATION_SUSPEND] = str(suspend).lower()
    if workload.orphans:
        meta["annotations"][ORPHAN_PREFIX + workload.uid] = "true"
    return Piece(
        api_version=body["apiVersion"],
        kind=body["kind"],
        namespace=meta["namespace"],
        name=meta["name"],
        body=body,
        digest=digest,
        shared=shared,
        main=main,
        template_digest=template_digest,
        fixed=profile.immutable if made else (),
    )


def _changeable(body: Mapping[str, Any], profile: Profile, made: str) -> Mapping[str, Any]:
    """Return what an object that stands may be changed to: what its digest is made of."""
    for path in profile.immutable if made else ():
        body = without(body, steps(path))
    return {"made": made, **body} if made else body


def as_made(piece: Piece, live: ManagedObject, found: Mapping[str, Any]) -> Piece:
    """Return the piece with the form in which the object in its place was made.

    What a cluster or an override makes of it later changes nothing that runs. Parts of which the
    Workload itself says another thing now are left as they are asked for, so that the member's
    refusal names them. A suspension that somebody lifted, or set, stays until the Workload says
    another.
    """
    said, notes = live.metadata.annotations, piece.body["metadata"]["annotations"]
    if ANNOTATION_HASH not in said:
        return piece
    kept: list[str] = []
    if piece.ended or said.get(ANNOTATION_MADE) in (None, notes.get(ANNOTATION_MADE)):
        kept += piece.fixed
    suspend = notes.get(ANNOTATION_SUSPEND)
    if suspend is not None and said.get(ANNOTATION_SUSPEND) == suspend:
        kept.append(profile_in(piece.body).suspended)
    body: Mapping[str, Any] = piece.body
    for path in kept:
        at, value = steps(path), value_at(found, path)
        body = without(body, at) if value is None else _with(body, at, value)
    return replace(piece, body=body)


def _digest(body: Mapping[str, Any]) -> str:
    encoded = msgspec.json.encode(body, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    """Strip the fields that only a server writes, and the labels and annotations that are ours."""
    body.pop("status", None)
    strip(body)
    meta = body["metadata"] = body.get("metadata") or {}
    for key in _SERVERS_OWN:
        meta.pop(key, None)
    return body
