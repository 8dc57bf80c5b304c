"""The end of a Workload: its finalizer goes when each member that matters has acknowledged it.

Those are the members that were ever sent something of it (`record`), and whoever shows something
of it. A member acknowledges when its own worker, after the deletion, has found nothing there and no
write is in doubt (`shares`). One that does not answer holds the Workload up; one whose
MemberCluster was deleted does not: what lies there is swept when it comes back (`orphans`).
"""

from __future__ import annotations

from propagator.hub.workloads import clusters_of
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects
from propagator.types.workload import Workload


class Finalizer:
    """Asked before a deleted Workload is let go."""

    def __init__(self, ground: ControllerContext, *, inventory: OwnedObjects) -> None:
        self._fleet = ground.fleet
        self._clusters = ground.clusters
        self._inventory = inventory
        self._acknowledged: dict[str, set[str]] = {}

    def acknowledge(self, workload: Workload, member: str) -> None:
        """That member holds nothing of a Workload, whose deletion it knows of."""
        if workload.metadata.deleting:
            self._acknowledged.setdefault(workload.uid, set()).add(member)

    def witnesses(self, workload: Workload) -> list[str]:
        """The members that have said so, in order."""
        return sorted(self._acknowledged.get(workload.uid, ()))

    def went(self, uid: str) -> None:
        """There is no such Workload any more."""
        self._acknowledged.pop(uid, None)

    def removed(self, member: str) -> None:
        """The member was removed: should it come back, it is asked again."""
        for members in self._acknowledged.values():
            members.discard(member)

    def clear(self) -> None:
        """Another process has written to members since: each is asked again."""
        self._acknowledged.clear()

    def awaited(self, workload: Workload) -> set[str]:
        """The members whose word is missing. Only a fresh view of the hub tells the removed."""
        confirmed = self._acknowledged.get(workload.uid, set())
        asked = clusters_of(workload, self._names) - confirmed
        there = {name for name in asked if self._registered(name)}
        return there | self._inventory.holders(workload.uid)

    def _names(self) -> set[str]:
        """All members, so that a noted digest is told from a name also where no session is yet."""
        return {*self._fleet.names(), *(cluster.name for cluster in self._clusters.values())}

    def _registered(self, name: str) -> bool:
        """Right after the start there are members that have no session yet."""
        return self._fleet.get(name) is not None or self._clusters.get(("", name)) is not None
