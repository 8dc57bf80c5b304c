"""Writes the statuses of a claimed kind, and in them the claims of decisions.

A burst of decisions costs a handful of writes (`controller.framework.statuswriter`). A conflict
means that another writer was faster, and all decisions in that write are checked against the claims
of that writer. Claims without room in a status wait until claims before them have landed.

A status shows the sum over all placements, recomputed each time, so a lost write or a dead
scheduler leaves nothing wrong for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controller.claims.books import ClaimBooks
from controller.claims.claims import (
    LANDED_SECONDS,
    WRITE_SECONDS,
    HeldClaim,
    Shares,
    admitted,
)
from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import Result, StatusWriter, answer
from controller.model.unit import WorkloadInfo
from machinery import metrics
from machinery.api.resources import Resource
from machinery.clock import microtime
from machinery.errors import TransportError
from machinery.types.metadata import Key, Object

CALM_SECONDS = 1.0
"""How long a status may lag behind placements when no decision claims."""
ROOM_SECONDS = 1.0
"""The interval at which claims that wait for room are tried again."""
MOST_CLAIMING = 16
"""Decisions that wait for one object's write: each holds a worker, and other objects need some too.
"""
MOST_WAITING = 8
"""Decisions that wait for room: each holds a worker. Further ones are made again later."""

CLAIMS = metrics.counter(
    "stowage_quota_claims",
    "Claims on quota",
    ("outcome",),
    zero=[("written",), ("stale",), ("busy",)],
)
T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class _Wish:
    """A decision that waits for its quota, and the epoch that it was made in."""

    taken: HeldClaim
    epoch: int
    done: asyncio.Future[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClaimDraft(Result):
    """A drafted status, with the wishes whose claims it holds."""

    wishes: dict[Key, _Wish]


class Desk(StatusWriter[T, _ClaimDraft]):
    """The objects of a kind, for one term of leadership, with the claims in their statuses.

    A subclass says which object a Workload takes quota of (`quota_of`), and which fields go into
    its status (`fields`).
    """

    def __init__(
        self, term: Term, resource: Resource, type_: type[T], *, books: ClaimBooks
    ) -> None:
        super().__init__(term, resource, type_)
        self._books = books
        self._wishes: dict[Key, dict[Key, _Wish]] = {}
        self._singly: set[Key] = set()

    def quota_of(self, unit: WorkloadInfo) -> Key | None:
        """Return the object whose quota the Workload takes; None where it takes none."""
        raise NotImplementedError

    def fields(self, stored: T, claims: Sequence[HeldClaim]) -> Mapping[str, Any] | None:
        """Return the status with these claims; None for an object that is unknown here."""
        raise NotImplementedError

    async def run(self) -> None:
        """Write until cancelled, then refuse every wish that is left."""
        try:
            await super().run()
        finally:
            for wishes in self._wishes.values():
                _answer(wishes, False)

    def forget(self, key: Key) -> None:
        """Refuse the wishes of a deleted object."""
        _answer(self._wishes.pop(key, {}), False)

    def touched(self, keys: Collection[Key]) -> None:
        """Queue objects with changed counts, to show them soon and to drop landed claims."""
        for key in keys:
            self.add(key, after=CALM_SECONDS)

    def epoch(self, unit: WorkloadInfo) -> int | None:
        """Return the epoch of a decision made now; None where the Workload takes no quota."""
        key = self.quota_of(unit)
        return None if key is None else self._books.ledger(key).epoch

    async def claim(self, unit: WorkloadInfo, placements: Shares, epoch: int | None) -> bool:
        """Take the quota of a decision of that epoch; False means to decide again.

        Raises:
            TransportError: the hub refused or could not be reached.
        """
        key = self.quota_of(unit)
        if key is None or not _grows(unit.present, placements):
            return True
        if epoch is None or epoch != self._books.ledger(key).epoch:
            CLAIMS.labels("stale").inc()
            return False
        if self._waiting(key) >= MOST_CLAIMING:
            CLAIMS.labels("busy").inc()
            return False
        now = self._clock.monotonic()
        time = microtime(self._clock.now())
        taken = HeldClaim(unit.key, unit.uid, dict(placements), self._books.holder, time, now)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._wishes.setdefault(key, {})[unit.key] = _Wish(taken, epoch, done)
        self.add(key)
        # The placements are written after this, and must land before other processes drop the
        # claim.
        granted = await done and self._clock.monotonic() - now < WRITE_SECONDS
        CLAIMS.labels("written" if granted else "stale").inc()
        return granted

    def withdraw(self, unit: WorkloadInfo) -> None:
        """Release the quota of a decision that was not written."""
        key = self.quota_of(unit)
        if key is None:
            return
        wish = self._wishes.get(key, {}).pop(unit.key, None)
        own = self._books.ledger(key).own.pop(unit.uid, None)
        if wish or own:
            self.add(key, after=CALM_SECONDS)

    def draft(self, stored: T) -> _ClaimDraft:
        key = stored.metadata.key
        self._books.haunt(key)  # claims whose replicas never show expire with time
        wishes = self._admit(key, self._fresh(key))
        claims = [*self._books.told(key), *(wish.taken for wish in wishes.values())]
        after = LANDED_SECONDS + CALM_SECONDS if claims else None
        return _ClaimDraft(
            fields=self.fields(stored, claims),
            wishes=wishes,
            requeue_after=ROOM_SECONDS if self._wishes.get(key) else after,
            anyway=bool(wishes),
        )

    def landed(self, key: Key, result: _ClaimDraft, *, written: bool) -> None:
        """Grant the drafted wishes, whose claims are stored now."""
        for wish in result.wishes.values():
            # A decision may be withdrawn during the write: the next write drops its claim.
            if wish.done.done():
                self.add(key, after=CALM_SECONDS)
            else:
                self._books.ledger(key).add(wish.taken)
        _answer(result.wishes, True)

    def conflicted(self, key: Key, result: _ClaimDraft) -> None:
        """Return the drafted wishes to the queue; the next draft refuses those of an old epoch."""
        again = self._wishes.setdefault(key, {})
        for workload, wish in result.wishes.items():
            if not wish.done.done():
                again.setdefault(workload, wish)

    def shorter(self, key: Key, result: _ClaimDraft, error: TransportError) -> bool:
        """Write wishes one by one after a refusal, to find the one that the hub does not take.

        The wish that is refused alone gets the error.
        """
        wishes = result.wishes
        self.add(key, after=CALM_SECONDS)
        if len(wishes) > 1:
            self._wishes[key] = {**wishes, **self._wishes.get(key, {})}
            self._singly.add(key)
            return True
        _answer(wishes, error)
        return bool(self._wishes.get(key))

    def failed(self, key: Key, result: _ClaimDraft | None, error: TransportError | None) -> None:
        """Answer every wish that waits for this turn, so that no decision waits for ever."""
        # Without a draft the wishes of a failed turn are still in the queue.
        wishes = self._wishes.pop(key, {}) if result is None else result.wishes
        _answer(wishes, False if error is None else error)

    def _fresh(self, key: Key) -> dict[Key, _Wish]:
        """Return the waiting wishes of the current epoch, and refuse the others."""
        wishes, epoch = self._wishes.pop(key, {}), self._books.ledger(key).epoch
        _answer({k: wish for k, wish in wishes.items() if wish.epoch != epoch}, False)
        fresh = {k: wish for k, wish in wishes.items() if not wish.done.done()}
        if key not in self._singly:
            return fresh
        # After a refusal by the hub each wish is written by itself, see `shorter`.
        first = dict(list(fresh.items())[:1])
        rest = {k: wish for k, wish in fresh.items() if k not in first}
        if rest:
            self._wishes[key] = rest
            self.add(key)
        else:
            self._singly.discard(key)
        return first

    def _admit(self, key: Key, wishes: Mapping[Key, _Wish]) -> dict[Key, _Wish]:
        """Return the wishes that the status has room for.

        A few others wait, and not for long; the rest must be decided again.
        """
        now = self._clock.monotonic()
        known = self._books.told(key)
        chosen = admitted(known, (wish.taken for wish in wishes.values()))
        waiting = self._wishes.setdefault(key, {})
        for workload, wish in wishes.items():
            if wish.taken.uid in chosen:
                continue
            if now - wish.taken.since < WRITE_SECONDS and len(waiting) < MOST_WAITING:
                waiting[workload] = wish
            else:
                answer(wish.done, False)
        return {k: wish for k, wish in wishes.items() if wish.taken.uid in chosen}

    def _waiting(self, key: Key) -> int:
        draft = self._drafts.get(key)
        return len(self._wishes.get(key, ())) + (len(draft.wishes) if draft else 0)


def _answer(wishes: Mapping[Key, _Wish], granted: bool | TransportError) -> None:
    for wish in wishes.values():
        answer(wish.done, granted)


def _grows(before: Shares, after: Shares) -> bool:
    return any(units > before.get(cluster, 0) for cluster, units in after.items())
