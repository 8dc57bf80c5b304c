"""Sweeps objects on a member whose Workload is gone.

The object that is left names an owner UID that the hub does not know. It goes when the member is
listed for the first time, or when a watch shows it.

So only objects with this hub's own mark go, because a member may serve two hubs, or that of the hub
that this one was restored from; only on a fresh view of the hub; only after the hub was asked for
that very Workload; and many at once wait for approval (`brake`). While the hub deletes the kind
Workload itself, such objects are let go instead. Of a member in mode Pull its agent tells what is
left, and an Assignment orders the removal.
"""

from __future__ import annotations

import functools

from crds.assignment import AssignmentOrder, AssignmentState
from machinery import logs
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import HubIdentity
from propagator.members.objects import ManagedObject, hub_of, owners
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.pull.assignments import AssignmentWriter
from propagator.removal.brake import SweepBrake, left_behind
from propagator.removal.prune import Pruner, PruneResult

LOG = logs.get(__name__)


class Orphans:
    def __init__(
        self,
        *,
        workloads: HubWorkloads,
        identity: HubIdentity,
        pruner: Pruner,
        brake: SweepBrake,
        assignments: AssignmentWriter,
    ) -> None:
        self._assignments = assignments
        self._workloads = workloads
        self._identity = identity
        self._pruner = pruner
        self._brake = brake

    async def sweep(self, session: MemberSession, key: Key) -> list[PruneResult]:
        """Remove what gone Workloads of that key left; return what stays.

        Held objects are not returned: the brake queues the key when they may go. The view of the
        hub must be fresh. Raises TransportError.
        """
        if isinstance(session, PullSession):
            await self._order(session, key)
            return []
        strangers = self._strangers(session, key)
        if not strangers:
            return []
        hubs = {await self._identity.uid()} - {""}
        if {hub_of(each) for found in strangers.values() for each in found} - hubs - {""}:
            hubs |= await self._brake.former_hubs()
        left = []
        for uid in sorted(strangers):
            ours = functools.partial(left_behind, uid=uid, hubs=hubs, key=key)
            if not any(ours(found) for found in strangers[uid]):
                continue
            if not await self._brake.allows(session, uid):
                continue
            if await self._workloads.vanished(uid, key):
                LOG.info(
                    "%s: removing what Workload %s (uid %s) left, as the hub has no such Workload",
                    session.name,
                    "/".join(key),
                    uid,
                )
                # Else the object tells whether it is left.
                orphan = True if await self._workloads.kind_ends(uid) else None
                left.append(
                    await self._pruner.prune(session, uid, ended=True, orphan=orphan, only=ours)
                )
                self._brake.swept(session)
        return [each for each in left if each]

    async def _order(self, session: PullSession, key: Key) -> None:
        """Have the agent remove what gone Workloads left, and forget what it has told to be gone.

        A process may have died between the end of a Workload and the end of its Assignment.
        """
        for uid in sorted(u for u in session.uids_of(key) if not self._workloads.known(u)):
            found = session.assignment(uid)
            if found is not None and found.spec.order == AssignmentOrder.REMOVE:
                if found.carried_out and found.status.state == AssignmentState.REMOVED:
                    await self._assignments.forget(session, uid)
                continue
            if not await self._brake.allows(session, uid):
                continue
            if await self._workloads.vanished(uid, key):
                told = "%s: ordering the removal of what Workload %s (uid %s) left"
                LOG.info(told, session.name, "/".join(key), uid)
                orphan = True if await self._workloads.kind_ends(uid) else None
                await self._assignments.end(session, uid, key, orphan=orphan)
                self._brake.swept(session)

    def _strangers(self, session: MemberSession, key: Key) -> dict[str, list[ManagedObject]]:
        """Return objects under that key, by the UIDs of owners that the hub does not know."""
        found: dict[str, list[ManagedObject]] = {}
        for _, each in session.link.watches.named(key) if session.link else ():
            for uid, of in owners(each.metadata).items():
                if of == key and not self._workloads.known(uid):
                    found.setdefault(uid, []).append(each)
        return found
