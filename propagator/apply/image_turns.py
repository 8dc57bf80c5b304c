"""Who takes the images that its cluster has now: one Workload of a member after the other.

An edit of MemberCluster.spec.images changes the pods of every Workload there. Each waits for its
turn, until the one before it has rolled its pods. What makes another difference beside the images
is written at once, with them: an edit waits for nobody. The objects themselves tell, so that a new
process goes on from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from machinery.clock import Clock
from machinery.kinds.readiness import counts_of
from propagator.apply.render import ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH, Piece
from propagator.members.objects import ManagedObject
from propagator.shares import ShareTable

LOOK_SECONDS = 1.0
"""Seconds between two questions of a Workload that waits, at the least."""
LOOKS_PER_SECOND = 10
"""Questions of all that wait on one member: each of them renders the whole Workload."""
LONGEST_SECONDS = 600.0
"""For how long one that does not become ready holds back the others."""


Look: TypeAlias = Callable[[], ManagedObject | None]
"""Returns the main object of a Workload as its member shows it now."""


@dataclass(frozen=True, slots=True)
class _Turn:
    uid: str
    since: float
    main: Piece
    look: Look
    units: int

    def over(self, now: float) -> bool:
        """Whether all pods run with the new images, or that takes too long."""
        live = self.look()
        if live is None or now - self.since >= LONGEST_SECONDS:
            return True
        if live.metadata.annotations.get(ANNOTATION_HASH) != self.main.digest:
            return False  # not written yet, or not shown
        # What leaves the member is lowered, and written no more.
        units = self.units if live.replicas is None else min(self.units, live.replicas)
        found = counts_of(live.judged, units)
        ready = min(found.updated, found.ready) >= units
        return found.observed and ready and not found.outdated


class ImageTurns:
    """One turn a member."""

    def __init__(self, shares: ShareTable, *, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[str, _Turn] = {}
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        self._known = shares.column(bool, ended=self._end)
        """Whether a share waits, or has had a turn."""

    def pause(self, member: str, uid: str, main: Piece, look: Look, units: int) -> float | None:
        """Return the seconds for which a Workload stays as it is on that member; None: write it.

        `units` is the number that its main object is asked for.
        """
        live, now = look(), self._clock.monotonic()
        waiting = self._waiting[member]
        waiting.discard(uid)
        turn = self._turns.get(member)
        if turn is not None and turn.uid == uid:  # over by what is asked by now
            turn = self._turns[member] = replace(turn, main=main, look=look, units=units)
        if live is None or not _only_images(main, live):
            return None
        if turn is not None and turn.uid != uid and not turn.over(now):
            waiting.add(uid)
            self._known.put(uid, member, True)
            return max(LOOK_SECONDS, len(waiting) / LOOKS_PER_SECOND)
        since = now if turn is None or turn.uid != uid else turn.since
        self._turns[member] = _Turn(uid, since, main, look, units)
        self._known.put(uid, member, True)
        return None

    def _end(self, uid: str, member: str, _: bool) -> None:
        self._waiting[member].discard(uid)
        turn = self._turns.get(member)
        if turn is not None and turn.uid == uid:
            del self._turns[member]


def _only_images(main: Piece, live: ManagedObject) -> bool:
    """Whether the object would be as it is, were it not for the images of its cluster."""
    said = live.metadata.annotations
    applied = said.get(ANNOTATION_HASH)
    before = said.get(ANNOTATION_TEMPLATE_HASH, applied)
    return main.digest != applied and main.template_digest == before
