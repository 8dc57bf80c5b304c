"""The end of a Workload: when nothing of it is left, and what becomes of one that went without us.

A deleted Workload keeps its finalizer until no member holds anything of it; one that does not
answer holds that up, one that was removed does not. When somebody takes the finalizer away, or a
member is removed and comes back, objects are left that no Workload stands for: they go as well, but
only where the end of their Workload was seen, and never on a view of the hub that is stale.
"""

from __future__ import annotations

from contextlib import suppress

from machinery.errors import NotFound
from machinery.objects import Key
from machinery.resources import WORKLOADS
from propagator.holdings import Holdings, owned
from propagator.hubworkloads import clusters_of
from propagator.member import MemberSession
from propagator.model import Workload
from propagator.prune import Pruner
from propagator.term import Ground


class Endings:
    """Told of every Workload that comes and goes, asked before one is let go. One for a term."""

    def __init__(self, ground: Ground, *, holdings: Holdings, pruner: Pruner) -> None:
        self._ground = ground
        self._fleet = ground.fleet
        self._holdings = holdings
        self._pruner = pruner
        self._gone: dict[str, Key] = {}

    def there(self, workload: Workload) -> None:
        """The Workload exists."""
        self._gone.pop(workload.uid, None)

    def went(self, workload: Workload) -> None:
        """It went; remembered when a member held, or may have held, some of it."""
        unasked = any(
            (session := self._fleet.get(name)) is None
            or not self._holdings.knows(session, workload)
            for name in clusters_of(workload)
        )
        if unasked or self._holdings.holders(workload.uid):
            self._gone[workload.uid] = workload.metadata.key

    def clean(self, workload: Workload) -> bool:
        """Whether no member holds anything of a deleted Workload. A removed member does not."""
        if not self._ground.fresh():
            return False
        may_hold = {n for n in clusters_of(workload) if self._holdings.may_hold(workload, n)}
        left = self._holdings.holders(workload.uid) | may_hold
        if left:
            self._fleet.wake(min(left), workload.metadata.key)
        return not left

    async def sweep(self, session: MemberSession, key: Key) -> bool:
        """Remove what Workloads of that name left that went without us; whether there was any.

        Somebody took the finalizer away, or the member was removed and is back. Only Workloads
        whose end was seen count: one that was never heard of may be another hub's. The hub is
        asked once more before anything is removed.
        """
        gone = [uid for uid, of in self._gone.items() if of == key and owned(session, uid)]
        if not gone:
            return False
        with suppress(NotFound):
            found = await self._ground.hub.get(WORKLOADS, key[1], namespace=key[0])
            gone = [uid for uid in gone if uid != found["metadata"]["uid"]]
        self._ground.check()
        for uid in gone:
            await self._pruner.prune(session, uid)
        return bool(gone)
