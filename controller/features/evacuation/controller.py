"""Writes which causes drive Workloads from each cluster, and since when. Leader only.

They are stored before anything leaves, so the next leader continues with the same times.

A late Lease, another holder or another term restarts the toleration of a loss.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.cache.away import AwayClusters
from controller.features.evacuation import status, taints
from controller.features.evacuation.fleet import Waiting
from controller.features.evacuation.plugin import HELD, TaintEviction
from controller.features.evacuation.status import Standing
from controller.features.evacuation.taints import SCOPES, brake_of
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import MemberCluster, Workload
from controller.model.placed import is_workload
from crds.fields.movement import MovingReason
from crds.membercluster import MOST_BLOCKED, EvacuatingReason, MemberClusterCondition
from crds.workload import WorkloadCondition
from machinery import metrics
from machinery.api.resources import LEASES, MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import Clock, stored_time
from machinery.errors import NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.tasks import in_slices
from machinery.types import conditions
from machinery.types.api import BlockedWorkload, Evacuation
from machinery.types.metadata import Key, Meta
from machinery.types.shards import lease_name

if TYPE_CHECKING:
    from machinery.api.verbs import Verbs


LATE_SECONDS = 3.0
"""A leader renews every two seconds. No loss counts while it is late; once its Lease expires,
tolerations restart."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """`began` is the start of the term, None without a holder."""

    holder: str = ""
    began: datetime | None = None
    renewed: str = ""
    seconds: int = 0


NOBODY = LeaseView()


class PropagatorLease:
    """`late` and `counts` refer to the last reading.

    The Lease is `judged` once a renewal was seen, or none for long enough.
    """

    def __init__(self, client: Verbs, *, name: str, namespace: str, clock: Clock) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        self._view = NOBODY
        self._renewed_at = -math.inf
        """When the current renewal was first seen; monotonic."""
        self._began = math.inf
        self.judged, self.late, self._expired = False, True, True

    def counts(self, since: datetime) -> bool:
        began = self._view.began
        return not self.judged or (began is not None and began <= since and not self._expired)

    async def look(self) -> bool:
        """Read the Lease. Return whether any answer changed."""
        before, now = self._says(), self._clock.monotonic()
        self._began = min(self._began, now)
        view = NOBODY
        with suppress(NotFound, TransportError):
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
            view = _view(lease)
        now = self._clock.monotonic()
        same = (view.holder, view.began) == (self._view.holder, self._view.began)
        if same and view.renewed != self._view.renewed:
            self._renewed_at = now
        elif not same:
            self._renewed_at = -math.inf
        self._view = view
        silent = now - self._renewed_at
        self.late, self._expired = silent >= LATE_SECONDS, silent >= max(view.seconds, LATE_SECONDS)
        self.judged |= not self.late or now - self._began >= LATE_SECONDS
        return before != self._says()

    def _says(self) -> tuple[object, ...]:
        view = self._view
        return self.judged, self.late, self._expired, view.holder, view.began


def _view(lease: Any) -> LeaseView:
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    began = stored_time(str(spec.get("acquireTime") or ""))
    if not holder or began is None:
        return NOBODY
    seconds = spec.get("leaseDurationSeconds")
    return LeaseView(
        holder, began, str(spec.get("renewTime") or ""), seconds if isinstance(seconds, int) else 0
    )


CALM_SECONDS = 1.0
"""Seconds between two writes of a cluster."""
LEASE_SECONDS = 1.0
"""Seconds between two readings of the Lease while a cluster is unreachable."""
WAKE_SECONDS = 0.2
"""Seconds between two rounds of Workloads that wait for other moves."""
BRAKE = metrics.gauge(
    "stowage_brake",
    "1 while so many clusters are lost that nothing moves for it, by what is counted",
    ("scope",),
    zero=[(scope,) for scope in SCOPES],
)
_EVACUATING = MemberClusterCondition.EVACUATING.value


def _shard_of(cluster: MemberCluster) -> int:
    return cluster.status.shard or 0


class _News(NamedTuple):
    woken: bool = False
    """Workloads may leave or return."""
    judged: bool = False
    """It is known whether the cluster is lost."""


class EvacuationController(StatusWriter[MemberCluster]):
    action = "Evacuating"

    def __init__(
        self,
        term: Term,
        *,
        waiting: Waiting,
        plugin: TaintEviction,
        handle: Handle,
    ) -> None:
        super().__init__(term, MEMBER_CLUSTERS, MemberCluster)
        self._away = handle.away()
        self._stored: _Fleet = _Fleet(term.informer(MEMBER_CLUSTERS), self._away)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._plugin = plugin
        self._handle = handle
        self._namespace = term.namespace
        self._leases: dict[int, PropagatorLease] = {}
        self._waiting = waiting
        self._free = asyncio.Event()
        self._standing: dict[Key, Standing] = {}
        self._braked: str | None = None
        self._judged: set[Key] = set()

    def resync(self, stored: MemberCluster) -> None:
        if _concerns(stored):
            self.add(stored.metadata.key)
            self._look(stored.metadata.name)

    def cluster_changed(self, stored: MemberCluster) -> None:
        self._braked = None
        if _concerns(stored):
            self.add(stored.metadata.key)

    def away_changed(self, name: str) -> None:
        self.loss_changed()
        if (stored := self._stored.get(("", name))) is not None:
            self.cluster_changed(stored)
        else:
            self.forget(("", name))

    def loss_changed(self) -> None:
        """The brake depends on all unreachable clusters."""
        self._braked = None
        for each in self._stored.values():
            if taints.unreachable(each):
                self.add(each.metadata.key)

    def moved(self, cluster: str) -> None:
        stored = self._stored.get(("", cluster))
        if stored is not None and _concerns(stored):
            self.add(stored.metadata.key, after=CALM_SECONDS)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._watch_lease())
            tasks.create_task(self._wake())

    def freed(self) -> None:
        self._free.set()

    async def _wake(self) -> None:
        while True:
            await self._free.wait()
            self._free.clear()
            self._handle.look(self._waiting.first(self._handle.snapshot()))
            await self._clock.sleep(WAKE_SECONDS)

    async def _watch_lease(self) -> None:
        while True:
            lost = [each for each in self._stored.values() if taints.unreachable(each)]
            shards = {_shard_of(each) for each in lost}
            for shard in self._leases.keys() - shards:
                self._leases[shard].forget()
            if any([await self._lease_of(each).look() for each in shards]):
                self.loss_changed()
            await self._clock.sleep(LEASE_SECONDS)

    def _lease_of(self, shard: int) -> PropagatorLease:
        if shard not in self._leases:
            self._leases[shard] = PropagatorLease(
                self._client, name=lease_name(shard), namespace=self._namespace, clock=self._clock
            )
        return self._leases[shard]

    async def prepare(self, stored: MemberCluster) -> None:
        cluster, blocked = stored.metadata.name, list[BlockedWorkload]()
        units = workloads = stay = 0
        async for key in in_slices(sorted(self._handle.holders(cluster))):
            workload = self._workloads.get(key)
            if workload is None or workload.info is None:
                continue
            info = workload.info
            leaving = info.moving.leaving.get(cluster)
            there = 0 if info.deleting else info.present.get(cluster, 0)
            if there and not self._plugin.evicts(info, stored):
                stay += there
                there = 0
            there += leaving.replicas if leaving is not None else 0
            if not there:
                continue
            units, workloads = units + there, workloads + 1
            if len(blocked) < MOST_BLOCKED and (held := _blocked(workload)) is not None:
                blocked.append(held)
        self._standing[stored.metadata.key] = Standing(units, workloads, stay, blocked)

    def draft(self, stored: MemberCluster) -> Result | None:
        if not _concerns(stored):
            return None
        now, key = self._clock.now(), stored.metadata.key
        evacuation = stored.status.evacuation
        not_ready = taints.NOT_READY.text
        causes = evacuation.causes if evacuation is not None else []
        since = next((stored_time(each.since) for each in causes if each.name == not_ready), None)
        unreachable, lease = taints.unreachable(stored), self._lease_of(_shard_of(stored))
        if unreachable and since is None and not lease.judged:
            return Result(fields=None, carry=_News())  # the Lease has been read by then
        condition = _condition(stored)
        said = status.evacuation_of(
            stored,
            self._standing.get(key, status.NOTHING),
            self._handle.configuration.movement,
            now,
            blind=unreachable and lease.late,
            doubted=unreachable and since is not None and not lease.counts(since),
            brake=self._brake(),
            before=str(condition.get("reason", "")),
        )
        wait = None if said.look is None else max((said.look - now).total_seconds(), 0.0)
        before, reason = condition.get("reason"), said.reason.value
        same = (evacuation, before) == (said.evacuation, reason)
        now_said = {"reason": reason, "message": said.message}
        woken = _drives(evacuation, condition) != _drives(said.evacuation, now_said)
        told = condition.get("message") == said.message
        told |= said.reason is EvacuatingReason.TOLERATING  # it counts seconds
        judged = not unreachable or lease.judged
        if same and told:
            return Result(fields=None, requeue_after=wait, carry=_News(judged=judged))
        # A controller of other scheduler names writes the same fields by its own configuration.
        rest = self.rest(key, CALM_SECONDS)
        if rest > 0:
            return Result(fields=None, requeue_after=rest, carry=_News())
        renewed = conditions.renewed(
            condition,
            type_=_EVACUATING,
            true=said.true,
            reason=said.reason.value,
            message=said.message,
            now=now,
            generation=stored.metadata.generation,
        )
        others = [c.stored for c in stored.status.conditions if c.type != _EVACUATING]
        return Result(
            fields={**status.fields_of(said), "conditions": [*others, renewed]},
            events=said.events,
            requeue_after=wait,
            anyway=True,  # compared above
            carry=_News(woken, judged),
        )

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        news: _News = result.carry
        first = news.judged and key not in self._judged
        if first:
            self._judged.add(key)
        if (written and news.woken) or first:
            self._look(key[1])

    def judged(self, cluster: str) -> bool:
        """A stored loss may be older than this term."""
        return ("", cluster) in self._judged

    def _look(self, cluster: str) -> None:
        def turn(key: Key) -> tuple[int, Key]:
            workload = self._workloads.get(key)
            return (0 if workload is None else -workload.spec.priority), key

        held = filter(is_workload, self._handle.holders(cluster))
        self._handle.look(sorted(held, key=turn))

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._braked = None
        self._judged.discard(key)
        self._standing.pop(key, None)

    async def _write(self, meta: Meta, status: Mapping[str, Any]) -> None:
        known = self._away.get(meta.name)
        if known is not None and known.metadata is meta:
            self._check()
            self._away.said(meta.name, status)
        else:
            await super()._write(meta, status)

    def _brake(self) -> str:
        if self._braked is None:
            configuration = self._handle.configuration.movement.brake
            found = brake_of(self._stored.values(), configuration)
            for scope in SCOPES:
                BRAKE.labels(scope).set(found is not None and found.scope == scope)
            self._braked = "" if found is None else found.text
        return self._braked


class _Fleet:
    def __init__(self, stored: Informer[MemberCluster], away: AwayClusters) -> None:
        self._stored = stored
        self._away = away

    def get(self, key: Key) -> MemberCluster | None:
        found = self._stored.get(key)
        if found is None:
            return self._away.get(key[1])
        return None if found.given_up else found

    def values(self) -> Collection[MemberCluster]:
        stored = [each for each in self._stored.values() if not each.given_up]
        return [*stored, *self._away.values()]

    def upsert(self, cluster: MemberCluster) -> None:
        self._stored.upsert(cluster)


def _concerns(cluster: MemberCluster) -> bool:
    told = _condition(cluster).get("reason")
    return bool(taints.in_force(cluster)) or cluster.evacuating or told not in (None, "None")


def _drives(evacuation: Evacuation | None, condition: Mapping[str, Any]) -> tuple[object, ...]:
    causes, until = (evacuation.causes, evacuation.dwells_until) if evacuation else ([], "")
    reason, message = condition.get("reason"), condition.get("message")
    return causes, until, (reason, message) if reason in HELD else None


def _condition(cluster: MemberCluster) -> dict[str, Any]:
    found = cluster.condition(_EVACUATING)
    return {} if found is None else found.stored


def _blocked(workload: Workload) -> BlockedWorkload | None:
    said = conditions.among(workload.status.conditions, WorkloadCondition.MOVING.value)
    reason = str(said.get("reason", ""))
    if said.get("status") != "False" or reason == MovingReason.SETTLED.value:
        return None
    return BlockedWorkload(*workload.metadata.key, reason, str(said.get("message", "")))
