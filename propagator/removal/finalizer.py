"""Which members have acknowledged a Workload's end: after all of them its finalizer goes.

Every member in the footprint must acknowledge (`hub.workloads.clusters_of`), and every one that
shows something of the Workload. One does when its worker has found nothing there and no write is
unconfirmed. A member that does not answer delays the end, and so does one whose MemberCluster is
gone while it has a share. One that an operator gives up goes from the footprint. What an agent
tells of claims that were left delays nothing, as nobody removes them. The last of several shards
removes the finalizer.
"""

from __future__ import annotations

from propagator.hub.workload_metadata import record_of
from propagator.hub.workloads import clusters_of
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects
from propagator.members.pulled import PullSession
from propagator.types.workload import Workload


class Finalizer:
    def __init__(self, context: ControllerContext, *, inventory: OwnedObjects) -> None:
        self._registry = context.registry
        self._views = context.views
        self._clusters = context.clusters
        self._inventory = inventory
        # Another leader may have written to the member since, and a member that was removed may
        # come back: both are asked again.
        self._acknowledged = context.shares.column(bool, of_term=True)

    def acknowledge(self, workload: Workload, member: str) -> None:
        if workload.metadata.deleting:
            self._acknowledged.put(workload.uid, member, True)

    def acknowledged(self, workload: Workload, member: str) -> bool:
        return workload.metadata.deleting and bool(self._acknowledged.get(workload.uid, member))

    def witnesses(self, workload: Workload) -> list[str]:
        """Return the members that have acknowledged, in order."""
        return sorted(self._acknowledged.of(workload.uid))

    def awaited(self, workload: Workload) -> set[str]:
        """Return the members that have not acknowledged. The view of the hub must be fresh."""
        confirmed = self._acknowledged.of(workload.uid)
        asked = clusters_of(workload, self._names) - confirmed.keys()
        asked = {name for name in asked if not self._views.elsewhere(name)}
        there = {name for name in asked if self._registered(name) or self._away(workload, name)}
        return there | {
            n for n in self._inventory.holders(workload.uid) if self._holds(workload, n)
        }

    def given_up(self, workload: Workload) -> set[str]:
        """Return the members in the footprint that an operator has given up; none is served."""
        noted = (name for name in self.noted(workload) if self._registry.get(name) is None)
        return {name for name in noted if self._given_up(name)}

    def elsewhere(self, workload: Workload) -> set[str]:
        return {name for name in self.noted(workload) if self._views.elsewhere(name)}

    def noted(self, workload: Workload) -> set[str]:
        return record_of(workload).names(self._names)

    def _names(self) -> set[str]:
        return {*self._registry.names(), *(cluster.name for cluster in self._clusters.values())}

    def _given_up(self, name: str) -> bool:
        cluster = self._clusters.get(("", name))
        return self._registry.gave_up(name) if cluster is None else cluster.given_up

    def _away(self, workload: Workload, name: str) -> bool:
        if self._clusters.get(("", name)) is not None or self._given_up(name):
            return False
        placed = name in workload.placements and name not in workload.ends
        return (placed or name in workload.causes) and name in record_of(workload)

    def _holds(self, workload: Workload, name: str) -> bool:
        session = self._registry.get(name)
        return not (isinstance(session, PullSession) and session.keeps_alone(workload))

    def _registered(self, name: str) -> bool:
        # Right after the start there are members that have no session yet.
        cluster = self._clusters.get(("", name))
        if cluster is None or cluster.given_up:
            return False
        session = self._registry.get(name)
        return session is None or not session.refused_as_second
