"""What was written where: whether it still stands, and for how long to leave it alone if not.

An object is written again only when it, or what is wanted of it, has changed: each write is
remembered by the digest of what was asked for and by what the server called the result. One that
somebody changes back as soon as it was written is fought over; the truces between two rounds grow,
so that two controllers at odds do not load the member. Nothing here does I/O.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

from crds.names import OWNER_PREFIX
from machinery.clock import Clock
from machinery.objects import Key
from machinery.resources import Resource
from propagator.managed import ManagedObject
from propagator.render import ANNOTATION_HASH, Piece

FIGHT_SECONDS = 5.0
"""An object that somebody changes back sooner than this after our write is fought over."""
LONGEST_TRUCE = 60.0


class Place(NamedTuple):
    """Where an object lies; the namespace is empty for kinds that have none."""

    member: str
    resource: Resource
    namespace: str
    name: str

    @classmethod
    def of(cls, member: str, resource: Resource, piece: Piece) -> Place:
        """Where that piece is to lie on a member."""
        return cls(member, resource, piece.namespace if resource.namespaced else "", piece.name)

    @property
    def key(self) -> Key:
        """As an informer over the place's resource knows the object."""
        return self.namespace, self.name


@dataclass(slots=True)
class _Written:
    """What is known of our last write of an object."""

    digest: str
    stamp: tuple[str, int | str]
    at: float
    fights: int = 0


class WriteBook:
    """The last write at each place, and who is at work there now. One for a term."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[Place, _Written] = {}
        self._given_back: set[Place] = set()
        self._locks: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()

    def lock(self, place: Place) -> asyncio.Lock:
        """To be held by whoever writes or removes there; it lives while somebody wants it."""
        return self._locks.setdefault(place, asyncio.Lock())

    def stands(self, place: Place, piece: Piece, live: ManagedObject, uid: str) -> bool:
        """Whether the object is as we wrote it, and that is what is wanted for that owner."""
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

    def truce(self, place: Place, piece: Piece) -> float:
        """How long to leave an object alone that is changed back as soon as we write it; seconds.

        Zero or less: not at all.
        """
        written = self._written.get(place)
        if written is None or written.digest != piece.digest:
            return 0.0
        since = self._clock.monotonic() - written.at
        if since > LONGEST_TRUCE + FIGHT_SECONDS:
            written.fights = 0
        pause = min(0.5 * 2.0**written.fights - 0.5, LONGEST_TRUCE)
        return pause - since

    def remember(self, place: Place, piece: Piece, found: ManagedObject) -> None:
        """The piece was written there just now, with that result."""
        before = self._written.get(place)
        again = before is not None and before.digest == piece.digest
        fights = before.fights + 1 if before is not None and again else 0
        self._written[place] = _Written(
            piece.digest, _stamp(found), self._clock.monotonic(), fights
        )
        self._given_back.discard(place)

    def give_back(self, place: Place) -> None:
        """What was written there turned out to be somebody else's."""
        self._given_back.add(place)

    def given_back(self, place: Place) -> bool:
        """Whether that was so at the last write: an informer may still show the object as ours."""
        return place in self._given_back

    def removed(self, place: Place) -> None:
        """We took away what lay there, or our part in it."""
        self._written.pop(place, None)

    def forget(self, member: str) -> None:
        """The member is gone, or another one: nothing is known of it any more."""
        self._written = {p: w for p, w in self._written.items() if p.member != member}
        self._given_back = {p for p in self._given_back if p.member != member}


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
