"""Writes to members whose outcome is not known.

A write counts from the moment before it is sent. An answer settles it; without one (the connection
broke, the time was up, the task was cancelled) the object may exist, or appear a moment later.
While a write is unsettled, a member must not be said to hold nothing of its Workload; a read of the
place itself, not a watch, settles it once the request has had the time to arrive.

That time is no proof: a request of a dead process may arrive later still, and its object is then an
object without an owner, which is removed when the member's watch shows it (`removal.orphans`).
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
"""How long a request without an answer may still be carried out. A server stops when the client
hangs up, but for a write that it had already handed to its store."""
_UNDER_WAY = float("inf")


class UnconfirmedWrites:
    """The unconfirmed writes, by member and by the UID of the Workload."""

    def __init__(self, shares: ShareTable, *, clock: Clock) -> None:
        self._clock = clock
        # Should a removed member return, all of it is listed again.
        self._ripe = shares.column(dict[ObjectPlace, float])

    @contextmanager
    def sending(self, place: ObjectPlace, uid: str) -> Iterator[None]:
        """Hold this from before a write for that Workload is sent until its answer."""
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
        """Read the places of ripe writes; return a sentence for each write that stays unconfirmed.

        The member's informer shows what was found. Raises TransportError.
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
        """Record that it is known what is in the place."""
        writes = self._ripe.get(uid, place.member) or {}
        writes.pop(place, None)
        if not writes:
            self._ripe.pop(uid, place.member)


async def _read(session: MemberSession, place: ObjectPlace) -> None:
    """Read the place on the member, and show the object in the informer if it is ours."""
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
    """Return the member's answer, where a refusal was made of it."""
    return fault.__cause__ if isinstance(fault.__cause__, ApiError) else fault


def _ended(fault: BaseException) -> bool:
    """Whether the server does no more of it; a write whose time was over there (504) may go on."""
    cause = _cause(fault)
    return isinstance(cause, ServerError) and cause.code != HTTPStatus.GATEWAY_TIMEOUT


def _refused(fault: BaseException) -> bool:
    """Whether the server did nothing: it said so, or was not asked; its own faults (5xx) may."""
    cause = _cause(fault)
    if isinstance(cause, NOTHING_SENT):
        return True
    return isinstance(cause, ApiError) and not isinstance(cause, ServerError)
