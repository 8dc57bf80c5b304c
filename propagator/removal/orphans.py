"""Sweeps objects on a member whose owner UID the hub does not know.

Only objects with the mark of this hub go, or of the hub that this one was restored from; only on a
fresh view of the hub; only after the hub was asked for that very Workload; many at once wait for
approval (`brake`). While the hub deletes the kind Workload itself, such objects are let go instead.
"""

from __future__ import annotations

import functools

from machinery import logs
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import HubIdentity
from propagator.members.objects import ManagedObject, hub_of, owners
from propagator.members.session import MemberSession
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
    ) -> None:
        self._workloads = workloads
        self._identity = identity
        self._pruner = pruner
        self._brake = brake

    async def sweep(self, session: MemberSession, key: Key) -> list[PruneResult]:
        """Return what stays, without held objects.

        The view of the hub must be fresh. TransportError.
        """
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

    def _strangers(self, session: MemberSession, key: Key) -> dict[str, list[ManagedObject]]:
        found: dict[str, list[ManagedObject]] = {}
        for _, each in session.link.watches.named(key) if session.link else ():
            for uid, of in owners(each.metadata).items():
                if of == key and not self._workloads.known(uid):
                    found.setdefault(uid, []).append(each)
        return found
