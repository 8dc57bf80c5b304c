"""The last apply of each object: whether it still stands, and how long to leave it alone if not.

An object is written again only when it, or what is wanted of it, has changed. What was asked for
last is told by the digest on the object, and whether anybody has changed that since by the fields
that our apply still owns (`field_digest`): both lie on the member, so that a new process, which
remembers nothing, writes nothing either. One that somebody changes back, or deletes, as soon as it
was written is fought over; the pauses between two rounds grow, so that two controllers at odds do
not load the member, and the Workload's status says who they are, until the object has stood for
longer than it ever did between two rounds. A removal of ours is no round, nor is one that the
member's garbage collector made of it. Nothing here does I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from crds.names import OWNER_PREFIX
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.types.metadata import Key
from propagator.apply.render import ANNOTATION_HASH, Piece
from propagator.members.field_digest import print_of_body
from propagator.members.objects import ManagedObject

LONGEST_BACKOFF = 60.0
"""Seconds between two writes of an object that is changed back each time."""
PEACE_SECONDS = 120.0
"""Left as written for so long, an object is not fought over: its next change is the first."""
OPEN_FIGHT = 2
"""So many times in a row changed back, an object is told to be fought over."""
LEAST_PEACE_SECONDS = 5.0
"""An object that is changed back within moments has to stand for so long before that is over."""


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Where an object lies; the namespace is empty for kinds that have none.

    A server shows the same object in every version of its kind, so the version tells no two places
    apart. `resource` is how whoever made this asks for it.
    """

    member: str
    group: str
    kind: str
    namespace: str
    name: str
    resource: Resource = field(compare=False)

    @classmethod
    def at(cls, member: str, resource: Resource, key: Key) -> ObjectPlace:
        """Where the object of that key lies, empty or not."""
        namespace = key[0] if resource.namespaced else ""
        return cls(member, resource.group, resource.kind, namespace, key[1], resource)

    @classmethod
    def of(cls, member: str, resource: Resource, piece: Piece) -> ObjectPlace:
        """Where that piece is to lie on a member."""
        return cls.at(member, resource, (piece.namespace, piece.name))

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(part for part in self.key if part)}"

    @property
    def key(self) -> Key:
        """As an informer over the place's resource knows the object."""
        return self.namespace, self.name


@dataclass(slots=True)
class _Written:
    """What is known of our last write of an object."""

    digest: str
    stamp: tuple[Hashable, ...]
    at: float
    uids: frozenset[str]
    """Its own UID, and those of what it goes with when the garbage collector takes that away."""
    rounds: int = 0
    """How many times in a row it was changed back."""
    rivals: str = ""
    """Who did, as far as the object tells."""
    deleted: bool = False
    """Whether it was deleted, the last time, and not changed."""
    stood: float = 0.0
    """The longest time, in seconds, that it was left as written between two rounds."""
    turned: bool = False
    """Whether it has been seen changed or gone since it was written."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """An object is left alone for some seconds; `sentence` says why where that is worth telling."""

    seconds: float
    sentence: str = ""


class ApplyRecords:
    """The last write at each place, and who is at work there now."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._written: dict[ObjectPlace, _Written] = {}
        self._places: dict[str, set[ObjectPlace]] = {}
        self._removals: dict[str, float] = {}  # when we sent one, by the object's UID
        self._locks: WeakValueDictionary[ObjectPlace, asyncio.Lock] = WeakValueDictionary()

    def lock(self, place: ObjectPlace) -> asyncio.Lock:
        """To be held by whoever writes or removes there; it lives while somebody wants it."""
        return self._locks.setdefault(place, asyncio.Lock())

    def stands(self, place: ObjectPlace, piece: Piece, live: ManagedObject, uid: str) -> bool:
        """Whether the object is as we wrote it, and that is what is wanted for that owner."""
        meta = live.metadata
        if meta.deleting or OWNER_PREFIX + uid not in meta.annotations:
            return False
        if meta.annotations.get(ANNOTATION_HASH) != piece.digest or not _marked(piece, live):
            return False
        written = self._written.get(place)
        if written is not None and written.digest == piece.digest:
            if meta.owner_references:  # a controller there may tie it to another object at any time
                written.uids |= _uids(live)
            return written.stamp == _stamp(live)
        return _untouched(piece, live)

    def backoff(
        self, place: ObjectPlace, piece: Piece, live: ManagedObject | None
    ) -> Backoff | None:
        """For how long to leave alone an object that does not stand; None: write it now."""
        written = self._written.get(place)
        if written is None or written.digest != piece.digest:
            return None
        if self._ours(written):
            self._written.pop(place)
            return None
        self._turn(written, live)
        pause = min(0.5 * 2.0**written.rounds - 0.5, LONGEST_BACKOFF)
        left = written.at + pause - self._clock.monotonic()
        return Backoff(left, self._sentence(place, piece, written)) if left > 0 else None

    def fight(self, place: ObjectPlace, piece: Piece) -> Backoff | None:
        """An object that stands, but was changed back too often of late to be relied upon."""
        written = self._written.get(place)
        if written is None or written.digest != piece.digest or written.rounds < OPEN_FIGHT:
            return None
        peace = min(max(2 * written.stood, LEAST_PEACE_SECONDS), PEACE_SECONDS)
        left = written.at + peace - self._clock.monotonic()
        return Backoff(left, self._sentence(place, piece, written)) if left > 0 else None

    def remember(self, place: ObjectPlace, piece: Piece, found: ManagedObject, uid: str) -> None:
        """The piece was written there just now for the Workload of that UID, with that result."""
        now, before = self._clock.monotonic(), self._written.get(place)
        written = _Written(piece.digest, _stamp(found), now, _uids(found))
        if before is not None and before.digest == piece.digest and not self._ours(before):
            written.rivals, written.stood = before.rivals, before.stood
            written.deleted = found.metadata.uid != before.stamp[0]
            if now - before.at <= PEACE_SECONDS:
                written.rounds = before.rounds + 1
        self._written[place] = written
        self._places.setdefault(uid, set()).add(place)

    def sent_removal(self, uid: str) -> None:
        """The deletion of the object of that UID is sent: that it goes is nobody else's doing."""
        now = self._clock.monotonic()
        while self._removals and now - next(iter(self._removals.values())) > PEACE_SECONDS:
            del self._removals[next(iter(self._removals))]
        self._removals.setdefault(uid, now)

    def _ours(self, written: _Written) -> bool:
        """Whether it went by a removal of ours, or with what we removed."""
        return not self._removals.keys().isdisjoint(written.uids)

    def _turn(self, written: _Written, live: ManagedObject | None) -> None:
        """What was written is seen not to stand; `live` is what is there instead."""
        if live is not None:
            written.rivals = ", ".join(live.rivals) or written.rivals
        written.deleted = live is None or live.metadata.uid != written.stamp[0]
        if not written.turned:
            written.turned = True
            written.stood = max(written.stood, self._clock.monotonic() - written.at)

    def _sentence(self, place: ObjectPlace, piece: Piece, written: _Written) -> str:
        if written.rounds < OPEN_FIGHT:
            return ""
        where = f"{place.member}: {piece.kind} {place.namespace}/{place.name}"
        if written.deleted:
            last = f"; {written.rivals} wrote to it last" if written.rivals else ""
            return (
                f"{where} is deleted each time it is written, by somebody{last}: find who deletes "
                "it there, such as a clean-up job or another tool that manages the namespace"
            )
        return (
            f"{where} is changed back each time it is written, by {written.rivals or 'somebody'}: "
            "take it out of what else manages it there, such as a HorizontalPodAutoscaler"
        )

    def removed(self, place: ObjectPlace) -> None:
        """We took away what lay there, or our part in it."""
        self._written.pop(place, None)

    def ended(self, uid: str, member: str = "") -> None:
        """A Workload has left the member, or all; what was written there is of no interest."""
        places = self._places.pop(uid, set())
        left = {place for place in places if member in ("", place.member)}
        for place in left:
            self._written.pop(place, None)
        if places - left:
            self._places[uid] = places - left

    def clear(self) -> None:
        """Another process has written since: all stands by its digest alone, as after a start."""
        self._written.clear()
        self._places.clear()

    def forget(self, member: str) -> None:
        """The member is gone, or another one: nothing is known of it any more."""
        self._written = {p: w for p, w in self._written.items() if p.member != member}
        for uid, places in list(self._places.items()):
            self._places[uid] = {p for p in places if p.member != member}


def _stamp(found: ManagedObject) -> tuple[Hashable, ...]:
    """Changes whenever somebody changes what was asked for.

    Of a server that does not say who wrote what: with any change of the spec, or any at all.
    """
    meta = found.metadata
    if found.applied is None:
        return meta.uid, meta.generation or meta.resource_version
    return meta.uid, found.applied


def _uids(found: ManagedObject) -> frozenset[str]:
    return frozenset({found.metadata.uid, *(ref.uid for ref in found.metadata.owner_references)})


def _untouched(piece: Piece, live: ManagedObject) -> bool:
    """Whether our apply still owns all that the piece asks for."""
    if live.applied is None:
        return False
    return live.applied.number == print_of_body(piece.body, live.applied.merged)


def _marked(piece: Piece, live: ManagedObject) -> bool:
    """Whether the labels and annotations asked for are there; a generation does not tell."""
    meta = piece.body["metadata"]
    pairs = (
        (meta["labels"], live.metadata.labels),
        (meta["annotations"], live.metadata.annotations),
    )
    return all(there.get(key) == value for asked, there in pairs for key, value in asked.items())
