"""Orders that what gone Workloads left on a member in mode Pull goes, by the rule of `orphans`.

The agent tells what stands there without an Assignment. So only on a fresh view of the hub, only
after the hub was asked for that very Workload, and many at once wait for approval
(`removal.brake`).
"""

from __future__ import annotations

from crds.assignment import AssignmentOrder, AssignmentState
from machinery import logs
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.pulled import PullSession
from propagator.pull.assignments import AssignmentWriter
from propagator.removal.brake import SweepBrake
from propagator.types.assignment import Assignment

LOG = logs.get(__name__)


class Leftovers:
    def __init__(
        self, *, workloads: HubWorkloads, brake: SweepBrake, assignments: AssignmentWriter
    ) -> None:
        self._workloads = workloads
        self._brake = brake
        self._assignments = assignments

    async def order(self, session: PullSession, key: Key) -> None:
        """Order the removal of what gone Workloads of that key left, and forget what is gone.

        The view of the hub must be fresh. Raises TransportError.
        """
        for uid in sorted(u for u in session.uids_of(key) if not self._workloads.known(u)):
            if (found := session.assignment(uid)) is not None:
                if await self._is_over(found, key):
                    await self._assignments.forget(session, uid)
                continue
            if not await self._brake.allows(session, uid):
                continue  # which queues the key when it may go
            if await self._workloads.vanished(uid, key):
                told = "%s: ordering the removal of what Workload %s (uid %s) left"
                LOG.info(told, session.name, "/".join(key), uid)
                orphan = True if await self._workloads.kind_ends(uid) else None
                await self._assignments.end(session, uid, key, orphan=orphan)
                self._brake.swept(session)

    async def _is_over(self, found: Assignment, key: Key) -> bool:
        """Whether the Assignment of a Workload that is not known goes; that removes nothing.

        The agent has told that nothing is left. Or a finalizer was removed by hand: what stands is
        told without the Assignment, and judged by that.
        """
        if found.spec.order == AssignmentOrder.REMOVE:
            return found.carried_out and found.status.state == AssignmentState.REMOVED
        return await self._workloads.vanished(found.uid, key)
