"""Writes to members with an unknown outcome.

A write is recorded before it is sent, and an answer settles it. Without an answer the object may
exist, or appear later: the member must not count as clean until a read of the place settles the
write, once the request has had time to arrive. This is no guarantee: a late request of a dead
process leaves an object without owner, which `removal.orphans` deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from crds.names import LABEL_MANAGED
from machinery.clock import Clock
from machinery.errors import NOTHING_SENT, ApiError, NotFound, ServerError
from propagator.apply.apply_records import ObjectPlace
from propagator.members.objects import managed
from propagator.members.session import MemberSession
from propagator.shares import ShareTable

RIPE_SECONDS = 5.0
"""How long an unanswered request may still be executed. A server stops when the client disconnects,
except for a write that it has already passed to its store.
"""
_UNDER_WAY = float("inf")


class UnconfirmedWrites:
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

        The member's informer shows the found objects. Raises TransportError.
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
    try:
        found = await session.client_for(place.namespace).get(
            place.resource, place.name, namespace=place.namespace
        )
    except NotFound:
        return
    live = managed(place.resource, found)
    if LABEL_MANAGED in live.metadata.labels:
        session.track(place.resource, place.namespace).upsert(live)


def _cause(fault: BaseException) -> BaseException:
    return fault.__cause__ if isinstance(fault.__cause__, ApiError) else fault


def _ended(fault: BaseException) -> bool:
    """Whether the server is done with it. A write that timed out there (504) may continue."""
    cause = _cause(fault)
    return isinstance(cause, ServerError) and cause.code != HTTPStatus.GATEWAY_TIMEOUT


def _refused(fault: BaseException) -> bool:
    """Whether the server did nothing. After its own faults (5xx) that is unknown."""
    cause = _cause(fault)
    if isinstance(cause, NOTHING_SENT):
        return True
    return isinstance(cause, ApiError) and not isinstance(cause, ServerError)
