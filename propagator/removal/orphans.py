"""What lies on a member for a Workload that is gone: it is taken away, whenever it is seen.

Workloads keep their finalizer until every member is clean, but objects can be left all the same: a
member was removed and comes back, somebody took the finalizer away, what a dead process had sent
arrives late. Such an object is known by its owner: a UID that the hub does not know. It goes when
the member is listed for the first time, or when a watch shows it.

Careful, as this removes what nobody asked to remove: only objects with this hub's own mark, as a
member may serve two hubs and what carries no mark may be anybody's; only on a fresh view of the
hub; the hub itself is asked for that very Workload before anything goes; and much at once waits for
a person (`brake`).
"""

from __future__ import annotations

import functools

from machinery import logs
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.hub_identity import HubIdentity
from propagator.members.objects import ManagedObject, owners
from propagator.members.target import Target
from propagator.removal.brake import SweepBrake, left_behind
from propagator.removal.prune import Left, Pruner

LOG = logs.get(__name__)


class Orphans:
    """Called by the members' own workers, for one name of a Workload at a time."""

    def __init__(
        self,
        *,
        workloads: HubWorkloads,
        identity: HubIdentity,
        pruner: Pruner,
        brake: SweepBrake,
    ) -> None:
        self._workloads = workloads
        self._identity = identity
        self._pruner = pruner
        self._brake = brake

    async def sweep(self, session: Target, key: Key) -> list[Left]:
        """Take away what Workloads of that name left that are gone; what is left all the same.

        What is held is no part of that: it calls for us when it may go. The view of the hub must be
        fresh. Raises TransportError.
        """
        strangers = self._strangers(session, key)
        if not strangers:
            return []
        hub = await self._identity.uid()
        left = []
        for uid in sorted(strangers):
            ours = functools.partial(left_behind, uid=uid, hub=hub, key=key)
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
                left.append(await self._pruner.prune(session, uid, ended=True, only=ours))
                self._brake.swept(session)
        return [each for each in left if each]

    def _strangers(self, session: Target, key: Key) -> dict[str, list[ManagedObject]]:
        """What lies there under that name, by UIDs of owners that are not known on the hub."""
        found: dict[str, list[ManagedObject]] = {}
        for _, each in session.link.watches.named(key) if session.link else ():
            for uid, of in owners(each.metadata).items():
                if of == key and not self._workloads.known(uid):
                    found.setdefault(uid, []).append(each)
        return found
