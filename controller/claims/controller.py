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
from typing import Any, TypeAlias, TypeVar

from controller.claims.claims import (
    LANDED_SECONDS,
    WRITE_SECONDS,
    ClaimIndex,
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
class _ClaimRequest:
    """A decision that waits for its quota, and the epoch that it was made in."""

    taken: HeldClaim
    epoch: int
    done: asyncio.Future[bool]


_Requests: TypeAlias = dict[Key, _ClaimRequest]
"""By Workload."""


class ClaimController(StatusWriter[T]):
    """The objects of a kind, for one term of leadership, with the claims in their statuses.

    A draft carries the requests whose claims it holds.

    A subclass says which object a Workload takes quota of (`quota_of`), and which fields go into
    its status (`fields`).
    """

    def __init__(
        self, term: Term, resource: Resource, type_: type[T], *, claims: ClaimIndex
    ) -> None:
        super().__init__(term, resource, type_)
        self._claims = claims
        self._requests: dict[Key, _Requests] = {}
        self._singly: set[Key] = set()

    def quota_of(self, info: WorkloadInfo) -> Key | None:
        """Return the object whose quota the Workload takes; None where it takes none."""
        raise NotImplementedError

    def fields(self, stored: T, claims: Sequence[HeldClaim]) -> Mapping[str, Any] | None:
        """Return the status with these claims; None for an object that is unknown here."""
        raise NotImplementedError

    async def run(self) -> None:
        """Write until cancelled, then refuse every request that is left."""
        try:
            await super().run()
        finally:
            for requests in self._requests.values():
                _answer(requests, False)

    def forget(self, key: Key) -> None:
        """Refuse the requests of a deleted object."""
        super().forget(key)
        _answer(self._requests.pop(key, {}), False)

    def touched(self, keys: Collection[Key]) -> None:
        """Queue objects with changed counts, to show them soon and to drop landed claims."""
        for key in keys:
            self.add(key, after=CALM_SECONDS)

    def epoch(self, info: WorkloadInfo) -> int | None:
        """Return the epoch of a decision made now; None where the Workload takes no quota."""
        key = self.quota_of(info)
        return None if key is None else self._claims.ledger(key).epoch

    async def claim(self, info: WorkloadInfo, placements: Shares, epoch: int | None) -> bool:
        """Take the quota of a decision of that epoch; False means to decide again.

        Raises:
            TransportError: the hub refused or could not be reached.
        """
        key = self.quota_of(info)
        if key is None or not _grows(info.present, placements):
            return True
        if epoch is None or epoch != self._claims.ledger(key).epoch:
            CLAIMS.labels("stale").inc()
            return False
        if self._waiting(key) >= MOST_CLAIMING:
            CLAIMS.labels("busy").inc()
            return False
        now = self._clock.monotonic()
        time = microtime(self._clock.now())
        taken = HeldClaim(info.key, info.uid, dict(placements), self._claims.holder, time, now)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._requests.setdefault(key, {})[info.key] = _ClaimRequest(taken, epoch, done)
        self.add(key)
        # The placements are written after this, and must land before other processes drop the
        # claim.
        granted = await done and self._clock.monotonic() - now < WRITE_SECONDS
        CLAIMS.labels("written" if granted else "stale").inc()
        return granted

    def withdraw(self, info: WorkloadInfo) -> None:
        """Release the quota of a decision that was not written."""
        key = self.quota_of(info)
        if key is None:
            return
        request = self._requests.get(key, {}).pop(info.key, None)
        own = self._claims.ledger(key).own.pop(info.uid, None)
        if request or own:
            self.add(key, after=CALM_SECONDS)

    def draft(self, stored: T) -> Result:
        key = stored.metadata.key
        self._claims.recount(key)  # claims whose replicas never show expire with time
        requests = self._admit(key, self._fresh(key))
        claims = [*self._claims.told(key), *(request.taken for request in requests.values())]
        after = LANDED_SECONDS + CALM_SECONDS if claims else None
        return Result(
            fields=self.fields(stored, claims),
            carry=requests,
            requeue_after=ROOM_SECONDS if self._requests.get(key) else after,
            anyway=bool(requests),
        )

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        """Grant the drafted requests, whose claims are stored now."""
        for request in result.carry.values():
            # A decision may be withdrawn during the write: the next write drops its claim.
            if request.done.done():
                self.add(key, after=CALM_SECONDS)
            else:
                self._claims.ledger(key).add(request.taken)
        _answer(result.carry, True)

    def conflicted(self, key: Key, result: Result) -> None:
        """Queue the drafted requests again; the next draft refuses those of an old epoch."""
        again = self._requests.setdefault(key, {})
        for workload, request in result.carry.items():
            if not request.done.done():
                again.setdefault(workload, request)

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        """Write requests one by one after a refusal, to find the one that the hub does not take.

        The request that is refused alone gets the error.
        """
        requests: _Requests = result.carry
        self.add(key, after=CALM_SECONDS)
        if len(requests) > 1:
            self._requests[key] = {**requests, **self._requests.get(key, {})}
            self._singly.add(key)
            return True
        _answer(requests, error)
        return bool(self._requests.get(key))

    def failed(self, key: Key, result: Result | None, error: TransportError | None) -> None:
        """Answer every request that waits for this turn, so that no decision waits for ever."""
        # Without a draft the requests of a failed turn are still in the queue.
        requests = self._requests.pop(key, {}) if result is None else result.carry
        _answer(requests, False if error is None else error)

    def _fresh(self, key: Key) -> _Requests:
        """Return the waiting requests of the current epoch, and refuse the others."""
        requests, epoch = self._requests.pop(key, {}), self._claims.ledger(key).epoch
        _answer({k: request for k, request in requests.items() if request.epoch != epoch}, False)
        fresh = {k: request for k, request in requests.items() if not request.done.done()}
        if key not in self._singly:
            return fresh
        # After a refusal by the hub each request is written by itself, see `shorter`.
        first = dict(list(fresh.items())[:1])
        rest = {k: request for k, request in fresh.items() if k not in first}
        if rest:
            self._requests[key] = rest
            self.add(key)
        else:
            self._singly.discard(key)
        return first

    def _admit(self, key: Key, requests: Mapping[Key, _ClaimRequest]) -> _Requests:
        """Return the requests that the status has room for.

        A few others wait, and not for long; the rest must be decided again.
        """
        now = self._clock.monotonic()
        known = self._claims.told(key)
        chosen = admitted(known, (request.taken for request in requests.values()))
        waiting = self._requests.setdefault(key, {})
        for workload, request in requests.items():
            if request.taken.uid in chosen:
                continue
            if now - request.taken.since < WRITE_SECONDS and len(waiting) < MOST_WAITING:
                waiting[workload] = request
            else:
                answer(request.done, False)
        return {k: request for k, request in requests.items() if request.taken.uid in chosen}

    def _waiting(self, key: Key) -> int:
        draft = self._drafts.get(key)
        return len(self._requests.get(key, ())) + (len(draft.carry) if draft else 0)


def _answer(requests: Mapping[Key, _ClaimRequest], granted: bool | TransportError) -> None:
    for request in requests.values():
        answer(request.done, granted)


def _grows(before: Shares, after: Shares) -> bool:
    return any(replicas > before.get(cluster, 0) for cluster, replicas in after.items())
