"""What a Workload no longer wants on a member goes: deleted, or let go where others own it too.

The other half of `apply`, and its order the other way round: the workload itself goes first, what
its pods need goes afterwards. Only what a member's informers show as owned by that Workload is
touched; whoever calls knows whether that is everything (`holdings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from machinery.errors import NotFound
from machinery.resources import Resource
from propagator.apply import wave_of
from propagator.holdings import owned
from propagator.kinds import resource_of
from propagator.managed import ManagedObject
from propagator.member import MemberSession
from propagator.ownership import other_owners, parting
from propagator.refusals import Refused
from propagator.render import Piece
from propagator.writebook import Place, WriteBook

KEPT = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that are let go instead of deleted: everything of everybody in them would go as well."""
AGAIN_SECONDS = 0.5
"""What has been asked to go is looked at again so soon."""


class Pruner:
    """Removes objects from members. `book` is that of the writer."""

    def __init__(self, book: WriteBook) -> None:
        self._book = book

    async def prune(self, session: MemberSession, uid: str, keep: Sequence[Piece] = ()) -> bool:
        """Remove what a Workload owns on the member beside these; whether anything was left.

        Raises TransportError.
        """
        kept = await _places(session, keep)
        there = [(_place(session, *each), each[1]) for each in owned(session, uid)]
        leaving = [(place, found) for place, found in there if place not in kept]
        leaving.sort(key=lambda pair: -wave_of(pair[0].resource.kind))
        for place, found in leaving:
            async with self._book.lock(place):
                await _release(session, place, found, uid)
                self._book.removed(place)
        return bool(leaving)


def _place(session: MemberSession, resource: Resource, found: ManagedObject) -> Place:
    return Place(session.name, resource, found.metadata.namespace, found.metadata.name)


async def _places(session: MemberSession, pieces: Sequence[Piece]) -> set[Place]:
    """Where the pieces lie; a kind that the member lacks has nothing there."""
    places = set()
    for piece in pieces:
        with suppress(Refused):
            resource = await resource_of(session, piece.api_version, piece.kind)
            places.add(Place.of(session.name, resource, piece))
    return places


async def _release(session: MemberSession, place: Place, found: ManagedObject, uid: str) -> None:
    """Delete an object, or only our part in it while others own it too."""
    live = session.track(place.resource).get(place.key) or found
    last = not other_owners(live, uid)
    with suppress(NotFound):
        if not last or place.resource.kind in KEPT:
            await _part(session, place, uid, last=last)
        elif not live.metadata.deleting:
            client, seen = session.client_for(place.namespace), found.metadata.uid
            await client.delete(place.resource, place.name, namespace=place.namespace, uid=seen)


async def _part(session: MemberSession, place: Place, uid: str, *, last: bool) -> None:
    """Take our part out of an object that stays."""
    answer = await session.client_for(place.namespace).merge_patch(
        place.resource, place.name, parting(uid, last=last), namespace=place.namespace
    )
    if not last:
        session.track(place.resource).upsert(msgspec.convert(answer, ManagedObject))
