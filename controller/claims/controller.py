"""Writes the statuses of a kind, and in them the quota that decisions take before they are written.

Each status is a compare-and-swap on the version that was read. After a conflict, all decisions in
that write are checked against what the other writer left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from controller.claims.claims import (
    HOLDER_LIMIT,
    LANDED_SECONDS,
    WRITE_SECONDS,
    ClaimIndex,
    HeldClaim,
    SetForeign,
    Shares,
    admitted,
)
from controller.framework.interface import CycleState
from controller.framework.runtime.feature import Feature, Term
from controller.framework.runtime.handle import Handle, switched_off
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.framework.statuswriter import Result, StatusWriter, answer
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery import metrics
from machinery.api.resources import Resource
from machinery.clock import microtime
from machinery.errors import TransportError
from machinery.types.api import Claim
from machinery.types.metadata import Key, Meta, Object

CALM_SECONDS = 1.0
"""Seconds that a status may lag behind placements when no decision claims."""
ROOM_SECONDS = 1.0
"""Seconds between attempts of claims that wait for room."""
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
class QuotaRequest:
    """A decision that waits for its quota; `before` are the placements that its claim replaces."""

    taken: HeldClaim
    before: Shares
    epoch: Hashable
    done: asyncio.Future[bool]


Requests: TypeAlias = dict[Key, QuotaRequest]
"""By Workload."""


class QuotaWriter(StatusWriter[T]):
    """The objects of a kind, for one term of leadership: decisions take quota in their statuses."""

    holder = ""
    outcomes = CLAIMS

    def __init__(self, term: Term, resource: Resource, type_: type[T]) -> None:
        super().__init__(term, resource, type_)
        self._requests: dict[Key, Requests] = {}

    def quota_of(self, info: WorkloadInfo) -> Key | None:
        """Return the object whose quota the Workload takes, or None."""
        raise NotImplementedError

    def epoch_of(self, key: Key) -> Hashable:
        """Return a value that changes when decisions made before become invalid."""
        raise NotImplementedError

    def takes(self, info: WorkloadInfo, placements: Shares) -> bool:
        """Whether these placements take quota: whether a share grows."""
        return any(n > info.present.get(cluster, 0) for cluster, n in placements.items())

    async def run(self) -> None:
        """Write until cancelled, then refuse every request that is left."""
        try:
            await super().run()
        finally:
            for key in [*self._requests]:
                self.refuse(key)

    def forget(self, key: Key) -> None:
        super().forget(key)
        self.refuse(key)

    def refuse(self, key: Key) -> None:
        """Refuse the requests that no write has begun for."""
        answers(self._requests.pop(key, {}), False)

    def epoch(self, info: WorkloadInfo) -> Hashable:
        """Return the epoch of a decision made now; None if the Workload takes no quota."""
        key = self.quota_of(info)
        return None if key is None else self.epoch_of(key)

    async def claim(self, info: WorkloadInfo, placements: Shares, epoch: Hashable) -> bool:
        """Take the quota of a decision of that epoch; False means to decide again.

        Raises:
            TransportError: the hub refused or could not be reached.
        """
        key = self.quota_of(info)
        if (key is None and epoch is None) or not self.takes(info, placements):
            return True
        if key is None or epoch is None or epoch != self.epoch_of(key):
            self.outcomes.labels("stale").inc()
            return False
        if self._waiting(key) >= MOST_CLAIMING:
            self.outcomes.labels("busy").inc()
            return False
        now = self._clock.monotonic()
        time = microtime(self._clock.now())
        taken = HeldClaim(info.key, info.uid, dict(placements), self.holder, time, now)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        request = QuotaRequest(taken, dict(info.present), epoch, done)
        self._requests.setdefault(key, {})[info.key] = request
        self.add(key)
        # The placements are written after this, and must land before other processes drop the
        # claim.
        granted = await done and self._clock.monotonic() - now < WRITE_SECONDS
        self.outcomes.labels("written" if granted else "stale").inc()
        return granted

    def withdraw(self, info: WorkloadInfo) -> None:
        key = self.quota_of(info)
        if key is None:
            return
        request = self._requests.get(key, {}).pop(info.key, None)
        if self.release(key, info) or request:
            self.add(key, after=CALM_SECONDS)

    def grant(self, key: Key, request: QuotaRequest) -> None:
        """The quota of a request is stored; its placements are written next."""

    def release(self, key: Key, info: WorkloadInfo) -> bool:
        """Release stored quota of a Workload; return whether there was any."""
        return False

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        """Grant the drafted requests, whose quota is stored now."""
        for request in result.carry.values():
            # A decision may be withdrawn during the write: the next write releases its quota.
            if request.done.done():
                self.add(key, after=CALM_SECONDS)
            else:
                self.grant(key, request)
        answers(result.carry, True)

    def conflicted(self, key: Key, result: Result) -> None:
        again = self._requests.setdefault(key, {})
        for workload, request in result.carry.items():
            if not request.done.done():
                again.setdefault(workload, request)

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        self.failed(key, result, error)
        return False

    def failed(self, key: Key, result: Result | None, error: TransportError | None) -> None:
        """Answer every request that waits for this turn."""
        # Without a draft the requests of a failed turn are still in the queue.
        requests = self._requests.pop(key, {}) if result is None else result.carry
        answers(requests, False if error is None else error)

    def fresh(self, key: Key) -> Requests:
        """Take the waiting requests of the current epoch, and refuse the others."""
        requests, epoch = self._requests.pop(key, {}), self.epoch_of(key)
        answers({k: request for k, request in requests.items() if request.epoch != epoch}, False)
        return {k: request for k, request in requests.items() if not request.done.done()}

    def _waiting(self, key: Key) -> int:
        draft = self._drafts.get(key)
        return len(self._requests.get(key, ())) + (len(draft.carry) if draft else 0)


class ClaimController(QuotaWriter[T]):
    """The objects of a kind with the claims in their statuses, for schedulers of several names."""

    def __init__(
        self, term: Term, resource: Resource, type_: type[T], *, claims: ClaimIndex
    ) -> None:
        super().__init__(term, resource, type_)
        self._claims = claims
        self.holder = claims.holder
        self._singly: set[Key] = set()

    def fields(self, stored: T, claims: Sequence[HeldClaim]) -> Mapping[str, Any] | None:
        """Return the status with these claims; None for an unknown object."""
        raise NotImplementedError

    def epoch_of(self, key: Key) -> Hashable:
        return self._claims.ledger(key).epoch

    def touched(self, keys: Collection[Key]) -> None:
        """Queue objects with changed counts, to show them soon and to drop landed claims."""
        for key in keys:
            self.add(key, after=CALM_SECONDS)

    def grant(self, key: Key, request: QuotaRequest) -> None:
        self._claims.ledger(key).add(request.taken)

    def release(self, key: Key, info: WorkloadInfo) -> bool:
        return self._claims.ledger(key).own.pop(info.uid, None) is not None

    def draft(self, stored: T) -> Result:
        key = stored.metadata.key
        self._claims.recount(key)  # claims whose replicas never show expire with time
        requests = self._admit(key, self._one_by_one(key, self.fresh(key)))
        claims = [*self._claims.told(key), *(request.taken for request in requests.values())]
        after = LANDED_SECONDS + CALM_SECONDS if claims else None
        return Result(
            fields=self.fields(stored, claims),
            carry=requests,
            requeue_after=ROOM_SECONDS if self._requests.get(key) else after,
            anyway=bool(requests),
        )

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        """Write requests one by one after a refusal.

        The one that is refused alone gets the error.
        """
        requests: Requests = result.carry
        self.add(key, after=CALM_SECONDS)
        if len(requests) > 1:
            self._requests[key] = {**requests, **self._requests.get(key, {})}
            self._singly.add(key)
            return True
        answers(requests, error)
        return bool(self._requests.get(key))

    def _one_by_one(self, key: Key, requests: Requests) -> Requests:
        if key not in self._singly:
            return requests
        first = dict(list(requests.items())[:1])
        rest = {k: request for k, request in requests.items() if k not in first}
        if rest:
            self._requests[key] = rest
            self.add(key)
        else:
            self._singly.discard(key)
        return first

    def _admit(self, key: Key, requests: Requests) -> Requests:
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


def answers(requests: Requests, granted: bool | TransportError) -> None:
    for request in requests.values():
        answer(request.done, granted)


class ClaimedKind(Feature):
    controller: ClaimController[Any]

    def __init__(self, set_foreign: SetForeign) -> None:
        self._set_foreign = set_foreign
        self._claims = ClaimIndex(set_foreign, holder="", clock=self.handle.clock)

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        self._claims = ClaimIndex(
            self._set_foreign, holder=handle.holder[:HOLDER_LIMIT], clock=handle.clock
        )

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self.controller.touched(self._claims.show(old, new))

    def _look(self, meta: Meta, claims: Iterable[Claim]) -> None:
        self._claims.learn(meta, claims)
        self.controller.add(meta.key)

    def _forget(self, key: Key) -> None:
        self._claims.forget(key)
        self.controller.forget(key)


class ClaimsQuota:
    """Reserve and PreBind of a plugin whose decisions take quota (`QuotaWriter`).

    Without `claims`, as in a plan or an explanation, the plugin takes none.
    """

    name: str

    def __init__(self) -> None:
        self.claims: Feature | None = None

    @property
    def _epoch(self) -> str:
        return f"{self.name}/epoch"

    def closed(self) -> str:
        """Return why this process grants no quota at all, or empty."""
        closed = self.claims is not None and not self.claims.handle.controls(self.name)
        return switched_off(self.name) if closed else ""

    def reserve(
        self, state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        if self.claims is not None:
            state.data[self._epoch] = self.claims.controller.epoch(info)
        return SUCCESS

    async def pre_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Take the quota. If another scheduler was faster, the Workload is decided again."""
        claims, epoch = self.claims, state.data.get(self._epoch)
        if claims is None:
            return SUCCESS
        if claims.leading:
            granted = await claims.controller.claim(info, placements, epoch)
        else:  # where it is closed, PreFilter has refused every Workload that takes quota
            granted = bool(self.closed())
        return SUCCESS if granted else unschedulable(self.name)

    def unreserve(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        if self.claims is not None:
            self.claims.controller.withdraw(info)
