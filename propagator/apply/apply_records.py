"""What this process knows of its writes: what stands, what is contested, what was not answered.

A digest on the object identifies the last apply, and its managedFields show changes since. An
object that another manager reverts or deletes after each apply is contested: the pauses grow until
it stays unchanged for longer than between any two rounds. Our own deletions are no rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from crds.names import ANNOTATION_DRIFT, LABEL_MANAGED, ORPHAN_PREFIX, OWNER_PREFIX
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import NOTHING_SENT, ApiError, ServerError
from machinery.tasks import KeyedLocks
from machinery.types.metadata import Key
from propagator.apply.render import ANNOTATION_HASH, Piece
from propagator.members.objects import ManagedObject, managed, print_of_body
from propagator.members.session import MemberSession
from propagator.shares import ShareTable

LONGEST_BACKOFF = 60.0
"""Maximum seconds between two applies of an object that is reverted each time."""
UNCONTESTED_SECONDS = 120.0
"""After so long unchanged an object's next change counts as the first."""
CONTESTED_ROUNDS = 2
"""Consecutive rounds after which an object is reported as contested."""
LEAST_UNCONTESTED_SECONDS = 5.0
"""Minimum seconds a contested object must stay unchanged before the contest ends."""


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Places compare without the version: a server shows an object in every version of its kind."""

    member: str
    group: str
    kind: str
    namespace: str
    name: str
    resource: Resource = field(compare=False)

    @classmethod
    def at(cls, member: str, resource: Resource, key: Key) -> ObjectPlace:
        namespace = key[0] if resource.namespaced else ""
        return cls(member, resource.group, resource.kind, namespace, key[1], resource)

    @classmethod
    def of(cls, member: str, resource: Resource, piece: Piece) -> ObjectPlace:
        return cls.at(member, resource, (piece.namespace, piece.name))

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(part for part in self.key if part)}"

    @property
    def key(self) -> Key:
        return self.namespace, self.name


@dataclass(slots=True)
class _Written:
    asked: tuple[str, str]
    """The digest of the piece, and the note of the fields it leaves out."""
    stamp: tuple[Hashable, ...]
    at: float
    uids: frozenset[str]
    """Its own UID and its owner references', which garbage collection follows."""
    owners: Collection[str] = ()
    """The UIDs of the Workloads that it was applied for."""
    rounds: int = 0
    """Consecutive reverts."""
    rivals: str = ""
    """The managers that reverted it, if the object names them."""
    deleted: bool = False
    """Whether the last round deleted it."""
    stood: float = 0.0
    """The longest seconds that it stayed unchanged between two rounds."""
    joined: bool = False
    """Whether only an owner was missing when last compared."""
    turned: bool = False
    """Whether a change or deletion was seen since the last apply."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """`sentence` is the reason if it should be reported."""

    seconds: float
    sentence: str = ""


class ApplyRecords:
    def __init__(self, shares: ShareTable, *, clock: Clock) -> None:
        self._clock = clock
        # Not across terms: after another leader's writes only the digests decide.
        self._places = shares.column(set[ObjectPlace], of_term=True, ended=self._end)
        self._written: dict[ObjectPlace, _Written] = {}
        self._removals: dict[str, float] = {}  # when we sent one, by the object's UID
        self._locks: KeyedLocks[ObjectPlace] = KeyedLocks()

    def lock(self, place: ObjectPlace) -> asyncio.Lock:
        """Hold it for each write or removal in the place."""
        return self._locks.of(place)  # dropped with its last user

    def stands(self, place: ObjectPlace, piece: Piece, live: ManagedObject, uid: str) -> bool:
        meta = live.metadata
        if meta.deleting:
            return False
        if OWNER_PREFIX + uid not in meta.annotations:
            self._joins(place, piece, live)
            return False
        if meta.annotations.get(ANNOTATION_HASH) != piece.digest or not marked(piece, live):
            return False
        orphan = ORPHAN_PREFIX + uid  # no part of the digest, which owners of a Secret share
        if (orphan in meta.annotations) != (orphan in piece.body["metadata"]["annotations"]):
            return False
        written = self._written.get(place)
        if written is not None and written.asked == _asked(piece):
            if meta.owner_references:  # a controller there may add one at any time
                written.uids |= _uids(live)
            return written.stamp == _stamp(live)
        return _untouched(piece, live)

    def wrote(self, place: ObjectPlace, piece: Piece) -> bool:
        written = self._written.get(place)
        return written is not None and written.asked == _asked(piece)

    def _joins(self, place: ObjectPlace, piece: Piece, live: ManagedObject) -> None:
        """If only the owner is missing, the apply that adds it is no round."""
        written = self._written.get(place)
        if written is not None and written.asked == _asked(piece):
            written.joined = written.stamp == _stamp(live)

    def backoff(
        self, place: ObjectPlace, piece: Piece, live: ManagedObject | None
    ) -> Backoff | None:
        """Return how long to leave an outdated object alone; None to write it now."""
        written = self._written.get(place)
        if written is None or written.asked != _asked(piece):
            return None
        if self._ours(written):
            self.removed(place)
            return None
        if written.joined:
            return None
        self._turn(written, live)
        pause = min(0.5 * 2.0**written.rounds - 0.5, LONGEST_BACKOFF)
        left = written.at + pause - self._clock.monotonic()
        return Backoff(left, self._sentence(place, piece, written)) if left > 0 else None

    def contest(self, place: ObjectPlace, piece: Piece) -> Backoff | None:
        written = self._written.get(place)
        if written is None or written.asked != _asked(piece) or written.rounds < CONTESTED_ROUNDS:
            return None
        uncontested = min(max(2 * written.stood, LEAST_UNCONTESTED_SECONDS), UNCONTESTED_SECONDS)
        left = written.at + uncontested - self._clock.monotonic()
        return Backoff(left, self._sentence(place, piece, written)) if left > 0 else None

    def remember(self, place: ObjectPlace, piece: Piece, found: ManagedObject, uid: str) -> None:
        now, before = self._clock.monotonic(), self._written.get(place)
        written = _Written(_asked(piece), _stamp(found), now, _uids(found))
        if before is not None and before.asked == _asked(piece) and not self._ours(before):
            written.rivals, written.stood = before.rivals, before.stood
            written.deleted = found.metadata.uid != before.stamp[0]
            if now - before.at <= UNCONTESTED_SECONDS:
                written.rounds = before.rounds + (0 if before.joined else 1)
        written.owners = {uid, *(before.owners if before is not None else ())}
        self._written[place] = written
        self._places.at(uid, place.member).add(place)

    def accept(self, place: ObjectPlace, piece: Piece, found: ManagedObject, uid: str) -> None:
        """Others changed nothing but what is theirs: that is no round."""
        before = self._written.pop(place, None)  # a change of theirs is no round
        self.remember(place, piece, found, uid)
        self._written[place].owners = {uid, *(before.owners if before is not None else ())}

    def sent_removal(self, uid: str) -> None:
        """Record that we deleted the object of that UID: its end is then no round."""
        now = self._clock.monotonic()
        while self._removals and now - next(iter(self._removals.values())) > UNCONTESTED_SECONDS:
            del self._removals[next(iter(self._removals))]
        self._removals.setdefault(uid, now)

    def _ours(self, written: _Written) -> bool:
        return not self._removals.keys().isdisjoint(written.uids)

    def _turn(self, written: _Written, live: ManagedObject | None) -> None:
        if live is not None:
            written.rivals = ", ".join(live.rivals) or written.rivals
        written.deleted = live is None or live.metadata.uid != written.stamp[0]
        if not written.turned:
            written.turned = True
            written.stood = max(written.stood, self._clock.monotonic() - written.at)

    def _sentence(self, place: ObjectPlace, piece: Piece, written: _Written) -> str:
        if written.rounds < CONTESTED_ROUNDS:
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
        written = self._written.pop(place, None)
        for uid in written.owners if written is not None else ():
            places = self._places.get(uid, place.member) or set()
            places.discard(place)
            if not places:
                self._places.pop(uid, place.member)

    def _end(self, uid: str, member: str, places: set[ObjectPlace]) -> None:
        for place in places:
            self._written.pop(place, None)


def _asked(piece: Piece) -> tuple[str, str]:
    return piece.digest, piece.body["metadata"]["annotations"].get(ANNOTATION_DRIFT, "")


def _stamp(found: ManagedObject) -> tuple[Hashable, ...]:
    """Without a digest of our entry it changes with the generation, or any version."""
    meta = found.metadata
    if found.applied is None:
        return meta.uid, meta.generation or meta.resource_version
    return meta.uid, found.applied


def _uids(found: ManagedObject) -> frozenset[str]:
    return frozenset({found.metadata.uid, *(ref.uid for ref in found.metadata.owner_references)})


def _untouched(piece: Piece, live: ManagedObject) -> bool:
    if live.applied is None:
        return False
    return live.applied.number == print_of_body(piece.body, live.applied.merged)


def marked(piece: Piece, live: ManagedObject) -> bool:
    """Labels and annotations change no generation."""
    meta = piece.body["metadata"]
    pairs = (
        (meta["labels"], live.metadata.labels),
        (meta["annotations"], live.metadata.annotations),
    )
    return all(there.get(key) == value for asked, there in pairs for key, value in asked.items())


RIPE_SECONDS = 5.0
"""How long an unanswered request may still be executed. A server stops when the client disconnects,
except for a write that it has already passed to its store.
"""
_UNDER_WAY = float("inf")


class UnconfirmedWrites:
    """Writes to members with an unknown outcome, recorded before they are sent.

    A member is not clean until an answer, or a read after RIPE_SECONDS, settles each.
    """

    def __init__(self, shares: ShareTable, *, clock: Clock) -> None:
        self._clock = clock
        # If a removed member returns, all of it is listed again.
        self._ripe = shares.column(dict[ObjectPlace, float])

    @contextmanager
    def sending(self, place: ObjectPlace, uid: str) -> Iterator[None]:
        """Hold this from before a write is sent until its answer."""
        self._ripe.at(uid, place.member)[place] = _UNDER_WAY
        try:
            yield
        except BaseException as fault:
            if _refused(fault):
                self.settle(place, uid)
            else:
                ripe = self._clock.monotonic() + (0.0 if _ended(fault) else RIPE_SECONDS)
                self._ripe.at(uid, place.member)[place] = ripe
            raise
        self.settle(place, uid)

    async def resolve(self, session: MemberSession, uid: str) -> list[str]:
        """Read the places of ripe writes; return a sentence for each that stays unconfirmed.

        Raises TransportError.
        """
        unsure = []
        for place, ripe in list((self._ripe.get(uid, session.name) or {}).items()):
            if ripe <= self._clock.monotonic():
                await _read(session, place)
                self.settle(place, uid)
            else:
                sentence = "a write was not answered, and may still arrive"
                unsure.append(f"{session.name}: {place}: {sentence}")
        return unsure

    def settle(self, place: ObjectPlace, uid: str) -> None:
        writes = self._ripe.get(uid, place.member) or {}
        writes.pop(place, None)
        if not writes:
            self._ripe.pop(uid, place.member)


async def _read(session: MemberSession, place: ObjectPlace) -> None:
    client = session.client_for(place.namespace)
    found = await client.find(place.resource, place.name, namespace=place.namespace)
    if found is None:
        return
    live = managed(place.resource, found)
    if LABEL_MANAGED in live.metadata.labels:
        session.track(place.resource, place.namespace).upsert(live)


def _cause(fault: BaseException) -> BaseException:
    return fault.__cause__ if isinstance(fault.__cause__, ApiError) else fault


def _ended(fault: BaseException) -> bool:
    """A write that timed out there (504) may continue."""
    cause = _cause(fault)
    return isinstance(cause, ServerError) and cause.code != HTTPStatus.GATEWAY_TIMEOUT


def _refused(fault: BaseException) -> bool:
    """After its own faults (5xx) that is unknown."""
    cause = _cause(fault)
    if isinstance(cause, NOTHING_SENT):
        return True
    return isinstance(cause, ApiError) and not isinstance(cause, ServerError)
