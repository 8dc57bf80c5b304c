"""The status of every WorkloadPolicy: what its domains hold, and the claims on their quota.

A burst of decisions costs a handful of writes (`controller.framework.statuswriter`). A write that
is refused means that somebody else was faster, and all decisions in it are made anew on what he
took. What an object has no room for waits until claims before it have landed.

Only a `Required` policy is claimed: a `Preferred` one may be exceeded, so nothing is lost when two
decide at the same moment. What the status shows is the sum over all placements, recomputed each
time, so a lost write or a dead scheduler leaves nothing wrong for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.features.workloadpolicy.books import Books
from controller.features.workloadpolicy.claims import (
    LANDED_SECONDS,
    WRITE_SECONDS,
    Shares,
    Taken,
    admitted,
)
from controller.features.workloadpolicy.compiled import Policy
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.features.workloadpolicy.plugin import policy_of
from controller.features.workloadpolicy.status import differs, status_of
from controller.framework.statuswriter import StatusWriter
from controller.hosting.feature import Term
from controller.hosting.handle import Handle
from controller.model.unit import Unit
from crds.admission.validation import normalised_policy
from machinery import logs, metrics
from machinery.api.resources import WORKLOAD_POLICIES
from machinery.api.verbs import MERGE_PATCH
from machinery.clock import microtime
from machinery.errors import Conflict, Forbidden, Invalid, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

LOG = logs.get(__name__)
CALM_SECONDS = 1.0
"""So long a status may lag behind placements when nobody claims."""
ROOM_SECONDS = 1.0
"""So often it is asked whether there is room for those that wait."""
MOST_CLAIMING = 16
"""Decisions that wait for one policy's write: each holds a worker, and others need some too."""
MOST_WAITING = 8
"""Decisions that wait for room: each holds a worker. More of them are made anew later."""

CLAIMS = metrics.counter(
    "stowage_quota_claims",
    "Claims on quota",
    ("outcome",),
    zero=[("written",), ("stale",), ("busy",)],
)
_decoder = msgspec.json.Decoder(WorkloadPolicy)


@dataclass(slots=True)
class _Wish:
    """A decision that waits for its quota, and the epoch that it was made in."""

    taken: Taken
    epoch: int
    done: asyncio.Future[bool]

    def answer(self, granted: bool | TransportError) -> None:
        """Say so to whoever still waits."""
        if self.done.done():
            return
        if isinstance(granted, bool):
            self.done.set_result(granted)
        else:
            self.done.set_exception(granted)


class Quotas:
    """The policies of a hub, for one term of leadership: the book of their status writer."""

    def __init__(self, term: Term, *, counts: Tally, books: Books, handle: Handle) -> None:
        self._client = term.client
        self._policies: Informer[WorkloadPolicy] = term.informer(WORKLOAD_POLICIES)
        self._counts = counts
        self._books = books
        self._handle = handle
        self._clock = term.clock
        self._check = term.check
        self._wishes: dict[Key, dict[Key, _Wish]] = {}
        self._drafted: dict[Key, dict[Key, _Wish]] = {}
        self._singly: set[Key] = set()
        self._writer = StatusWriter(
            term.client,
            WORKLOAD_POLICIES,
            WorkloadPolicy,
            self,
            store=self._policies,
            clock=term.clock,
            check=term.check,
        )
        for policy in self._policies.values():
            self.look(policy.metadata.key)

    async def run(self) -> None:
        """Write, until cancelled."""
        try:
            await self._writer.run()
        finally:
            for wishes in self._wishes.values():
                _answer(wishes, False)

    def look(self, key: Key) -> None:
        """A policy came or changed."""
        self._writer.add(key)

    def forget(self, key: Key) -> None:
        """A policy is gone."""
        _answer(self._wishes.pop(key, {}), False)

    def touched(self, policies: Collection[Key]) -> None:
        """What these policies count has changed: tell it soon, and see which claims it answers."""
        for key in policies:
            self._writer.add(key, after=CALM_SECONDS)

    def epoch(self, unit: Unit) -> int | None:
        """The claims that a decision of this moment stands on; None where it takes no quota."""
        policy = self._bound(unit)
        return self._books.ledger(policy.key).epoch if policy is not None else None

    async def claim(self, unit: Unit, placements: Shares, epoch: int | None) -> bool:
        """Take the quota of a decision of that epoch; False when it must be decided anew.

        Raises TransportError when the hub cannot be asked.
        """
        policy = self._bound(unit)
        if policy is None or not _grows(unit.present, placements):
            return True
        if epoch is None or epoch != self._books.ledger(policy.key).epoch:
            CLAIMS.labels("stale").inc()
            return False
        if self._waiting(policy.key) >= MOST_CLAIMING:
            CLAIMS.labels("busy").inc()
            return False
        now = self._clock.monotonic()
        time = microtime(self._clock.now())
        taken = Taken(unit.key, unit.uid, dict(placements), self._books.holder, time, now)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._wishes.setdefault(policy.key, {})[unit.key] = _Wish(taken, epoch, done)
        self._writer.add(policy.key)
        granted = await done and self._clock.monotonic() - now < WRITE_SECONDS
        CLAIMS.labels("written" if granted else "stale").inc()
        return granted

    def withdraw(self, unit: Unit) -> None:
        """The decision was not written: its quota is free again."""
        policy = self._bound(unit)
        if policy is None:
            return
        wish = self._wishes.get(policy.key, {}).pop(unit.key, None)
        own = self._books.ledger(policy.key).own.pop(unit.uid, None)
        if wish or own:
            self._writer.add(policy.key, after=CALM_SECONDS)

    async def prepare(self, stored: WorkloadPolicy) -> None:
        """Write the method that counts, on a hub whose admission did not.

        Not into a policy that makes no sense: the hub would refuse the rest of it.
        """
        meta = stored.metadata
        rules = self._counts.policy(meta.key)
        if rules is None or rules.fault or not (patch := normalised_policy({"spec": stored.spec})):
            return
        patch["metadata"] = {"resourceVersion": meta.resource_version}
        self._check()
        try:
            path = WORKLOAD_POLICIES.path(meta.namespace, meta.name)
            answer = await self._client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
            self._policies.upsert(_decoder.decode(answer))
        except (Conflict, NotFound):
            pass  # edited meanwhile: the informer will say so
        except (Forbidden, Invalid) as e:  # it counts as Balance all the same
            LOG.warning("its method is not filled in: %s", e, extra={"object": "/".join(meta.key)})

    def draft(self, stored: WorkloadPolicy) -> Mapping[str, Any] | None:
        """The status with the claims that it has room for."""
        key = stored.metadata.key
        self._books.haunt(key)  # what nobody shows is void after a while
        wishes = self._fresh(key)
        self._drafted[key] = wishes = self._admit(key, wishes)
        claims = [*self._books.told(key), *(wish.taken for wish in wishes.values())]
        fleet, now = self._handle.fleet(), self._clock.now()
        status = status_of(stored, claims, self._counts, fleet, now)
        return status if wishes or differs(status, stored) else None

    def landed(self, key: Key) -> float | None:
        """The claims are ours; those that were withdrawn meanwhile go with the next write."""
        wishes = self._drafted.pop(key, {})
        for wish in wishes.values():
            if wish.done.done():
                self._writer.add(key, after=CALM_SECONDS)
            else:
                self._books.ledger(key).add(wish.taken)
        _answer(wishes, True)
        if self._wishes.get(key):
            return ROOM_SECONDS
        return LANDED_SECONDS + CALM_SECONDS if self._books.told(key) else None

    def missed(self, key: Key) -> None:
        """Who is not up to date by now is told so; the others may try the new version at once."""
        again = self._wishes.setdefault(key, {})
        for workload, wish in self._drafted.pop(key, {}).items():
            if not wish.done.done():
                again.setdefault(workload, wish)

    def shorter(self, key: Key, error: TransportError) -> bool:
        """Find out whose claim the hub does not take, one by one, and tell him why."""
        wishes = self._drafted.pop(key, {})
        self._writer.add(key, after=CALM_SECONDS)
        if len(wishes) > 1:
            self._wishes[key] = {**wishes, **self._wishes.get(key, {})}
            self._singly.add(key)
            return True
        _answer(wishes, error)
        return bool(self._wishes.get(key))

    def given_up(self, key: Key, error: TransportError | None) -> None:
        """Nobody may wait for ever, whatever went wrong, be it before there was a draft."""
        wishes = self._drafted.pop(key, None)
        if wishes is None and error is not None:
            wishes = self._wishes.pop(key, {})
        _answer(wishes or {}, False if error is None else error)

    def _fresh(self, key: Key) -> dict[Key, _Wish]:
        """Those who wait and stand on the claims of now; the others are told to decide anew."""
        wishes, epoch = self._wishes.pop(key, {}), self._books.ledger(key).epoch
        _answer({k: wish for k, wish in wishes.items() if wish.epoch != epoch}, False)
        fresh = {k: wish for k, wish in wishes.items() if not wish.done.done()}
        if key not in self._singly:
            return fresh
        first = dict(list(fresh.items())[:1])
        rest = {k: wish for k, wish in fresh.items() if k not in first}
        if rest:
            self._wishes[key] = rest
            self._writer.add(key)
        else:
            self._singly.discard(key)
        return first

    def _admit(self, key: Key, wishes: Mapping[Key, _Wish]) -> dict[Key, _Wish]:
        """Those that the status has room for; the others wait, a few of them, and not for long.

        Who may not wait any longer is told to decide anew.
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
                wish.answer(False)
        return {k: wish for k, wish in wishes.items() if wish.taken.uid in chosen}

    def _waiting(self, key: Key) -> int:
        return len(self._wishes.get(key, ())) + len(self._drafted.get(key, ()))

    def _bound(self, unit: Unit) -> Policy | None:
        """The policy whose quota the unit's decisions take."""
        key = policy_of(unit)
        policy = None if key is None else self._counts.policy(key)
        return policy if policy is not None and policy.required and not policy.fault else None


def _answer(wishes: Mapping[Key, _Wish], granted: bool | TransportError) -> None:
    for wish in wishes.values():
        wish.answer(granted)


def _grows(before: Shares, after: Shares) -> bool:
    return any(units > before.get(cluster, 0) for cluster, units in after.items())
