"""Removes what a Workload no longer wants on a member: the workload itself first.

Only objects that the informers show as the Workload's are touched; the caller knows whether these
are all (`inventory`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from crds.workload import PropagatedReason
from machinery.api.resources import Resource
from machinery.errors import Forbidden, NotFound
from machinery.kinds.paths import set_at
from machinery.kinds.table import profile_of
from propagator.apply.applier import wave_of
from propagator.apply.apply_records import ApplyRecords, ObjectPlace
from propagator.apply.render import ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH, Piece
from propagator.drift.fields import applied
from propagator.errors import Refused
from propagator.members.context import ControllerContext
from propagator.members.inventory import owned
from propagator.members.kinds import resource_of
from propagator.members.objects import ManagedObject, managed, owners
from propagator.members.pods import main_of
from propagator.members.restored import NOTHING, Restored
from propagator.members.session import MemberSession
from propagator.members.watches import Found
from propagator.removal.remover import Remover, newest
from propagator.removal.rule import NOTHING_TO_TELL, Grant, Stays, granted
from propagator.types.workload import Workload, WorkTold

_SAID: Mapping[Grant | Stays, tuple[PropagatedReason, str]] = {
    Stays.YOUNGER: (
        PropagatedReason.HUB_RESTORED,
        (
            "stays for now: it was written for a younger version of the Workload than the hub has, "
            "so the hub was set back or restored; an edit of the Workload decides, or "
            "`stowage restore --accept`"
        ),
    ),
    Stays.UNTOLD: (
        PropagatedReason.PROPAGATING,
        "stays until the hub knows how much of its work it has done",
    ),
}

Chosen = Callable[[ManagedObject], bool]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The objects that are still there after all deletions were requested, and why."""

    waiting: Mapping[ObjectPlace, str]
    """Deletions that were sent, or that wait for the hub's Lease there, with the reason."""
    refused: Mapping[ObjectPlace, Refused]
    kept: bool = False
    """Whether something stays by `rule`."""

    def __bool__(self) -> bool:
        return bool(self.waiting or self.refused)


class Pruner:
    """`known` returns the hub's Workload of a UID; `records` are those of the writer."""

    def __init__(
        self,
        context: ControllerContext,
        records: ApplyRecords,
        *,
        known: Callable[[str], Workload | None],
    ) -> None:
        self._records = records
        self._known = known
        self._restored = context.restored
        self._registered = context.registry.identities.exists
        self._remover = Remover(clock=context.clock)
        self._left = context.shares.column(frozenset[ObjectPlace], ended=self._free)

    async def prune(
        self,
        session: MemberSession,
        uid: str,
        *,
        ended: bool = False,
        decided: float = math.inf,
        orphan: bool | None = None,
        left: bool = False,
        told: WorkTold = NOTHING_TO_TELL,
        keep: Sequence[Piece] = (),
        also: Sequence[tuple[Resource, ManagedObject]] = (),
        only: Chosen = lambda _: True,
    ) -> PruneResult:
        """Remove what a Workload owns on the member, except `keep`; return what is still there.

        `ended`: the Workload wants nothing anywhere any more. `decided`, `orphan`, `left` and
        `told` are those of `rule.granted`. `also` are objects that no informer shows. Raises
        TransportError.
        """
        stays, restored = False, await self._told_of(session, self._known(uid))
        kept = await _places(session, keep)
        there = [
            (ObjectPlace.at(session.name, resource, found.metadata.key), found)
            for resource, found in (*owned(session, uid), *also)
            if only(found)
        ]
        waiting: dict[ObjectPlace, str] = {}
        unheld: str | None = None  # not asked yet
        refused: dict[ObjectPlace, Refused] = {}
        for place, found in sorted(_beside(kept, there), key=_latest_first):
            rule = partial(
                granted,
                owner=uid,
                mark=session.mark,
                ended=ended,
                decided=decided,
                registered=self._registered,
                orphan=orphan,
                left=left,
                told=told,
                younger=partial(restored.younger, uid=uid),
                former=partial(restored.former, uid=uid),
            )
            if not isinstance(rule(found), Stays):
                if unheld is None:
                    unheld = await session.link.unheld() if session.link else ""
                if unheld:
                    waiting[place] = f"{session.name}: {unheld}"
                    continue
            async with self._records.lock(place):
                # Judged again: a worker may have written the object while the lock was waited for.
                grant = rule(newest(session, place, found))
                if said := _SAID.get(grant):
                    refused[place] = _refused(session, place, said)
                    continue
                if isinstance(grant, Stays):
                    stays = True
                    continue
                if not grant.let_go:
                    # Recorded before the request, so that no watch event can be first.
                    self._records.sent_removal(grant.object_uid)
                try:
                    why = await self._remover.remove(session, place, found, grant)
                except Refused as refusal:
                    refused[place] = refusal
                    continue
            if why:
                waiting[place] = why
            else:
                self._records.removed(place)
        self._remember(uid, session.name, frozenset({*waiting, *refused}))
        return PruneResult(waiting, refused, stays)

    async def lower_main(
        self, session: MemberSession, workload: Workload, replicas: int, *, decided: float
    ) -> str:
        main = main_of(workload)
        for resource, found in owned(session, workload.uid):
            if (resource.group, resource.kind) != (main.group, main.kind):
                continue
            if found.metadata.key == (main.namespace, main.name):
                about = session, workload, (resource, found), replicas
                return await self.lower(*about, decided=decided)
        return ""

    async def lower(
        self,
        session: MemberSession,
        workload: Workload,
        which: Found,
        replicas: int,
        *,
        decided: float,
    ) -> str:
        """Lower an object of a Workload; return why that has to wait, or empty.

        Refused, TransportError.
        """
        resource, found = which
        restored = await self._told_of(session, workload)
        place = ObjectPlace.at(session.name, resource, found.metadata.key)
        async with self._records.lock(place):
            live = newest(session, place, found)
            grant = granted(
                live,
                workload.uid,
                mark=session.mark,
                ended=False,
                decided=decided,
                registered=self._registered,
                younger=partial(restored.younger, uid=workload.uid),
                former=partial(restored.former, uid=workload.uid),
            )
            if live.replicas is None or live.replicas <= replicas:
                return ""
            if said := _SAID.get(grant):
                raise _refused(session, place, said)
            if isinstance(grant, Stays):
                return ""
            if why := await session.link.unheld() if session.link else "":
                return f"{session.name}: {why}"
            await _scale(session, place, live, replicas)
            self._records.removed(place)  # it does not stand as it was applied
        return ""

    async def find(
        self, session: MemberSession, workload: Workload, resource: Resource
    ) -> list[ManagedObject] | None:
        """Read by name what a Workload owns of a kind that cannot be listed; None where that fails.

        Raises TransportError.
        """
        found = []
        names = list(workload.names_of(resource.api_version, resource.kind))
        for namespace, name in names:
            client = session.client_for(namespace)
            try:
                answer = await client.get(resource, name, namespace=namespace)
            except NotFound:
                continue
            except Forbidden:
                return None
            live = managed(resource, answer)
            if workload.uid in owners(live.metadata):
                found.append(live)
        return found if names else None

    async def _told_of(self, session: MemberSession, workload: Workload | None) -> Restored:
        """Raises HubFault."""
        if workload is None:
            return NOTHING
        return await self._restored.of(workload, session.went_back_to)

    def _remember(self, uid: str, member: str, left: frozenset[ObjectPlace]) -> None:
        before = self._left.get(uid, member) or frozenset()
        if left:
            self._free(uid, member, before - left)
            self._left.put(uid, member, left)
        else:
            self._left.pop(uid, member)

    def _free(self, uid: str, member: str, places: frozenset[ObjectPlace]) -> None:
        for place in places:
            self._remover.forget(place)
            self._records.removed(place)


def _refused(
    session: MemberSession, place: ObjectPlace, said: tuple[PropagatedReason, str]
) -> Refused:
    return Refused(said[0], f"{session.name}: {place} {said[1]}")


async def _scale(
    session: MemberSession, place: ObjectPlace, live: ManagedObject, replicas: int
) -> None:
    """Apply the object once more unchanged except for its number of replicas."""
    resource, client = place.resource, session.client_for(place.namespace)
    found = await client.get(resource, place.name, namespace=place.namespace)
    body, meta = applied(found), live.metadata
    only = {"name": place.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
    body |= {"apiVersion": resource.api_version, "kind": resource.kind}
    said = body.get("metadata", {})
    # It is not what was rendered any more: placed here again, the share is written anew.
    annotations = {**said.get("annotations", {}), ANNOTATION_HASH: f"lowered-to-{replicas}"}
    annotations.pop(ANNOTATION_TEMPLATE_HASH, None)
    body["metadata"] = {**said, **only, "annotations": annotations}
    set_at(body, profile_of(resource.api_version, resource.kind).replicas_path, replicas)
    answer = await client.apply(
        resource, body, name=place.name, namespace=place.namespace, force=True
    )
    session.track(place.resource, place.namespace).upsert(managed(place.resource, answer))


def _latest_first(there: tuple[ObjectPlace, ManagedObject]) -> int:
    return -wave_of(there[0].group, there[0].kind)


def _beside(
    kept: Collection[ObjectPlace], there: Sequence[tuple[ObjectPlace, ManagedObject]]
) -> list[tuple[ObjectPlace, ManagedObject]]:
    done = {found.metadata.uid for place, found in there if place in kept}
    leaving = []
    for place, found in there:
        if place not in kept and found.metadata.uid not in done:
            done.add(found.metadata.uid)
            leaving.append((place, found))
    return leaving


async def _places(session: MemberSession, pieces: Sequence[Piece]) -> set[ObjectPlace]:
    places = set()
    for piece in pieces:
        with suppress(Refused):
            resource = await resource_of(session, piece.api_version, piece.kind)
            places.add(ObjectPlace.of(session.name, resource, piece))
    return places
