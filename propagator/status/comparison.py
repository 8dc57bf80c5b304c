"""Which members were compared with the hub, after a start and after each reconnection."""

from __future__ import annotations

from collections import defaultdict

from crds.membercluster import MemberClusterCondition
from machinery import logs
from machinery.errors import TransportError
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types import conditions
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.types.cluster import MemberCluster

LOG = logs.get(__name__)
_REPORT = "report"


class Comparison:
    """With one shard it does nothing."""

    def __init__(self, context: ControllerContext, *, workloads: HubWorkloads) -> None:
        self._registry = context.registry
        self._clusters = context.clusters
        self._membership = context.membership
        self._workloads = workloads
        self._owing: defaultdict[Key, set[str]] = defaultdict(set)
        """The members whose `uncompared` has the Workload, and former ones."""
        self._queue: WorkQueue[str] = WorkQueue(name="comparison", clock=context.clock)
        context.registry.on_change(self._member_changed)
        context.membership.on_change(self._shards_changed)

    def begin(self) -> None:
        self._owing.clear()
        for name in self._registry.names():
            if (session := self._registry.get(name)) is not None:
                session.uncompared = None
            self._member_changed(name, None)

    async def run(self) -> None:
        await work(self._queue, self._report, workers=1, log=LOG)

    def reported(self, key: Key) -> None:
        for member in self._owing.pop(key, ()):
            session = self._registry.get(member)
            owed = session.uncompared if session is not None else None
            if owed is None:
                continue
            owed.discard(key)
            if not owed:
                self._registry.tell_facts(member)
                self._queue.add(_REPORT)

    def _shards_changed(self) -> None:
        for name in self._registry.names() if self._membership.several else ():
            session = self._registry.get(name)
            if session is not None and session.uncompared is None:  # there was one shard
                self._registry.look_again(name)
        self._queue.add(_REPORT)

    def _member_changed(self, member: str, key: Key | None) -> None:
        if key is not None or not self._membership.several:
            return
        if (session := self._registry.get(member)) is not None:
            session.uncompared = None
        if session is not None and session.contact is not Contact.CONNECTING:
            session.uncompared = {w.metadata.key for w in self._workloads.touching(member)}
            for each in session.uncompared:
                self._owing[each].add(member)
        self._queue.add(_REPORT)

    def _told_of(self, cluster: MemberCluster) -> bool:
        """Whether its status tells that it answers, and what it has that the hub has forgotten."""
        session = self._registry.get(cluster.name)
        if session is None or session.contact is not Contact.SERVING:
            return True
        if not conditions.holds(cluster.status, MemberClusterCondition.READY):
            return False
        held = session.held
        return held is not None and held.entry() == cluster.status.get("sweepHeld")

    async def _report(self, _: str) -> float | None:
        if not self._membership.several or not self._clusters.synced:
            return None
        ours = [c for c in self._clusters.values() if self._membership.serves(c.name)]
        if self._membership.set_back and not all(map(self._told_of, ours)):
            return 1.0
        sessions = [self._registry.get(each.name) for each in ours]
        compared = all(each is not None and each.uncompared == set() for each in sessions)
        if compared and self._membership.settled:
            try:
                await self._membership.report()
            except TransportError as fault:
                LOG.warning("the Lease does not say that all was compared: %s", fault)
                return 1.0
        return None
