"""Writes to members of which it is not known what became of them.

A write counts from the moment before it is sent. An answer settles it; without one (the connection
broke, the time was up, the task was cancelled) the object may be there, or appear a moment later.
Nobody may say that a member holds nothing of a Workload while there is such a doubt; it is settled
by looking at the place itself, not at a watch, once the request has had the time to arrive.

That time is no proof: what a dead process sent may come later still, and is then an object without
an owner, which is taken away when the member's watch shows it (`orphans`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crds.names import LABEL_MANAGED
from machinery.clock import Clock
from machinery.errors import ApiError, NotFound, ServerError
from propagator.apply.apply_records import ObjectPlace
from propagator.members.objects import managed
from propagator.members.target import Target

RIPE_SECONDS = 5.0
"""An answer that did not come in time does not keep its request from being carried out. A server
stops when the client hangs up, but for what it had already handed to its store."""
_UNDER_WAY = float("inf")


class UnconfirmedWrites:
    """By member and UID of the Workload."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._ripe: dict[tuple[str, str], dict[ObjectPlace, float]] = {}

    @contextmanager
    def sending(self, place: ObjectPlace, uid: str) -> Iterator[None]:
        """To be held by whoever sends a write for that Workload, from before until its answer."""
        self._ripe.setdefault((place.member, uid), {})[place] = _UNDER_WAY
        try:
            yield
        except BaseException as fault:
            if _refused(fault):
                self.settle(place, uid)
            else:
                answered = isinstance(_cause(fault), ServerError)
                ripe = self._clock.monotonic() + (0.0 if answered else RIPE_SECONDS)
                self._ripe.setdefault((place.member, uid), {})[place] = ripe
            raise
        self.settle(place, uid)

    async def resolve(self, session: Target, uid: str) -> list[str]:
        """Look at each place that is in doubt, if it is time; in sentences, what is so still.

        What is found there is held by the member's informer afterwards. Raises TransportError.
        """
        unsure = []
        for place, ripe in list(self._ripe.get((session.name, uid), {}).items()):
            if ripe <= self._clock.monotonic():
                await _look(session, place)
                self.settle(place, uid)
            else:
                sentence = "a write was not answered, and may still arrive"
                unsure.append(f"{session.name}: {place}: {sentence}")
        return unsure

    def settle(self, place: ObjectPlace, uid: str) -> None:
        """It is known what lies there."""
        doubts = self._ripe.get((place.member, uid), {})
        doubts.pop(place, None)
        if not doubts:
            self._ripe.pop((place.member, uid), None)

    def drop(self, uid: str) -> None:
        """Nobody asks about that Workload any more."""
        self._ripe = {key: doubts for key, doubts in self._ripe.items() if key[1] != uid}

    def forget(self, member: str) -> None:
        """The member was removed: when it comes back, all of it is listed anew."""
        self._ripe = {key: doubts for key, doubts in self._ripe.items() if key[0] != member}


async def _look(session: Target, place: ObjectPlace) -> None:
    """Ask the member itself what lies there, and have its informer know it if it is ours."""
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
    """What the member answered, where a refusal was made of it."""
    return fault.__cause__ if isinstance(fault.__cause__, ApiError) else fault


def _refused(fault: BaseException) -> bool:
    """Whether the server said that it did nothing. Its own troubles (5xx) leave that open."""
    cause = _cause(fault)
    return isinstance(cause, ApiError) and not isinstance(cause, ServerError)
