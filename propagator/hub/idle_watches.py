"""Watches over kinds that nobody uses any more end, and are not remembered for ever.

A Workload may bring along any kind that a member has, and each kind costs every member that gets it
a connection. So a kind beyond the usual ones is watched only while a Workload refers to it, or an
object of it is there. A Workload refers to what it renders and to what it once rendered, until it
was seen twice, a while apart, that no member has anything of that: a write that was under way the
first time has long ended the second time. The few usual kinds stay watched once they are.
"""

from __future__ import annotations

from machinery import logs
from machinery.api.resources import Resource
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.tasks import in_slices
from propagator.hub.workloads import HubWorkloads, clusters_of, touches
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects, owned
from propagator.members.kinds import USUAL, USUAL_KINDS
from propagator.members.objects import ManagedObject
from propagator.members.target import Target
from propagator.types.workload import Workload

LOG = logs.get(__name__)
PERIOD_SECONDS = 60.0
FEW = 20
"""Members that are looked at in one go: each has a look at all Workloads of each of its kinds."""

Pair = tuple[str, str]
"""(apiVersion, kind)."""


class IdleKinds:
    """Runs beside the syncs."""

    def __init__(
        self, ground: ControllerContext, *, workloads: HubWorkloads, inventory: OwnedObjects
    ) -> None:
        self._clock = ground.clock
        self._fresh = ground.fresh
        self._fleet = ground.fleet
        self._workloads = workloads
        self._inventory = inventory
        self._seen_idle: dict[str, set[Pair]] = {}

    def clear(self) -> None:
        """Another process has written since: what was idle at our last look need not be so."""
        self._seen_idle.clear()

    async def run(self) -> None:
        """Look around now and then, until cancelled."""
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            if self._fresh():
                await self.sweep()

    async def sweep(self) -> None:
        """Forget kinds that were idle at the last look as well, and end watches of no use."""
        before, self._seen_idle = self._seen_idle, {}
        async for workload in in_slices(list(self._workloads.informer.values())):
            idle = await self._idle(workload)
            if idle:
                self._seen_idle[workload.uid] = idle
                await self._forget(workload, idle & before.get(workload.uid, set()))
        async for name in in_slices(self._fleet.names(), size=FEW):
            session = self._fleet.get(name)
            if session is not None:
                self._rest(session)

    async def _forget(self, workload: Workload, idle: set[Pair]) -> None:
        try:
            await self._workloads.forget_kinds(workload, idle)
        except TransportError as fault:
            LOG.info("its kinds are kept until the next look: %s", fault, extra=_about(workload))

    async def _idle(self, workload: Workload) -> set[Pair]:
        """The noted kinds that it renders no more, and that surely no member has for it.

        It may be on ten thousand members, so others run in between. What is written meanwhile is of
        a kind that it renders, or was under way before: the next look sees it.
        """
        left = set(workload.remembered()) - set(workload.kinds()) - USUAL_KINDS
        if not left or workload.metadata.deleting:
            return set()
        names = clusters_of(workload, self._fleet.names) | self._inventory.holders(workload.uid)
        async for name in in_slices(names):
            session = self._fleet.get(name)
            if session is None or not self._inventory.knows(session, workload):
                return set()
            held = owned(session, workload.uid)
            left -= {(resource.api_version, resource.kind) for resource, _ in held}
        return left

    def _rest(self, session: Target) -> None:
        """Within one breath: nobody can begin to use a watch between the look and its end."""
        if session.link is None:
            return
        for resource in {informer.resource for informer in session.link.watches} - set(USUAL):
            watching = session.link.watches.of_kind(resource.api_version, resource.kind)
            shown = any(len(each) or _unread(each) for each in watching.values())
            if not shown and not self._used(session.name, resource):
                session.untrack(resource)

    def _used(self, member: str, resource: Resource) -> bool:
        """Whether a Workload that touches the member refers to the kind."""
        users = self._workloads.referring(resource.api_version, resource.kind)
        return any(touches(user, member) for user in users)


def _unread(informer: Informer[ManagedObject]) -> bool:
    """Whether its first list is still under way: the census saw something that is to be swept."""
    return not informer.synced and not isinstance(informer.last_error, NotFound | Forbidden)


def _about(workload: Workload) -> dict[str, str]:
    return {"object": workload.owner}
