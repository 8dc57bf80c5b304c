"""The feature of shards: the condition Served of MemberClusters.

It is False while no propagator holds the member's shard; else the Lease of shard 0 says how many
shards there are.
"""

from __future__ import annotations

import asyncio

from controller.framework.runtime.feature import Feature, Term
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import MemberCluster
from crds.membercluster import MemberClusterCondition, ServedReason
from crds.names import ANNOTATION_SHARDS
from machinery import logs, metrics
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import TransportError
from machinery.runtime.lease_reader import LeaseReader
from machinery.types import conditions
from machinery.types.shards import MOST_SHARDS, lease_name, owner, shards_of

LOG = logs.get(__name__)
LOOK_SECONDS = 5.0
UNHELD_SECONDS = 30.0
"""Seconds without a holder until it is told: a rolling update takes a few."""
LEASE_SECONDS = 10.0
UNHELD = metrics.gauge(
    "stowage_shards_unheld", "Shards of the propagator that nobody has held for 30 seconds"
)
_SERVED = MemberClusterCondition.SERVED.value


class ShardController(StatusWriter[MemberCluster]):
    action = "Serving"

    def __init__(self, term: Term) -> None:
        super().__init__(term, MEMBER_CLUSTERS, MemberCluster)
        self._leases = LeaseReader(
            term.client,
            namespace=term.namespace,
            clock=term.clock,
            lease_seconds=LEASE_SECONDS,
            blind_seconds=2 * LOOK_SECONDS,
        )
        self._shards = 0
        """As many as there are, or 0 while nobody has looked."""
        self._missed: dict[int, float] = {}
        """Since when a shard is seen to be unheld; monotonic."""
        self._unheld = frozenset[int]()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._watch())

    async def _watch(self) -> None:
        try:
            while True:
                try:
                    await self._look()
                except TransportError as fault:
                    LOG.info("the Leases of shards cannot be read: %s", fault)
                await self._clock.sleep(LOOK_SECONDS)
        finally:
            UNHELD.set(0)

    async def _look(self) -> None:
        before = self._shards, self._unheld
        if any(each.status.shard is not None for each in self._stored.values()):
            await self._leases.read([lease_name(0)])
            first = self._leases.get(lease_name(0))
            said = first.record.annotations.get(ANNOTATION_SHARDS, "") if first is not None else ""
            self._shards = shards_of(said) or 1
            await self._leases.read(lease_name(each) for each in range(1, self._shards))
        else:
            self._shards = 1
        self._unheld = frozenset(self._find_unheld()) if self._shards > 1 else frozenset()
        UNHELD.set(len(self._unheld))
        if (self._shards, self._unheld) != before:
            self.add_all()

    def _find_unheld(self) -> set[int]:
        now = self._clock.monotonic()
        for shard in range(MOST_SHARDS):
            seen = self._leases.get(lease_name(shard))
            if shard >= self._shards or (seen is not None and seen.held):
                self._missed.pop(shard, None)
            else:
                self._missed.setdefault(shard, now)
        # That it is unheld shows only LEASE_SECONDS after the last renewal.
        patience = UNHELD_SECONDS - LEASE_SECONDS
        return {shard for shard, at in self._missed.items() if now - at >= patience}

    def draft(self, stored: MemberCluster) -> Result | None:
        if not self._shards:
            return None  # the Leases are read first
        shard = owner(stored.metadata.name, self._shards)
        others = [each.stored for each in stored.status.conditions if each.type != _SERVED]
        if shard not in self._unheld:
            if len(others) == len(stored.status.conditions):
                return None
            return Result(fields={"conditions": others}, anyway=True)
        served = conditions.renewed(
            next((c.stored for c in stored.status.conditions if c.type == _SERVED), {}),
            type_=_SERVED,
            true=False,
            reason=ServedReason.SHARD_UNHELD.value,
            message=f"no propagator holds shard {shard} of {self._shards}: nothing is done there, "
            "and what is told of it is of before; `stowage shards` shows who holds which",
            now=self._clock.now(),
            generation=stored.metadata.generation,
        )
        return Result(fields={"conditions": [*others, served]})


class Shards(Feature):
    controller: ShardController

    def __init__(self) -> None:
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed, gone=self.cluster_gone)

    def start(self, term: Term) -> ShardController:
        return ShardController(term)

    def cluster_changed(self, _old: MemberCluster | None, new: MemberCluster) -> None:
        self.controller.add(new.metadata.key)

    def cluster_gone(self, old: MemberCluster) -> None:
        self.controller.forget(old.metadata.key)
