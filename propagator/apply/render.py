"""Renders the objects of one Workload on one cluster, in the order of their waves. Pure.

A template passes through whole but for namespace, name, replicas, first ordinal, Stowage's labels
and annotations, and fields that a server writes. Overrides apply first, then the subset's patch,
then the cluster's images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from crds.admission.placeholder import CLASS_TEXT, named
from crds.admission.reserved import strip
from crds.fields.placing import Distribution
from crds.fields.shares import LONGEST_FIELD
from crds.names import (
    ANNOTATION_HUB,
    ANNOTATION_MEMBER,
    ANNOTATION_SINCE,
    DEFAULT_SCHEDULER,
    LABEL_MANAGED,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD_UID,
    ORPHAN_PREFIX,
    OWNER_PREFIX,
    Edits,
    TtlWhen,
)
from machinery.api.resources import group_of
from machinery.kinds.expressions import holds
from machinery.kinds.fieldpaths import Steps, fields_at, placed
from machinery.kinds.paths import InvalidTemplate, set_at, steps, stripped, value_at, without
from machinery.kinds.profile import Profile, with_article
from machinery.kinds.scalers import refuse_scaler
from machinery.kinds.stripped import unbind
from machinery.kinds.table import profile_in
from machinery.kinds.templates import (
    Place,
    at_place,
    check,
    label_places,
    made_of,
    put,
    template_places,
)
from machinery.kinds.templates import first_ordinal as start_in
from machinery.overrides.override import (
    ClusterOverride,
    OverrideMisfit,
    UnreadableOverrides,
    check_selector,
    matching,
    overridden,
    rewrite,
)
from machinery.overrides.variables import ClusterFacts
from machinery.types.api import ImageRule
from machinery.types.bounds import MESSAGE, clean
from machinery.types.strategic_merge import merge
from propagator.drift.fields import MISSING, digest_of, drifted, note_of, noted_in
from propagator.drift.fields import value_at as field_at
from propagator.drift.fields import without as without_fields
from propagator.members.objects import ANNOTATION_TOLD, ManagedObject
from propagator.types.hub_objects import HubSecret
from propagator.types.overrides import NOTHING, Override
from propagator.types.workload import ObjectId, Workload

ANNOTATION_HASH = "stowage.dev/applied-hash"
"""The digest of the last apply."""
ANNOTATION_TEMPLATE_HASH = "stowage.dev/template-hash"
"""The digest without the cluster's images, if these change it."""
ANNOTATION_MADE = "stowage.dev/made-of"
"""The digest of the immutable parts in the Workload."""
ANNOTATION_SUSPEND = "stowage.dev/suspend"
"""The suspension that the Workload last asked for."""
ANNOTATION_IGNORED = "stowage.dev/ignored"
"""The fields that may be the member's, each with the digest of the Workload's own value."""
ANNOTATION_CARRIED = "stowage.dev/carried"
"""The values of spec.movement.carry that the object was made with, by name, as JSON."""
ANNOTATION_LISTED = "stowage.dev/listed"
"""The names in a list to which a member's own controllers add."""

ORDINALS = "spec.ordinals.start"
"""The path of the first ordinal in earlier releases, whatever the group of a StatefulSet."""
FieldText = Annotated[str, msgspec.Meta(max_length=LONGEST_FIELD)]
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Raised by code that meets input of an unexpected form."""
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
    """One object to apply. Several Workloads of a namespace may own a `shared` one."""

    api_version: str
    kind: str
    namespace: str
    name: str
    body: Mapping[str, Any]
    digest: str
    shared: bool = False
    main: bool = False
    template_digest: str = ""
    """The digest without the cluster's images."""
    subset: str = ""
    """The subset whose patch is merged into its pod template."""
    fixed: tuple[str, ...] = ()
    """Paths that an existing object keeps as created."""
    joined: str = ""
    """The path of a list in which an existing object keeps what the member has added."""
    ignored: tuple[Steps, ...] = ()
    """Fields in which an existing object keeps what others on the member wrote."""
    ended: bool = False
    """Whether the share has ended. The object then keeps its `fixed` paths."""

    @property
    def id(self) -> ObjectId:
        return group_of(self.api_version), self.kind, self.namespace, self.name


class PatchMisfit(ValueError):
    """The message names the field."""


class ForeignClass(PatchMisfit):
    """An object other than a placeholder names the placeholders' PriorityClass."""


@dataclass(frozen=True, slots=True)
class MemberFacts:
    facts: ClusterFacts
    images: Sequence[ImageRule] = ()
    hub: str = ""
    mark: str = ""
    since: str = ""
    """The restores of the hub that this write comes after."""


@dataclass(frozen=True, slots=True)
class _Differences:
    overrides: Sequence[ClusterOverride]
    member: MemberFacts

    def laid(
        self, body: dict[str, Any], *, main: bool = False, name: str = "", replicas_path: str = ""
    ) -> dict[str, Any]:
        """Raises OverrideMisfit."""
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

    `first_ordinal` None keeps the template's own; `ended`: its end is stored, so a TTL may delete
    the object. Raises PatchMisfit, OverrideMisfit, UnreadableOverrides, and InvalidTemplate
    otherwise.
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
    if not workload.alone:
        main = _main_piece(workload, replicas, first_ordinal, override, differences, ended)
        for each in pieces:
            refuse_scaler(f"{each.kind} {each.name}", each.body, main.kind, main.name)
        pieces.append(main)
    if not workload.keeps_room:
        for piece in pieces:
            _refuse_class(piece)
    return [_marked(piece, member) for piece in pieces]


def _main_piece(
    workload: Workload,
    replicas: int,
    first_ordinal: int | None,
    override: Override,
    differences: _Differences,
    ended: bool,
) -> Piece:
    member = differences.member
    body = _main(workload, replicas, first_ordinal, override, differences)
    # Decode the template only for kinds that need it.
    made = made_of(workload.profile, workload.template) if workload.profile.immutable else ""
    main = _piece(workload, body, images=member.images, main=True, made=made, ended=ended)
    if carried := member.facts.carried:
        main.body["metadata"]["annotations"][ANNOTATION_CARRIED] = _noted(carried)
    where = workload.profile.replicas
    if where is not None and member.facts.name in workload.parts:
        main = replace(main, fixed=(*main.fixed, where.total))
    return replace(main, subset=override.subset if override.patch else "")


def copied(
    workload: Workload, bodies: Iterable[dict[str, Any]], member: MemberFacts
) -> list[Piece]:
    return [_marked(_piece(workload, body, shared=True), member) for body in bodies]


def secret_body(secret: HubSecret) -> dict[str, Any]:
    """The same for each Workload that names it."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret.metadata.name},
        "type": secret.type,
        "data": dict(secret.data),
    }
    return body | ({"immutable": True} if secret.immutable else {})


def _refuse_class(piece: Piece) -> None:
    # At any depth: where a custom kind has its pods is unknown.
    if named(piece.body):
        raise ForeignClass(f"{piece.kind} {piece.name}: {CLASS_TEXT}")


def _marked(piece: Piece, member: MemberFacts) -> Piece:
    said = (
        (ANNOTATION_HUB, member.hub),
        (ANNOTATION_MEMBER, member.mark),
        (ANNOTATION_SINCE, member.since),
    )
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
    if not (profile.known or path):
        divided = workload.spec.distribution == Distribution.DIVIDED
        if divided or workload.spec.replicas not in (None, 1):
            # Its WorkloadKind is gone: a cluster would have the number of the template.
            raise InvalidTemplate(
                f"spec.{'distribution' if divided else 'replicas'}: nothing says where a "
                f"{profile.kind} has its number of replicas"
            )
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
        # Never clear them: a kind without ordinals keeps those that it was given.
        ordinals = (profile.replicas and profile.replicas.ordinals) or ORDINALS
        if first_ordinal or (first_ordinal == 0 and profile.ordered and value_at(body, ordinals)):
            set_at(body, ordinals, first_ordinal)
    _mark_pods(body, profile, workload.uid)
    return body


def _patch_pods(body: dict[str, Any], profile: Profile, override: Override) -> None:
    places = template_places(profile, body)
    if not places:
        if path := profile.pod_path:
            raise PatchMisfit(f"{path} of the {profile.kind} is missing")
        raise PatchMisfit(f"{with_article(profile.kind)} has no pod template that is known")
    try:
        for place in places:
            put(body, place, merge(at_place(body, place), override.merge_patch()))
        if profile.pod_path:
            check_selector(at_place(body, places[0][:-1]), tuple(map(str, places[0][-1:])))
    except ValueError as e:
        raise PatchMisfit(str(e)) from e


def _mark_pods(body: dict[str, Any], profile: Profile, uid: str) -> None:
    places = label_places(profile, body)
    for place in places:
        pods = at_place(body, place[:-2])
        spec = pods.get("spec") if isinstance(pods, dict) else None
        if isinstance(spec, dict) and spec.get("schedulerName") == DEFAULT_SCHEDULER:
            del spec["schedulerName"]  # the hub's scheduler; a member has none of that name
    if not profile.known:
        return
    for place in places:
        labels = {LABEL_WORKLOAD_UID: uid}
        if profile.edits is Edits.NEW_PODS:
            labels[LABEL_TEMPLATE] = _digest({"pods": at_place(body, place[:-2])})
        _set_labels(body, place, labels)
        if isinstance(meta := at_place(body, place[:-1]), dict):
            meta.pop("creationTimestamp", None)


def _set_labels(body: Any, place: Place, labels: Mapping[str, str]) -> None:
    above = [body]
    for at, step in enumerate(place):
        if isinstance(step, int):
            inner = above[-1][step]
        elif not labels:
            inner = above[-1].get(step)
        else:
            inner = above[-1][step] = above[-1].get(step) or {}
        if not isinstance(inner, dict | list) or (isinstance(inner, list) and at + 1 == len(place)):
            return
        above.append(inner)
    if labels:
        above[-1].update(labels)
        return
    for key in (LABEL_WORKLOAD_UID, LABEL_TEMPLATE):
        above[-1].pop(key, None)
    while len(above) > 1 and above[-1] == {}:
        above.pop()
        del above[-1][place[len(above) - 1]]


def _noted(values: Mapping[str, str]) -> str:
    return msgspec.json.encode(values, order="deterministic").decode()


def carried_to(workload: Workload, live: ManagedObject | None) -> dict[str, str]:
    """An object that stands keeps the values of its making: others would change what runs."""
    if live is None:
        return carried_in(workload, None)
    return carried_in(workload, live.metadata.annotations.get(ANNOTATION_CARRIED, "{}"))


def carried_in(workload: Workload, noted: str | None) -> dict[str, str]:
    """`noted` is the annotation of the object that stands; None without an object."""
    said: Mapping[str, str] = workload.status.carried
    if noted is not None:
        said = {}
        with suppress(msgspec.DecodeError):  # somebody on the member may have written it
            said = msgspec.json.decode(noted, type=dict[str, FieldText])
    return {name: said[name] for name in workload.spec.movement.carry if name in said}


def beside(piece: Piece, live: ManagedObject) -> Piece:
    return _with_start(_with_label(piece, live), live) if piece.main else piece


def asking(piece: Piece, replicas: int, *, at: str) -> Piece:
    """Return the piece with another number of replicas, which it has at that path."""
    if value_at(piece.body, at) is None:
        return piece
    return _changed(piece, _with(piece.body, steps(at), replicas), replicas=replicas)


def _with_start(piece: Piece, live: ManagedObject) -> Piece:
    profile = profile_in(piece.body)
    where = profile.replicas
    if live.start is None or where is None or live.start == start_in(profile, piece.body):
        return piece
    *above, last = steps(where.ordinals)
    ordinals = {**(value_at(piece.body, ".".join(above)) or {}), last: live.start}
    return _changed(piece, _with(piece.body, above, ordinals), start=live.start)


def _with_label(piece: Piece, live: ManagedObject) -> Piece:
    there = _labels_there(piece.body, live)
    uid = LABEL_WORKLOAD_UID
    known = {place: at_place(piece.body, place) or {} for place in there}
    if all(known[place].get(uid, "") == each.get(uid, "") for place, each in there.items()):
        return piece
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(piece.body))
    for place, labels in there.items():
        _set_labels(body, place, labels)
    more = {"labels": live.pods_labels} if live.pods_labels else {}
    return _changed(piece, body, label=live.pods_uid, **more)


def _labels_there(body: Mapping[str, Any], live: ManagedObject) -> dict[Place, dict[str, str]]:
    """Return our labels of the existing object by their place, empty where it has none.

    Its profile may be another one than when it was made: others would be an edit of its pods.
    """
    profile, said = profile_in(body), {place: dict(ours) for place, ours in live.pods_labels}
    if not profile.known and said:
        return {
            place: each
            for place, each in said.items()
            if isinstance(at_place(body, place[:-2]), Mapping)
            and isinstance(at_place(body, place[:-1]), Mapping | None)
        }
    if live.pods_uid is None:
        return {}
    uid = LABEL_WORKLOAD_UID
    alike = {uid: live.pods_uid}
    found = {place: said.get(place, alike) for place in label_places(profile, body)}
    return {place: {uid: each[uid]} if each.get(uid) else {} for place, each in found.items()}


def _changed(piece: Piece, body: dict[str, Any], **what: Any) -> Piece:
    """The digests cover `what`."""
    digest, template_digest = (
        _digest({"digest": each, **what}) for each in (piece.digest, piece.template_digest)
    )
    annotations = {**body["metadata"]["annotations"], ANNOTATION_HASH: digest}
    if ANNOTATION_TEMPLATE_HASH in annotations:
        annotations[ANNOTATION_TEMPLATE_HASH] = template_digest
    body = _with(body, ("metadata", "annotations"), annotations)
    return replace(piece, body=body, digest=digest, template_digest=template_digest)


def applied_of(live: ManagedObject) -> str:
    """The digest leaves out the cluster's images."""
    annotations = live.metadata.annotations
    return annotations.get(ANNOTATION_TEMPLATE_HASH) or annotations.get(ANNOTATION_HASH, "")


def _with(body: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
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
    ended: bool = False,
) -> Piece:
    profile = profile_in(body)
    body = _sent(body, profile, main=main, ended=ended)
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
    if (suspend := value_at(body, profile.suspend_path)) is not None:
        meta["annotations"][ANNOTATION_SUSPEND] = str(suspend).lower()
    if profile.joined and value_at(body, profile.joined):
        meta["annotations"][ANNOTATION_LISTED] = ",".join(sorted(_names_in(body, profile.joined)))
    if told := dict(workload.status_paths(body["kind"], meta["name"], main=main)):
        meta["annotations"][ANNOTATION_TOLD] = msgspec.json.encode(told).decode()
    ignored = _ignored(workload, body, main=main)
    if ignored:
        meta["annotations"][ANNOTATION_IGNORED] = note_of(body, ignored)
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
        fixed=_fixed(body, profile, made),
        joined=profile.joined,
        ignored=ignored,
    )


def _sent(body: dict[str, Any], profile: Profile, *, main: bool, ended: bool) -> dict[str, Any]:
    """Return the object without what is not sent.

    No end of a manifest is stored: with a TTL it would run again and again.
    """
    end = profile.ended
    if end is not None and end.ttl:
        now = end.ttl_when is TtlWhen.CREATED or (ended and end.ttl_when is TtlWhen.ENDED)
        if not (main and now):
            body = dict(without(body, steps(end.ttl)))
    for path in profile.strip:
        body = stripped(body, steps(path))
    return body


def _ignored(workload: Workload, body: Mapping[str, Any], *, main: bool) -> tuple[Steps, ...]:
    """Raises InvalidTemplate."""
    own = workload.ignored(str(body["kind"]), body["metadata"]["name"], main=main)
    paths = dict.fromkeys((*profile_in(body).ignore_fields, *own))
    try:
        return tuple(steps for path in paths for steps in fields_at(body, path))
    except ValueError as e:
        raise InvalidTemplate(f"spec.ignoreFields: {e}") from e


def _changeable(body: Mapping[str, Any], profile: Profile, made: str) -> Mapping[str, Any]:
    for path in _fixed(body, profile, made):
        body = without(body, steps(path))
    return {"made": made, **body} if made else body


def _fixed(body: Mapping[str, Any], profile: Profile, made: str) -> tuple[str, ...]:
    settled = profile.settled if holds(profile.settled_when, body) else ()
    return (*profile.immutable, *settled) if made else settled


def as_made(piece: Piece, live: ManagedObject, found: Mapping[str, Any]) -> Piece:
    """Return the piece with the immutable parts of the existing object.

    A changed part is applied, and refused by the member. A suspension that another client changed
    stays until the Workload changes its own.
    """
    said, notes = live.metadata.annotations, piece.body["metadata"]["annotations"]
    if ANNOTATION_HASH not in said:
        return piece
    kept: list[str] = []
    if piece.ended or said.get(ANNOTATION_MADE) in (None, notes.get(ANNOTATION_MADE)):
        kept += piece.fixed
    suspend = notes.get(ANNOTATION_SUSPEND)
    if suspend is not None and said.get(ANNOTATION_SUSPEND) == suspend:
        kept.append(profile_in(piece.body).suspend_path)
    body: Mapping[str, Any] = piece.body
    for path in kept:
        at, value = steps(path), value_at(found, path)
        body = without(body, at) if value is None else _with(body, at, value)
    return replace(piece, body=body)


def with_others(piece: Piece, live: ManagedObject, found: Mapping[str, Any]) -> Piece:
    """Return the piece with what others on the member wrote into its ignored fields.

    A field is theirs if its value differs from the Workload's, which is as it was at the last
    apply.
    """
    said = live.metadata.annotations
    if not piece.ignored or ANNOTATION_HASH not in said:
        return piece
    noted = noted_in(said.get(ANNOTATION_IGNORED, ""))
    changed = drifted(piece.body, found)
    body: Mapping[str, Any] = piece.body
    for at in piece.ignored:
        digest = next((each for steps, each in noted if steps == at), None)
        if digest is None:  # the Workload ignores it from now on
            theirs = any(each.steps[: len(at)] == at for each in changed)
        else:
            theirs = digest == digest_of(field_at(piece.body, at))
        if theirs:
            body = _as_there(body, at, found)
    if body is piece.body:
        return piece
    # The values are those of this version: another client may write them meanwhile.
    meta = {**body["metadata"], "resourceVersion": found["metadata"].get("resourceVersion")}
    return replace(piece, body={**body, "metadata": meta})


def _as_there(body: Mapping[str, Any], at: Steps, found: Mapping[str, Any]) -> Mapping[str, Any]:
    own, there = field_at(body, at), field_at(found, at)
    if there is MISSING:
        if own is MISSING or field_at(found, at[:-1]) is MISSING:
            return body
        return without_fields(body, [at])
    # Outside of lists a field that is left out stays; an element of an atomic list is one whole.
    if own == there or (own is MISSING and all(isinstance(step, str) for step in at)):
        return body
    found_body: Mapping[str, Any] = placed(body, at, there)
    return found_body


def with_added(piece: Piece, found: Mapping[str, Any]) -> Piece:
    """Return the piece with what the member has added to its list of references."""
    if not piece.joined:
        return piece
    before = value_at(found, "metadata.annotations") or {}
    ours = {*before.get(ANNOTATION_LISTED, "").split(","), *_names_in(piece.body, piece.joined)}
    listed = value_at(found, piece.joined) or ()
    added = [each for each in listed if value_at(each, "name") not in ours]
    own = value_at(piece.body, piece.joined) or ()
    if not added or not (own or ANNOTATION_LISTED in before):
        return piece
    return replace(piece, body=_with(piece.body, steps(piece.joined), [*own, *added]))


def _names_in(body: Mapping[str, Any], path: str) -> set[str]:
    listed = value_at(body, path)
    return {str(value_at(each, "name")) for each in (listed if isinstance(listed, list) else ())}


def _digest(body: Mapping[str, Any]) -> str:
    encoded = msgspec.json.encode(body, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    body.pop("status", None)
    unbind(body)
    meta = body["metadata"] = body.get("metadata") or {}
    for key in _SERVERS_OWN:
        meta.pop(key, None)
    strip(body)
    return body
