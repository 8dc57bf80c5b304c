"""Workloads onto members, and their state back: the half of the propagator that writes.

`sync` decides what a member owes one Workload and has it done; it is called by that member's own
workers. Beside it stands the one answer to who has to look again when something changes: on the
hub, or on a member. All else has its own module: `shares` does what was decided, `endings` knows
when a Workload has left, `reporter` tells the hub.

What is taken away, and when: a share that left the placements goes when all present ones
are ready, so that the last healthy copy stays until there is another; everything goes when the
Workload is deleted or placed nowhere. Never on a view of the hub that is stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crds.workload import ShareState
from machinery.informer import Informer
from machinery.objects import Key
from propagator.endings import Endings
from propagator.holdings import Holdings, owned
from propagator.hubsecrets import HubSecrets
from propagator.hubworkloads import CLUSTER_INDEX, SECRET_INDEX, HubWorkloads, clusters_of
from propagator.kinds import USUAL
from propagator.member import MemberSession
from propagator.model import Workload
from propagator.prune import AGAIN_SECONDS, Pruner
from propagator.reporter import Reporter
from propagator.shares import Shares
from propagator.survey import Survey
from propagator.term import Ground
from propagator.write import PieceWriter
from propagator.writebook import WriteBook

STALE_SECONDS = 1.0
"""Until the view of the hub is looked at again that is too old to be acted on."""


class WorkloadPlacements:
    """See the module. Made for one term of leadership."""

    def __init__(self, ground: Ground) -> None:
        self._fresh = ground.fresh
        self._fleet = ground.fleet
        self._book = WriteBook(clock=ground.clock)
        self._hub = HubWorkloads(ground)
        self._secrets = HubSecrets(ground.hub, clock=ground.clock, changed=self._secret_changed)
        self._holdings = Holdings(ground)
        pruner = Pruner(self._book)
        self._endings = Endings(ground, holdings=self._holdings, pruner=pruner)
        self._reporter = Reporter(
            ground,
            workloads=self._hub,
            survey=Survey(ground, holdings=self._holdings),
            endings=self._endings,
        )
        self._shares = Shares(
            ground,
            workloads=self._hub,
            secrets=self._secrets,
            holdings=self._holdings,
            writer=PieceWriter(self._book, clock=ground.clock),
            pruner=pruner,
            note=self._reporter.note,
        )
        self._hub.informer.add_handler(self._workload_changed)
        self._fleet.on_change(self._member_changed)
        self._fleet.watch(*USUAL)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """Workloads, and the names of Secrets."""
        return (self._hub.informer, self._secrets.informer)

    async def run(self) -> None:
        """Report and release, until cancelled."""
        for informer in self.informers:
            await informer.wait_synced()
        await self._reporter.run()

    async def sync(self, session: MemberSession, key: Key) -> float | None:
        """Make one ready member right for one Workload; seconds until the next look, or None."""
        if not self._fresh():
            return STALE_SECONDS
        if await self._endings.sweep(session, key):
            return AGAIN_SECONDS
        workload = self._hub.informer.get(key)
        if workload is None:
            self._reporter.forget(key)
            return None
        if workload.metadata.deleting or not workload.placements:
            return await self._shares.leave(session, workload)
        if session.name in workload.placements:
            return await self._shares.push(session, workload)
        return await self._move_on(session, workload)

    async def _move_on(self, session: MemberSession, workload: Workload) -> float | None:
        """A share that left: it goes when the others are ready."""
        await self._holdings.look_for(session, workload)
        if owned(session, workload.uid) and _settled(workload):
            return await self._shares.leave(session, workload)
        self._reporter.queue.add(workload.metadata.key)
        return None

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Wake the members concerned.

        Our own reports come by here too, and wake only the leaving.
        """
        known = new or old
        if known is None:
            return
        if new is None:
            self._endings.went(known)
        else:
            self._endings.there(known)
        key = known.metadata.key
        self._reporter.queue.add(key)
        for name in self._concerned(known, before=old if new is not None else None):
            self._fleet.wake(name, key)

    def _concerned(self, known: Workload, *, before: Workload | None) -> set[str]:
        """The members that have to look at a Workload which changed, came or went."""
        if before is None:
            return clusters_of(known) | self._holdings.holders(known.uid)
        if _same_wish(before, known):
            return clusters_of(known) - set(known.placements)
        return clusters_of(before) | clusters_of(known) | self._holdings.holders(known.uid)

    def _member_changed(self, name: str, key: Key | None) -> None:
        if key is not None:
            self._reporter.queue.add(key)
            return
        if self._fleet.get(name) is None:
            self._book.forget(name)
        for workload in self._hub.informer.by_index(CLUSTER_INDEX, name):
            self._reporter.queue.add(workload.metadata.key)
            self._fleet.wake(name, workload.metadata.key)
        for workload in self._hub.informer.values():
            if workload.metadata.deleting:
                self._reporter.queue.add(workload.metadata.key)

    def _secret_changed(self, key: Key) -> None:
        for workload in self._hub.informer.by_index(SECRET_INDEX, "/".join(key)):
            for name in workload.placements:
                self._fleet.wake(name, workload.metadata.key)


def _same_wish(old: Workload, new: Workload) -> bool:
    return (
        old.uid == new.uid
        and old.metadata.generation == new.metadata.generation
        and old.metadata.deleting == new.metadata.deleting
        and old.placements == new.placements
    )


def _settled(workload: Workload) -> bool:
    """Whether all present shares are ready, so that what left may go."""
    shares = {share["name"]: share for share in workload.status.clusters}
    return all(
        name in shares
        and shares[name].get("state") == ShareState.RUNNING.value
        and shares[name].get("replicas") == units
        for name, units in workload.placements.items()
    )
