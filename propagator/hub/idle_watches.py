"""Ends watches of kinds that no Workload uses any more, and removes these kinds from the notes.

Each watched kind costs a connection on every member. A kind beyond the usual ones is watched while
a Workload refers to it or objects of it exist. A noted kind that is no longer rendered counts until
two checks find no object on any member: a write in flight at the first has ended at the second.
"""

from __future__ import annotations

from machinery import logs
from machinery.api.resources import USUAL, Resource
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.tasks import in_slices
from propagator.hub.workloads import HubWorkloads, clusters_of, touches
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects, owned
from propagator.members.kinds import USUAL_KINDS
from propagator.members.objects import ManagedObject
from propagator.members.session import MemberSession
from propagator.types.workload import Workload

LOG = logs.get(__name__)
PERIOD_SECONDS = 60.0
FEW = 20
"""Members in one slice: each checks all Workloads of each of its kinds."""

Pair = tuple[str, str]
"""(apiVersion, kind)."""


class IdleKinds:
    def __init__(
        self, context: ControllerContext, *, workloads: HubWorkloads, inventory: OwnedObjects
    ) -> None:
        self._clock = context.clock
        self._fresh = context.fresh
        self._registry = context.registry
        self._workloads = workloads
        self._inventory = inventory
        self._seen_idle: dict[str, set[Pair]] = {}

    def clear(self) -> None:
        """Another process may have written objects of these kinds since."""
        self._seen_idle.clear()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            if self._fresh():
                await self.sweep()

    async def sweep(self) -> None:
        before, self._seen_idle = self._seen_idle, {}
        async for workload in in_slices(list(self._workloads.informer.values())):
            idle = await self._idle(workload)
            if idle:
                self._seen_idle[workload.uid] = idle
                await self._forget(workload, idle & before.get(workload.uid, set()))
        async for name in in_slices(self._registry.names(), size=FEW):
            session = self._registry.get(name)
            if session is not None:
                self._end_idle(session)

    async def _forget(self, workload: Workload, idle: set[Pair]) -> None:
        try:
            await self._workloads.forget_kinds(workload, idle)
        except TransportError as fault:
            LOG.info("its kinds are kept until the next look: %s", fault, extra=_about(workload))

    async def _idle(self, workload: Workload) -> set[Pair]:
        """Return the noted kinds that are not rendered, and that no member has.

        Tasks in between write rendered kinds, or were in flight before: the next check sees those
        objects.
        """
        left = set(workload.remembered()) - set(workload.kinds()) - USUAL_KINDS
        if not left or workload.metadata.deleting:
            return set()
        names = clusters_of(workload, self._registry.names) | self._inventory.holders(workload.uid)
        async for name in in_slices(names):
            session = self._registry.get(name)
            if session is None or not self._inventory.knows(session, workload):
                return set()
            held = owned(session, workload.uid)
            left -= {(resource.api_version, resource.kind) for resource, _ in held}
        return left

    def _end_idle(self, session: MemberSession) -> None:
        if session.link is None:
            return
        # No await from the check to the end of the watch: no task may begin to use it.
        for resource in {informer.resource for informer in session.link.watches} - set(USUAL):
            watching = session.link.watches.of_kind(resource.api_version, resource.kind)
            shown = any(len(each) or _unread(each) for each in watching.values())
            if not shown and not self._used(session.name, resource):
                session.untrack(resource)

    def _used(self, member: str, resource: Resource) -> bool:
        users = self._workloads.referring(resource.api_version, resource.kind)
        return any(touches(user, member) for user in users)


def _unread(informer: Informer[ManagedObject]) -> bool:
    """Whether the first list is in flight: the census found an object that may be swept."""
    return not informer.synced and not isinstance(informer.last_error, NotFound | Forbidden)


def _about(workload: Workload) -> dict[str, str]:
    return {"object": workload.owner}
