"""Objects onto a member: in waves, by server-side apply, and never over somebody else's.

Every object of ours says whose it is by annotations, one for each owning Workload. An object
without one of the Workload's own is left as it is (`Foreign`). What was applied is remembered by
digest and generation, so that an object is written again only when it, or what is wanted of it, has
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from crds.names import OWNER_PREFIX
from crds.workload import Adoption, PropagatedReason
from machinery.clock import Clock
from machinery.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
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

    async def apply(
        self, session: MemberSession, workload: Workload, pieces: Sequence[Piece]
    ) -> float | None:
        """Bring all pieces to the member, wave by wave; seconds until a truce ends, or None.

        Raises Refused for the first piece that the member or its owner refuses, and TransportError.
        """
        truce: float | None = None
        for _, wave in sorted(_by_wave(pieces).items()):
            waits = await asyncio.gather(*(self._piece(session, workload, p) for p in wave))
            for wait in waits:
                if wait is not None:
                    truce = wait if truce is None else min(truce, wait)
        return truce

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

    async def _piece(
        self, session: MemberSession, workload: Workload, piece: Piece
    ) -> float | None:
        resource = await resource_of(session, piece.api_version, piece.kind)
        informer = session.track(resource)
        await informer.wait_synced()
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
        live = informer.get((namespace, piece.name))
        if live is None:
            live = await self._look(session, resource, piece)
        force = live is not None
        others = self._claim(workload, piece, live)
        if resource.namespaced:
            await self._namespace(session, namespace)
        client = session.client_for(piece.namespace)
        try:
            answer = await client.apply(
                resource,
                _owned_by_all(piece, others, resource),
                name=piece.name,
                namespace=namespace or None,
                force=force,
            )
        except Conflict as e:
            if force:
                raise
            raise Refused(
                PropagatedReason.ALREADY_EXISTS,
                f"{session.name}: {piece.kind} {namespace}/{piece.name} appeared meanwhile: {e}",
            ) from e
        except (Invalid, BadRequest, Forbidden, NotFound) as e:
            if isinstance(e, NotFound):
                self._namespaces.discard((session.name, id(session.link), namespace))
            raise _rejected(session, piece, e) from e
        self._remember(session, informer, resource, piece, answer)

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
        others = {uid: key for uid, key in known.items() if key != workload.metadata.key}
        strangers = [
            "/".join(key)
            for key in others.values()
            if not piece.shared or key[0] != workload.metadata.namespace
        ]
        if strangers:
            raise Refused(
                PropagatedReason.ALREADY_EXISTS,
                f"{where} belongs to Workload {', '.join(sorted(strangers))}",
            )
        return {OWNER_PREFIX + uid: "/".join(key) for uid, key in others.items()}

    async def _namespace(self, session: MemberSession, name: str) -> None:
        """Create the namespace where it is missing.

        It is never removed: others may have moved in.
        """
        known = (session.name, id(session.link), name)
        if known in self._namespaces:
            return
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        client = session.client
        if client is not None:
            try:
                await client.get(NAMESPACES, name)
            except NotFound:
                with suppress(AlreadyExists):
                    await client.create(NAMESPACES, body)
            except Forbidden:
                pass  # not ours to look at: the write itself will say whether it is there
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
                if rest:
                    patch = {"metadata": {"annotations": {OWNER_PREFIX + uid: None}}}
                    answer = await client.merge_patch(
                        resource, meta.name, patch, namespace=namespace
                    )
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


def known_to_be(session: MemberSession) -> bool:
    """Whether `owned` tells the whole truth: the member answers, and all of it has been listed."""
    if not session.ready or session.link is None:
        return False
    return all(informer.synced for informer in session.link.managed.values())


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


def _owned_by_all(piece: Piece, others: Mapping[str, str], resource: Resource) -> Mapping[str, Any]:
    """The body with the annotations of all owners: what an apply leaves out, it takes away."""
    meta = piece.body["metadata"]
    whole = {**meta, "annotations": {**meta["annotations"], **others}}
    if not resource.namespaced:
        whole.pop("namespace", None)
    return {**piece.body, "metadata": whole}


def _rejected(session: MemberSession, piece: Piece, fault: ApiError) -> Refused:
    where = f"{piece.kind} {piece.namespace}/{piece.name}"
    return Refused(PropagatedReason.REJECTED, f"{session.name}: {where}: {fault}")
