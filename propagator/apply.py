"""Objects onto a member: in waves, by server-side apply, and never over somebody else's.

Every object of ours says whose it is by annotations, one for each owning Workload. An object
without one of the Workload's own is left as it is (`Foreign`). What was applied is remembered by
digest and generation, so that an object is written again only when it, or what is wanted of it, has
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from crds.names import FIELD_MANAGER, LABEL_MANAGED, OWNER_PREFIX
from crds.workload import Adoption, PropagatedReason
from machinery.clock import Clock
from machinery.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from machinery.informer import Informer
from machinery.resources import NAMESPACES, Resource
from propagator.managed import OWNER_INDEX, ManagedObject, owners
from propagator.member import MemberSession
from propagator.model import Workload
from propagator.render import ANNOTATION_HASH, Piece

WAVES: Sequence[frozenset[str]] = (
    frozenset({"Namespace", "CustomResourceDefinition"}),
    frozenset({"Secret", "ConfigMap"}),
    frozenset({"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}),
    frozenset(),  # every other kind of spec.manifests
    frozenset({"Service"}),
    frozenset(),  # the workload itself
)
"""What goes before what; a wave waits for the one before it. Removal goes the other way round."""

_OTHERS, _MAIN = 3, 5
_NEEDED = 2
"""The last wave of what pods need in order to start: refused, it holds the workload back."""

KEPT = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that are let go instead of deleted: everything of everybody in them would go as well."""
LISTING_SECONDS = 10.0
_LOOK_AGAIN = 0.02

FIGHT_SECONDS = 5.0
"""An object that somebody changes back sooner than this after our write is fought over."""
LONGEST_TRUCE = 60.0

USUAL: Sequence[Resource] = (
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("batch", "v1", "cronjobs", "CronJob"),
    Resource("", "v1", "services", "Service"),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "configmaps", "ConfigMap"),
)
"""The kinds that every session watches.

Others are noted on the Workload before they are written.
"""

_BY_KIND = {(resource.api_version, resource.kind): resource for resource in USUAL}
Place = tuple[str, Resource, str, str]
"""(member, resource, namespace, name)."""


class Refused(Exception):
    """The object could not be written: a reason of Propagated=False, and the sentence."""

    def __init__(self, reason: PropagatedReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, refusals: Sequence[Refused]) -> Refused:
        """Several in one: the worst reason, and every sentence about it."""
        worst = min((r.reason for r in refusals), key=list(PropagatedReason).index)
        return cls(worst, "; ".join(sorted({str(r) for r in refusals if r.reason is worst})))


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying: seconds until a truce ends, and what was refused.

    `whole` tells whether the workload itself is as wanted: only then may its predecessor go.
    """

    again: float | None
    refusals: Sequence[Refused]
    whole: bool


@dataclass(slots=True)
class _Written:
    """What is known of our last write of an object."""

    digest: str
    stamp: tuple[str, int | str]
    at: float
    fights: int = 0


class Applier:
    """Writes and removes pieces on members. One for the process."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[Place, _Written] = {}
        self._locks: dict[Place, asyncio.Lock] = {}
        self._namespaces: set[tuple[str, int, str]] = set()
        self._given_back: set[Place] = set()

    async def apply(
        self, session: MemberSession, workload: Workload, pieces: Sequence[Piece]
    ) -> Applied:
        """Bring all pieces to the member, wave by wave; one that is refused stops no other.

        The workload itself waits for what its pods need. Raises TransportError, once nothing of
        the wave is under way any more.
        """
        waits: list[float] = []
        refusals: list[Refused] = []
        needed = whole = True
        for number, wave in sorted(_by_wave(pieces).items()):
            if number == _MAIN and not needed:
                return Applied(min(waits, default=None), refusals, whole=False)
            begun = (self._piece(session, workload, piece) for piece in wave)
            ended = await asyncio.gather(*begun, return_exceptions=True)
            refused = _refusals(ended)
            refusals += refused
            waits += [wait for wait in ended if isinstance(wait, float)]
            needed = needed and not (refused and number <= _NEEDED)
            whole = not refused
        return Applied(min(waits, default=None), refusals, whole=whole)

    async def prune(
        self, session: MemberSession, uid: str, keep: Sequence[tuple[Resource, str, str]]
    ) -> bool:
        """Remove what a Workload owns on the member and does not render; whether anything was left.

        The workload itself goes first, what it needs afterwards.
        """
        kept = set(keep)
        leaving = [
            (resource, found)
            for resource, found in owned(session, uid)
            if (resource, found.metadata.namespace, found.metadata.name) not in kept
        ]
        leaving.sort(key=lambda pair: -_wave(pair[0].kind))
        for resource, found in leaving:
            await self._release(session, resource, found, uid)
        return bool(leaving)

    def forget(self, member: str) -> None:
        """The member is gone, or another one: nothing is known of it any more."""
        self._written = {p: w for p, w in self._written.items() if p[0] != member}
        self._locks = {p: lock for p, lock in self._locks.items() if p[0] != member}
        self._namespaces = {n for n in self._namespaces if n[0] != member}
        self._given_back = {p for p in self._given_back if p[0] != member}

    async def _piece(
        self, session: MemberSession, workload: Workload, piece: Piece
    ) -> float | None:
        resource = await resource_of(session, piece.api_version, piece.kind)
        try:
            informer = await listed(session, resource, clock=self._clock)
        except ApiError as e:
            if not _says_no(e):
                raise
            raise _rejected(session, piece, e) from e
        namespace = piece.namespace if resource.namespaced else ""
        place = (session.name, resource, namespace, piece.name)
        async with self._locks.setdefault(place, asyncio.Lock()):
            live = informer.get((namespace, piece.name))
            if live is not None and self._as_written(place, piece, live, workload.uid):
                return None
            wait = self._truce(place, piece)
            if wait > 0:
                return wait
            await self._write(session, informer, resource, workload, piece)
        return None

    def _as_written(self, place: Place, piece: Piece, live: ManagedObject, uid: str) -> bool:
        written = self._written.get(place)
        return (
            written is not None
            and written.digest == piece.digest
            and written.stamp == _stamp(live)
            and live.metadata.annotations.get(ANNOTATION_HASH) == piece.digest
            and OWNER_PREFIX + uid in live.metadata.annotations
            and _marked(piece, live)
            and not live.metadata.deleting
        )

    def _truce(self, place: Place, piece: Piece) -> float:
        """How long to leave an object alone that is changed back as soon as we write it."""
        written = self._written.get(place)
        if written is None or written.digest != piece.digest:
            return 0.0
        since = self._clock.monotonic() - written.at
        if since > LONGEST_TRUCE + FIGHT_SECONDS:
            written.fights = 0
        pause = min(0.5 * 2.0**written.fights - 0.5, LONGEST_TRUCE)
        return pause - since

    async def _write(
        self,
        session: MemberSession,
        informer: Informer[ManagedObject],
        resource: Resource,
        workload: Workload,
        piece: Piece,
    ) -> None:
        namespace = piece.namespace if resource.namespaced else ""
        place = (session.name, resource, namespace, piece.name)
        live = informer.get((namespace, piece.name))
        if live is None or place in self._given_back:  # the informer may still show it as ours
            live = await self._look(session, resource, piece)
        others = self._claim(workload, piece, live)
        if resource.namespaced:
            await self._namespace(session, piece)
        body = _owned_by_all(piece, others, resource, live)
        try:
            answer = await self._send(session, resource, piece, body, force=live is not None)
        except NotFound as e:
            self._namespaces.discard((session.name, id(session.link), namespace))
            raise _rejected(session, piece, e) from e
        if live is None and _also_managed(answer):
            self._given_back.add(place)
            await self._withdraw(session, resource, piece)
            raise _taken(session, piece)
        self._given_back.discard(place)
        self._remember(session, informer, resource, piece, answer)

    async def _send(
        self,
        session: MemberSession,
        resource: Resource,
        piece: Piece,
        body: Mapping[str, Any],
        *,
        force: bool,
    ) -> dict[str, Any]:
        client = session.client_for(piece.namespace)
        namespace = piece.namespace if resource.namespaced else None
        try:
            return await client.apply(
                resource, body, name=piece.name, namespace=namespace, force=force
            )
        except Conflict as e:
            if force:
                raise
            raise _taken(session, piece) from e
        except ApiError as e:
            if isinstance(e, NotFound) or not _says_no(e):
                raise
            raise _rejected(session, piece, e) from e

    async def _withdraw(self, session: MemberSession, resource: Resource, piece: Piece) -> None:
        """Take back what an apply added to an object that somebody made in the same moment."""
        meta = {"name": piece.name, "namespace": piece.namespace}
        body = {"apiVersion": piece.api_version, "kind": piece.kind, "metadata": meta}
        if not resource.namespaced:
            del meta["namespace"]
        with suppress(NotFound):
            await self._send(session, resource, piece, body, force=False)

    def _remember(
        self,
        session: MemberSession,
        informer: Informer[ManagedObject],
        resource: Resource,
        piece: Piece,
        answer: Mapping[str, Any],
    ) -> None:
        found = msgspec.convert(answer, ManagedObject)
        namespace = piece.namespace if resource.namespaced else ""
        place = (session.name, resource, namespace, piece.name)
        now, before = self._clock.monotonic(), self._written.get(place)
        again = before is not None and before.digest == piece.digest
        fights = before.fights + 1 if before is not None and again else 0
        self._written[place] = _Written(piece.digest, _stamp(found), now, fights)
        informer.upsert(found)

    async def _look(
        self, session: MemberSession, resource: Resource, piece: Piece
    ) -> ManagedObject | None:
        """What lies at the piece's place without our label, if anything does."""
        namespace = piece.namespace if resource.namespaced else None
        try:
            client = session.client_for(piece.namespace)
            found = await client.get(resource, piece.name, namespace=namespace)
        except NotFound:
            return None
        except Forbidden as e:
            raise _rejected(session, piece, e) from e
        return msgspec.convert(found, ManagedObject)

    def _claim(
        self, workload: Workload, piece: Piece, live: ManagedObject | None
    ) -> dict[str, str]:
        """The annotations of the other owners, where the piece may be written. Raises Refused."""
        if live is None:
            return {}
        known = owners(live.metadata)
        where = f"{piece.kind} {live.metadata.namespace}/{piece.name}"
        if not known:
            owned_already = any(ref.controller for ref in live.metadata.owner_references)
            if workload.spec.adoption == Adoption.IF_UNOWNED and not owned_already:
                return {}
            raise Refused(
                PropagatedReason.ALREADY_EXISTS,
                f"{where} exists and is not ours: remove it, or set spec.adoption to IfUnowned",
            )
        others = {uid: key for uid, key in known.items() if uid != workload.uid}
        strangers = [
            f"{'/'.join(key)} (uid {uid})" if key == workload.metadata.key else "/".join(key)
            for uid, key in others.items()
            if not piece.shared or key[0] != workload.metadata.namespace
        ]
        if strangers:
            raise Refused(
                PropagatedReason.ALREADY_EXISTS,
                f"{where} belongs to Workload {', '.join(sorted(strangers))}",
            )
        return {OWNER_PREFIX + uid: "/".join(key) for uid, key in others.items()}

    async def _namespace(self, session: MemberSession, piece: Piece) -> None:
        """Create the namespace where it is missing.

        It is never removed: others may have moved in.
        """
        name = piece.namespace
        known = (session.name, id(session.link), name)
        if known in self._namespaces:
            return
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        client = session.client
        if client is not None:
            try:
                await client.get(NAMESPACES, name)
            except NotFound:
                with suppress(AlreadyExists, Forbidden):
                    await client.create(NAMESPACES, body)
            except Forbidden:
                pass  # not ours to look at or to make: the write will say whether it is there
        self._namespaces.add(known)

    async def _release(
        self, session: MemberSession, resource: Resource, found: ManagedObject, uid: str
    ) -> None:
        """Delete an object, or only our part in it while others own it too."""
        meta = found.metadata
        namespace = meta.namespace or None
        place = (session.name, resource, meta.namespace, meta.name)
        client = session.client_for(meta.namespace)
        async with self._locks.setdefault(place, asyncio.Lock()):
            live = session.track(resource).get(meta.key) or found
            rest = [other for other in owners(live.metadata) if other != uid]
            with suppress(NotFound):
                if rest or resource.kind in KEPT:
                    patch: dict[str, Any] = {"annotations": {OWNER_PREFIX + uid: None}}
                    if not rest:
                        patch["labels"] = {LABEL_MANAGED: None}
                    answer = await client.merge_patch(
                        resource, meta.name, {"metadata": patch}, namespace=namespace
                    )
                    if rest:
                        session.track(resource).upsert(msgspec.convert(answer, ManagedObject))
                elif not live.metadata.deleting:
                    await client.delete(resource, meta.name, namespace=namespace, uid=meta.uid)
            self._written.pop(place, None)
        self._locks.pop(place, None)


async def resource_of(session: MemberSession, api_version: str, kind: str) -> Resource:
    """The resource of a kind on that member. Raises Refused when the member does not know it."""
    usual = _BY_KIND.get((api_version, kind))
    if usual is not None:
        return usual
    client = session.client_for("")
    try:
        return await client.resource(api_version, kind)
    except NotFound as e:
        raise Refused(
            PropagatedReason.REJECTED,
            f"{session.name} has no kind {kind} in {api_version}: "
            "install its CustomResourceDefinition there",
        ) from e


def owned(session: MemberSession, uid: str) -> list[tuple[Resource, ManagedObject]]:
    """Everything on a member that a Workload owns, as far as its informers show."""
    if session.link is None:
        return []
    return [
        (resource, found)
        for resource, informer in session.link.managed.items()
        for found in informer.by_index(OWNER_INDEX, uid)
    ]


async def listed(
    session: MemberSession, resource: Resource, *, clock: Clock
) -> Informer[ManagedObject]:
    """The informer of that kind on that member, once it has seen everything.

    Raises the TransportError that keeps it from that: a worker must not wait for a kind that went
    away, or that we may not read.
    """
    informer = session.track(resource)
    until = clock.monotonic() + LISTING_SECONDS
    while not informer.synced:
        if informer.last_error is not None:
            raise informer.last_error
        if clock.monotonic() > until:
            raise Unreachable(f"{session.name}: {resource.plural} were not listed in time")
        await clock.sleep(_LOOK_AGAIN)
    return informer


def known_to_be(session: MemberSession, kinds: Collection[tuple[str, str]] = ()) -> bool:
    """Whether `owned` tells the whole truth of the usual kinds and of these.

    That is so when the member answers and all of them have been listed, or do not exist there.
    """
    if not session.ready or session.link is None:
        return False
    return all(
        informer.synced or isinstance(informer.last_error, NotFound)
        for resource, informer in session.link.managed.items()
        if (pair := (resource.api_version, resource.kind)) in _BY_KIND or pair in kinds
    )


def _refusals(ended: Sequence[float | BaseException | None]) -> list[Refused]:
    """What was refused. Raises the first fault of another kind."""
    for each in ended:
        if isinstance(each, BaseException) and not isinstance(each, Refused):
            raise each
    return [each for each in ended if isinstance(each, Refused)]


def _by_wave(pieces: Sequence[Piece]) -> dict[int, list[Piece]]:
    waves: dict[int, list[Piece]] = {}
    for piece in pieces:
        waves.setdefault(_MAIN if piece.main else _wave(piece.kind), []).append(piece)
    return waves


def _wave(kind: str) -> int:
    for number, kinds in enumerate(WAVES):
        if kind in kinds:
            return number
    return _MAIN if any(kind == resource.kind for resource in USUAL) else _OTHERS


def _stamp(found: ManagedObject) -> tuple[str, int | str]:
    """Changes whenever somebody changes what was asked for; kinds without generation: anything."""
    meta = found.metadata
    return meta.uid, meta.generation or meta.resource_version


def _marked(piece: Piece, live: ManagedObject) -> bool:
    """Whether the labels and annotations asked for are there; a generation does not tell."""
    meta = piece.body["metadata"]
    pairs = (
        (meta["labels"], live.metadata.labels),
        (meta["annotations"], live.metadata.annotations),
    )
    return all(there.get(key) == value for asked, there in pairs for key, value in asked.items())


def _also_managed(answer: Mapping[str, Any]) -> bool:
    """Whether somebody else has written the object too. One that we made has no other writer yet.

    What admission changed on its way counts as ours.
    """
    entries = answer["metadata"].get("managedFields") or ()
    ours = (FIELD_MANAGER, "Apply")
    return any((entry.get("manager"), entry.get("operation")) != ours for entry in entries)


def _owned_by_all(
    piece: Piece, others: Mapping[str, str], resource: Resource, live: ManagedObject | None
) -> Mapping[str, Any]:
    """The body with the annotations of all owners: what an apply leaves out, it takes away.

    The UID keeps it from an object that somebody has put in the place of the one that was seen.
    """
    meta = piece.body["metadata"]
    whole = {**meta, "annotations": {**meta["annotations"], **others}}
    if live is not None:
        whole["uid"] = live.metadata.uid
    if not resource.namespaced:
        whole.pop("namespace", None)
    return {**piece.body, "metadata": whole}


def _taken(session: MemberSession, piece: Piece) -> Refused:
    return Refused(
        PropagatedReason.ALREADY_EXISTS,
        f"{session.name}: {piece.kind} {piece.namespace}/{piece.name} appeared meanwhile and is "
        "not ours",
    )


def _says_no(fault: ApiError) -> bool:
    """Whether the member's API refused the object, and not merely this request.

    An internal error does: a webhook that cannot be called comes as one.
    """
    if isinstance(fault, ServerError):
        return fault.reason == "InternalError"
    return not isinstance(fault, Unauthorized | TooManyRequests | Conflict | Gone)


def _rejected(session: MemberSession, piece: Piece, fault: ApiError) -> Refused:
    where = f"{piece.kind} {piece.namespace}/{piece.name}"
    return Refused(PropagatedReason.REJECTED, f"{session.name}: {where}: {fault}")
