"""The scheduler cache: the clusters, where every Workload runs, and every Workload's WorkloadInfo.

Informers feed the cache one object at a time, and the scheduler feeds it with its own decisions
before their writes come back (`assume`). The cache tells the scheduling queue which Workloads must
be decided and what has happened to the objects that others wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from controller.cache.holdings import AssumedPlacement, AssumedPlacements
from controller.cache.ledger import HoldsRoom, Ledger, RoomHolder
from controller.cache.placements import PlacementIndex
from controller.cache.renames import Renames
from controller.cache.seekers import PendingAffinity
from controller.feed import Feed
from controller.framework.events import MEMBER_CLUSTER, Action
from controller.framework.interface import Fields, QueueSort
from controller.model.load import Load
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, compact, harmless, workload_info
from controller.queue import events
from controller.queue.scheduling_queue import Rank, SchedulingQueue
from controller.snapshot.builder import Snapshot, SnapshotBuilder
from crds.workload import WorkloadCondition
from machinery import logs
from machinery.clock import Clock
from machinery.tasks import Gradually
from machinery.types.metadata import Key, Meta

LOG = logs.get(__name__)
LOOK_STEP = 200
"""How many Workloads are looked at before the event loop has its turn."""
RESYNC_PAUSE = 0.05
"""Seconds between two steps of a resync."""


def known(workload: Workload) -> Workload:
    """Return the Workload as the informer keeps it: with a WorkloadInfo in place of its template.

    Where the template cannot be read, that WorkloadInfo asks for nothing and `fault` says why.
    """
    slim = compact(workload)
    try:
        unit, fault = workload_info(workload), ""
    except (ValueError, msgspec.ValidationError) as e:
        unit, fault = workload_info(harmless(slim)), str(e)
    return msgspec.structs.replace(slim, unit=unit, fault=fault)


class SchedulerCache:
    """The state between the informers and `decide`. All calls come from one event loop.

    Args:
        schedulers: the scheduler names that this process answers to.
        sort: the order of the queue.
        reviewed: whether admission has seen a Workload as it is now.
        ledgers: those of the features.
        fields: what plugins tell of a Workload in its status.
    """

    def __init__(
        self,
        schedulers: Collection[str],
        *,
        sort: QueueSort,
        reviewed: Callable[[Meta], bool],
        ledgers: Iterable[Ledger] = (),
        fields: Fields = lambda *_: {},
    ) -> None:
        self._fields = fields
        ledgers = tuple(ledgers)
        self.index = PlacementIndex(ledgers)
        self._schedulers = frozenset(schedulers)
        self._reviewed = reviewed
        self._builder = SnapshotBuilder()
        self._holdings = AssumedPlacements(self.index, self._builder)
        self._renames = Renames()
        self._renamed: Gradually[Key] = Gradually(self._read_renamed)
        self._stored: Callable[[Key], Workload | None] = lambda _: None
        self._feed = Feed(sort)
        # Undone decisions whose freed room is announced once their Workloads are decided again.
        self._owed: dict[Key, Workload] = {}
        _keep_room(ledgers, self)

    def reads(self, stored: Callable[[Key], Workload | None]) -> None:
        """Set the lookup of stored Workloads, to read them again after a rename of a cluster."""
        self._stored = stored

    def fleet(self) -> Snapshot:
        """Return the snapshot of the clusters, with assumed placements counted."""
        return self._builder.snapshot()

    def named(self, workload: Workload) -> Workload:
        """Return the Workload with the names that its clusters have now."""
        return self._renames.of(workload)

    def unit(self, key: Key) -> WorkloadInfo | None:
        """Return a Workload as the last decision saw it; None if it does not exist."""
        holding = self._holdings.get(key)
        return holding.unit if holding else None

    def rank(self, unit: WorkloadInfo) -> Rank:
        return self._feed.rank(unit)

    def offer(self, keys: Iterable[Key]) -> None:
        """Queue these Workloads to be decided, as far as they exist."""
        units = [self.unit(key) for key in keys]
        self._feed.offer(unit for unit in units if unit is not None)

    def offer_in_steps(self, keys: Iterable[Key]) -> None:
        units = (self.unit(key) for key in keys)
        self._feed.offer_in_steps(unit for unit in units if unit is not None)

    @property
    def seekers(self) -> PendingAffinity:
        """The Workloads that require others and run nowhere yet."""
        return self._holdings.seekers

    @property
    def settled(self) -> PendingAffinity:
        """The Workloads that require others and run somewhere."""
        return self._holdings.settled

    def shares(self, cluster: str) -> dict[Key, int]:
        """Return each Workload's replicas on a cluster, assumed ones included, by name."""
        return {held.unit.key: held.placements[cluster] for held in self._holdings.on(cluster)}

    def lead(self, queue: SchedulingQueue) -> None:
        """Feed that queue from now on."""
        self._feed.lead(queue)

    async def begin(self, queue: SchedulingQueue, workloads: Collection[Workload]) -> None:
        """Offer every Workload that is not settled. Called before the first one is decided."""
        for ranks in self._unsettled(workloads):
            queue.offer(ranks)
            await asyncio.sleep(0)

    async def resync(
        self, queue: SchedulingQueue, workloads: Collection[Workload], *, clock: Clock
    ) -> None:
        """Offer every Workload that is not settled, little by little; back-offs stay."""
        for ranks in self._unsettled(workloads):
            for rank in ranks:
                queue.again(rank)
            await clock.sleep(RESYNC_PAUSE)

    def _unsettled(self, workloads: Collection[Workload]) -> Iterator[list[Rank]]:
        """Yield the unsettled ones step by step, each step as they are by then."""
        left = iter(workloads)
        while some := list(islice(left, LOOK_STEP)):
            units = [self.unit(w.metadata.key) for w in some if self.unsettled(w)]
            yield [self.rank(unit) for unit in units if unit is not None]

    def rest(self) -> None:
        self._owed.clear()
        self._feed.lead(None)

    def ours(self, workload: Workload) -> bool:
        """Whether the Workload names one of our schedulers and is not being deleted."""
        deleting = workload.metadata.deleting
        return workload.spec.scheduler_name in self._schedulers and not deleting

    def unsettled(self, workload: Workload) -> bool:
        """Whether the Workload is ours and its decision, as written, does not stand.

        A decision stands while nothing was edited, every replica has a cluster, and all these
        clusters exist and run what they were given.
        """
        if not self.ours(workload):
            return False
        unit, status = workload.unit, workload.status
        return not (
            status.observed_generation == workload.metadata.generation
            and unit.hash == status.decision.hash
            and _scheduled(workload)
            and not unit.everywhere
            and all(name in self.fleet().row for name in unit.present)
            and not unit.limits
            and not unit.shown
            and status.says(self._fields(unit, unit.present, self.fleet(), self.index))
            and self._reviewed(workload.metadata)
        )

    def assume(self, unit: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Count a decision whose write is in flight: all its new replicas are in flight."""
        self._holdings.assume(unit, placements)
        if (owed := self._owed.pop(unit.key, None)) is not None:
            self._feed.workload(owed, _as_decided(unit, placements, owed))

    def restore(
        self,
        unit: WorkloadInfo,
        placements: Mapping[str, int],
        workload: Workload | None,
        *,
        at_once: bool = False,
    ) -> None:
        """Undo `assume`, as the decision was not written: count what the informer holds.

        With `at_once` the Workload is decided again at once, and the room that it gave up is
        announced only as far as the next `assume` does not take it again.
        """
        decided = _as_decided(unit, placements, workload)
        self._owed.pop(unit.key, None)
        if workload is None:
            self._drop(unit.key)
        else:
            self._holdings.take(self.named(workload))
            if at_once:
                self._owed[unit.key] = decided
                return
        self._feed.workload(decided, workload)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """Announce an event of a feature's object; see `SchedulingQueue.announce`."""
        self._feed.announce(kind, key, action, old, new)

    def hold(self, cluster: str, load: Load, units: int) -> None:
        """See `controller.cache.ledger.RoomHolder`."""
        self._builder.hold(cluster, load, units)

    def freed(self, cluster: str) -> None:
        """See `controller.cache.ledger.RoomHolder`."""
        self._feed.announce(MEMBER_CLUSTER, ("", cluster), Action.ROOM)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's change: it replaces the assumed placement."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            # What the last decision had counts as freed, if that was not announced yet.
            self._feed.workload(self._owed.get(old.metadata.key, old), None)
            self._drop(old.metadata.key)
            return
        held = self._holdings.get(new.metadata.key)
        ours = held is not None and _stands(held, new)  # the assumed placement came back
        landed = self._holdings.take(self.named(new))
        self._feed.workload(old, new)
        self._feed.landed(new.metadata.key, landed)
        edited = events.edited(old, new)
        told = old is None or old.unit.shown != new.unit.shown
        if (edited or not ours or told) and self.unsettled(new):
            self._feed.offer([new.unit], patiently=not (edited or told))

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's change."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._builder.remove(old.metadata.name)
            self._holdings.lost(old.metadata.name)
            self._read_anew(self._renames.saw(old, None))
            self._lost(old.metadata.name)
            self._feed.cluster(old, None)
            return
        self._builder.upsert(new)
        landed = self._holdings.saw(new)
        self._read_anew(self._renames.saw(old, new))
        self._feed.cluster(old, new)
        # The landed replicas hide in the cluster's numbers what became free there meanwhile.
        if landed:
            self._feed.announce(MEMBER_CLUSTER, new.metadata.key, Action.ROOM)

    def _drop(self, key: Key) -> None:
        self._owed.pop(key, None)
        self._holdings.drop(key)
        self._feed.forget(key)

    @property
    def settled_names(self) -> bool:
        """Whether every share is read by the name that its cluster has now.

        Before that a decision could find the quota or the reserved room of some shares free.
        """
        return not self._renamed.waiting

    async def run(self) -> None:
        """Read the shares of renamed clusters, few at a time, until cancelled."""
        await self._renamed.run()

    def _read_anew(self, clusters: Collection[str]) -> None:
        """Queue a new read of every Workload with shares on clusters of these names."""
        held = {each.unit.key for name in clusters for each in self._holdings.on(name)}
        self._renamed.add(self._renames, held)

    def _read_renamed(self, key: Key) -> None:
        if (stored := self._stored(key)) is not None:
            self._holdings.take(self.named(stored))
        self._offer_ours([key])

    def _lost(self, cluster: str) -> None:
        self._offer_ours([held.unit.key for held in self._holdings.on(cluster)])

    def _offer_ours(self, keys: Iterable[Key]) -> None:
        units = (self.unit(key) for key in keys)
        self._feed.offer_in_steps(u for u in units if u and u.scheduler_name in self._schedulers)


def _keep_room(ledgers: Iterable[Ledger], room: RoomHolder) -> None:
    for ledger in ledgers:
        if isinstance(ledger, HoldsRoom):
            try:
                ledger.keep(room)
            except Exception:  # the ledger holds no room then; the others go on
                LOG.exception("the ledger %s did not take the room", type(ledger).__name__)


def _as_decided(
    unit: WorkloadInfo, placements: Mapping[str, int], now: Workload | None
) -> Workload:
    meta = Meta(name=unit.name, namespace=unit.namespace, uid=unit.uid)
    decided = unit.with_present(placements)
    return msgspec.structs.replace(now or Workload(metadata=meta), unit=decided)


def _stands(held: AssumedPlacement, new: Workload) -> bool:
    return held.placements == new.placements and held.unit.limits == new.unit.limits


def _scheduled(workload: Workload) -> bool:
    return any(
        c["type"] == WorkloadCondition.SCHEDULED.value and c["status"] == "True"
        for c in workload.status.conditions
    ) and sum(workload.placements.values()) == (workload.status.desired or 0)
