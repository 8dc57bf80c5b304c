"""Rolls out changed images of a cluster one Workload at a time.

A Workload with no other change waits until the one before it has rolled its pods. The objects
record who has rolled, so a new process continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from machinery.clock import Clock
from machinery.kinds.readiness import counts_of
from propagator.apply.render import ANNOTATION_HASH, ANNOTATION_TEMPLATE_HASH, Piece
from propagator.members.objects import ManagedObject
from propagator.shares import ShareTable

LOOK_SECONDS = 1.0
"""Minimum seconds between two checks of a waiting Workload."""
LOOKS_PER_SECOND = 10
"""Checks of all that wait on one member: each renders the whole Workload."""
LONGEST_SECONDS = 600.0
"""After so long, a Workload that is not ready no longer delays the others."""


Look: TypeAlias = Callable[[], ManagedObject | None]


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
        # A leaving share is scaled down and not applied again.
        units = self.units if live.replicas is None else min(self.units, live.replicas)
        found = counts_of(live.judged, units)
        ready = min(found.updated, found.ready) >= units
        return found.observed and ready and not found.outdated


class ImageTurns:
    def __init__(self, shares: ShareTable, *, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[str, _Turn] = {}
        self._waiting = Counter[str]()  # shares, by member
        self._waits = shares.column(bool, ended=self._end)  # False: it has, or had, the turn

    def pause(self, member: str, uid: str, main: Piece, look: Look, units: int) -> float | None:
        """Return seconds to leave a Workload of `units` replicas unchanged; None to apply it."""
        live, now = look(), self._clock.monotonic()
        if self._waits.get(uid, member):
            self._waits.pop(uid, member)
        turn = self._turns.get(member)
        if turn is not None and turn.uid == uid:  # over by what is asked by now
            turn = self._turns[member] = replace(turn, main=main, look=look, units=units)
        if live is None or not _only_images(main, live):
            return None
        if turn is not None and turn.uid != uid and not turn.over(now):
            self._waits.put(uid, member, True)
            self._waiting[member] += 1
            return max(LOOK_SECONDS, self._waiting[member] / LOOKS_PER_SECOND)
        since = now if turn is None or turn.uid != uid else turn.since
        self._turns[member] = _Turn(uid, since, main, look, units)
        self._waits.put(uid, member, False)
        return None

    def _end(self, uid: str, member: str, waits: bool) -> None:
        turn = self._turns.get(member)
        if waits:
            self._waiting[member] -= 1
        elif turn is not None and turn.uid == uid:
            del self._turns[member]


def _only_images(main: Piece, live: ManagedObject) -> bool:
    said = live.metadata.annotations
    applied = said.get(ANNOTATION_HASH)
    before = said.get(ANNOTATION_TEMPLATE_HASH, applied)
    return main.digest != applied and main.template_digest == before
