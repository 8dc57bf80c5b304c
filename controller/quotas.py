"""The status of every WorkloadPolicy: what its domains hold, and the claims on their quota.

One writer for all policies of this process, one write under way for a policy. Whatever came up
during a write goes into the next one together, so a burst of decisions costs a handful of
writes. Every write is a compare-and-swap on the version that was read; one that is refused
means that somebody else was faster, and all decisions in it are made anew on what he took. What an
object has no room for waits until claims before it have landed.

Only a `Required` policy is claimed: a `Preferred` one may be exceeded, so nothing is lost when two
decide at the same moment. What the status shows is the sum over all placements, recomputed each
time, so a lost write or a dead scheduler leaves nothing wrong for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from controller.claims import LANDED_SECONDS, WRITE_SECONDS, Ledger, Shares, Taken, admitted
from controller.decision import Decision
from controller.model import WorkloadPolicy
from controller.policies import Policy
from controller.policystatus import differs, status_of
from controller.status import for_good
from controller.unit import Unit
from controller.world import World
from crds.validation import normalised_policy
from machinery import logs, metrics
from machinery.clock import Clock, microtime
from machinery.errors import Conflict, Invalid, NotFound, TransportError
from machinery.informer import Informer
from machinery.objects import Key
from machinery.queue import WorkQueue, work
from machinery.resources import WORKLOAD_POLICIES
from machinery.transport import ApiClient
from machinery.verbs import MERGE_PATCH

LOG = logs.get(__name__)
WRITERS = 8
"""Policies whose status is written at once."""
CALM_SECONDS = 1.0
"""So long a status may lag behind placements when nobody claims."""
ROOM_SECONDS = 1.0
"""So often it is asked whether there is room for those that wait."""
MOST_WAITING = 8
"""Decisions that wait for room: each holds a worker. More of them are made anew later."""
HOLDER_LIMIT = 512

CLAIMS = metrics.counter(
    "stowage_quota_claims", "Claims on quota", ("outcome",), zero=[("written",), ("stale",)]
)
_decoder = msgspec.json.Decoder(WorkloadPolicy)


@dataclass(slots=True)
class _Wish:
    """A decision that waits for its quota, and the epoch that it was made in."""

    taken: Taken
    epoch: int
    done: asyncio.Future[bool]


class Quotas:
    """The policies of a hub, for one term of leadership.

    `holder` names this process in its claims; `check` raises LeaseLost.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        policies: Informer[WorkloadPolicy],
        world: World,
        holder: str,
        clock: Clock,
        check: Callable[[], None],
    ) -> None:
        self._client = client
        self._policies = policies
        self._world = world
        self._holder = holder[:HOLDER_LIMIT]
        self._clock = clock
        self._check = check
        self._queue: WorkQueue[Key] = WorkQueue(name="policy", clock=clock)
        self._epochs = count(1)
        self._ledgers: dict[Key, Ledger] = {}
        self._wishes: dict[Key, dict[Key, _Wish]] = {}
        self._decided: dict[Key, int] = {}
        for policy in policies.values():
            self.policy_changed(None, policy)
        world.tell_policies(self)

    def policy_changed(self, old: WorkloadPolicy | None, new: WorkloadPolicy | None) -> None:
        """After the world has heard of it."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        key = known.metadata.key
        if new is None:
            self._ledgers.pop(key, None)
            self._answer(self._wishes.pop(key, {}), granted=False)
            return
        if self._ledger(key).learn(new, self._clock.monotonic()):
            self._haunt(key)
        self._queue.add(key)

    def touched(self, policies: Collection[Key]) -> None:
        """What these policies count has changed: tell it soon, and see which claims it answers."""
        for key in policies:
            if self._ledger(key).others:
                self._haunt(key)
            self._queue.add_after(key, CALM_SECONDS)

    def decided(self, decision: Decision) -> None:
        """In the same breath as the decision: note on which claims it stands."""
        policy = self._bound(decision.unit)
        if policy is not None:
            self._decided[decision.unit.key] = self._ledger(policy.key).epoch

    async def claim(self, unit: Unit, placements: Shares) -> bool:
        """Take the quota of a decision; False when it must be decided anew.

        Raises TransportError when the hub cannot be asked.
        """
        epoch = self._decided.pop(unit.key, None)
        policy = self._bound(unit)
        if policy is None or not _grows(unit.present, placements):
            return True
        if epoch != self._ledger(policy.key).epoch:
            CLAIMS.labels("stale").inc()
            return False
        now = self._clock.monotonic()
        time = microtime(self._clock.now())
        taken = Taken(unit.key, unit.uid, dict(placements), self._holder, time, now)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._wishes.setdefault(policy.key, {})[unit.key] = _Wish(taken, epoch, done)
        self._queue.add(policy.key)
        granted = await done and self._clock.monotonic() - now < WRITE_SECONDS
        CLAIMS.labels("written" if granted else "stale").inc()
        return granted

    def withdraw(self, unit: Unit) -> None:
        """The decision was not written: its quota is free again."""
        policy = self._bound(unit)
        if policy is None:
            return
        wish = self._wishes.get(policy.key, {}).pop(unit.key, None)
        own = self._ledger(policy.key).own.pop(unit.uid, None)
        if wish or own:
            self._queue.add_after(policy.key, CALM_SECONDS)

    async def run(self) -> None:
        """Write, until cancelled."""
        try:
            await work(self._queue, self._sync, workers=WRITERS, log=LOG)
        finally:
            self._queue.shut_down()
            for wishes in self._wishes.values():
                self._answer(wishes, granted=False)

    async def _sync(self, key: Key) -> float | None:
        """Bring one policy's status up to date; seconds until it needs another look, or None."""
        policy = self._policies.get(key)
        if policy is not None:
            await self._fill_in(policy)
            policy = self._policies.get(key)
        wishes = self._wishes.pop(key, {})
        try:
            return await self._bring(policy, wishes) if policy is not None else None
        finally:  # nobody may wait for ever, whatever went wrong
            again = self._wishes.get(key, {})
            given_up = {k: wish for k, wish in wishes.items() if again.get(k) is not wish}
            self._answer(given_up, granted=False)

    async def _bring(self, policy: WorkloadPolicy, wishes: dict[Key, _Wish]) -> float | None:
        key, ledger = policy.metadata.key, self._ledger(policy.metadata.key)
        self._haunt(key)  # what nobody shows is void after a while
        self._answer(_stale(wishes, ledger.epoch), granted=False)
        wishes = {k: wish for k, wish in wishes.items() if not wish.done.done()}
        wishes = self._admit(key, wishes)
        status = self._status(policy, [wish.taken for wish in wishes.values()])
        if wishes or differs(status, policy):
            try:
                await self._write(policy, status)
            except TransportError as e:
                if for_good(e):
                    await self._refused(key, wishes, e)
                else:
                    await self._failed(key, wishes, e)
                return None
        for wish in wishes.values():
            if wish.done.done():  # withdrawn while it was written
                self._queue.add_after(key, CALM_SECONDS)
            else:
                ledger.add(wish.taken)
        self._answer(wishes, granted=True)
        if self._wishes.get(key):
            return ROOM_SECONDS
        return LANDED_SECONDS + CALM_SECONDS if status["claims"] else None

    def _admit(self, key: Key, wishes: Mapping[Key, _Wish]) -> dict[Key, _Wish]:
        """Those that the status has room for; the others wait, a few of them, and not for long."""
        now = self._clock.monotonic()
        known = self._ledger(key).told(self._seen, now)
        chosen = admitted(known, (wish.taken for wish in wishes.values()))
        waiting = self._wishes.setdefault(key, {})
        for workload, wish in wishes.items():
            patient = now - wish.taken.since < WRITE_SECONDS and len(waiting) < MOST_WAITING
            if wish.taken.uid not in chosen and patient:
                waiting.setdefault(workload, wish)
        return {k: wish for k, wish in wishes.items() if wish.taken.uid in chosen}

    async def _write(self, policy: WorkloadPolicy, status: dict[str, Any]) -> None:
        self._check()
        meta = policy.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        answer = await self._client.request(
            "PATCH",
            WORKLOAD_POLICIES.path(meta.namespace, meta.name, "status"),
            body=patch,
            content_type=MERGE_PATCH,
        )
        self._policies.upsert(_decoder.decode(answer))

    async def _fill_in(self, policy: WorkloadPolicy) -> None:
        """Write the method that counts, on a hub whose admission did not.

        Not into a policy that makes no sense: the hub would refuse the rest of it.
        """
        meta = policy.metadata
        rules = self._world.index.policy(meta.key)
        if rules is None or rules.fault or not (patch := normalised_policy({"spec": policy.spec})):
            return
        patch["metadata"] = {"resourceVersion": meta.resource_version}
        self._check()
        try:
            path = WORKLOAD_POLICIES.path(meta.namespace, meta.name)
            answer = await self._client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
            self._policies.upsert(_decoder.decode(answer))
        except (Conflict, NotFound):
            pass  # edited meanwhile: the informer will say so
        except Invalid as e:  # it counts as Balance all the same
            LOG.warning("its method is not filled in: %s", e, extra={"object": "/".join(meta.key)})

    async def _refused(self, key: Key, wishes: dict[Key, _Wish], error: TransportError) -> None:
        """The hub takes no such status: find out whose claim it is, and tell him why."""
        if len(wishes) > 1:
            for workload, wish in wishes.items():
                policy = self._policies.get(key)
                if policy is not None:
                    await self._bring(policy, {workload: wish})
            self._queue.add_after(key, CALM_SECONDS)
            return
        LOG.warning("the hub refuses its status: %s", error, extra={"object": "/".join(key)})
        for wish in wishes.values():
            if not wish.done.done():
                wish.done.set_exception(error)
            self._queue.add_after(key, CALM_SECONDS)

    async def _failed(self, key: Key, wishes: dict[Key, _Wish], error: TransportError) -> None:
        """Nobody's decision stands; on a conflict, look at what the other one wrote."""
        if not isinstance(error, Conflict | NotFound):
            for wish in wishes.values():
                if not wish.done.done():
                    wish.done.set_exception(error)
            raise error
        if isinstance(error, Conflict):
            with suppress(NotFound):
                namespace, name = key
                path = WORKLOAD_POLICIES.path(namespace, name)
                fresh = await self._client.request("GET", path)
                self._policies.upsert(_decoder.decode(fresh))
        # Who is not up to date by now is told so; the others may try the new version at once.
        again = self._wishes.setdefault(key, {})
        for workload, wish in wishes.items():
            if not wish.done.done():
                again.setdefault(workload, wish)
        self._queue.add(key)

    def _status(self, policy: WorkloadPolicy, more: list[Taken]) -> dict[str, Any]:
        known = self._ledger(policy.metadata.key).told(self._seen, self._clock.monotonic())
        return status_of(policy, [*known, *more], self._world, self._clock.now())

    def _seen(self, key: Key, uid: str) -> Shares | None:
        return self._world.written(key, uid)

    def _haunt(self, key: Key) -> None:
        """Count what others have claimed from the next decision on."""
        ghosts = self._ledger(key).ghosts(self._seen, self._clock.monotonic())
        self._world.haunt(key, ghosts)

    def _bound(self, unit: Unit) -> Policy | None:
        """The policy whose quota the unit's decisions take."""
        policy = self._world.index.policy(unit.policy) if unit.policy else None
        return policy if policy is not None and policy.required and not policy.fault else None

    def _ledger(self, key: Key) -> Ledger:
        if key not in self._ledgers:
            self._ledgers[key] = Ledger(self._holder, self._epochs)
        return self._ledgers[key]

    def _answer(self, wishes: Mapping[Key, _Wish], *, granted: bool) -> None:
        for wish in wishes.values():
            if not wish.done.done():
                wish.done.set_result(granted)


def _stale(wishes: Mapping[Key, _Wish], epoch: int) -> dict[Key, _Wish]:
    return {key: wish for key, wish in wishes.items() if wish.epoch != epoch}


def _grows(before: Shares, after: Shares) -> bool:
    return any(units > before.get(cluster, 0) for cluster, units in after.items())
