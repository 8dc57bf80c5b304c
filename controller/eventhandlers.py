"""What the next decision will read: the fleet, where everybody runs, and every Workload's unit.

Fed by the informers, one object at a time, and by the scheduler's own decisions before their
writes have come back (`assume`). Tells the scheduling queue who must be decided and what has
changed in the world.
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
"""Workloads that are looked at in one go."""
RESYNC_PAUSE = 0.05
"""Seconds between two steps of a resync."""


def known(workload: Workload) -> Workload:
    """The Workload with its unit instead of its template, as the informer keeps it.

    Where the template cannot be read, the unit is one that asks for nothing and `fault` says why.
    """
    slim = compact(workload)
    try:
        unit, fault = workload_info(workload), ""
    except (ValueError, msgspec.ValidationError) as e:
        unit, fault = workload_info(harmless(slim)), str(e)
    return msgspec.structs.replace(slim, unit=unit, fault=fault)


class SchedulerCache:
    """The state between the informers and `decide`. All calls come from one event loop.

    `schedulers` are the scheduler names that we answer to; `sort` is the order of the queue;
    `reviewed` says whether admission has seen a Workload as it is now; `ledgers` are those of the
    features, `fields` what plugins tell of a unit in its status.
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
        self._owed: dict[Key, Workload] = {}  # decisions that a conflict undid, as they were made
        _keep_room(ledgers, self)

    def reads(self, stored: Callable[[Key], Workload | None]) -> None:
        """What is stored of a Workload, to be read anew where a cluster was renamed."""
        self._stored = stored

    def fleet(self) -> Snapshot:
        """The clusters as they are now, decisions in flight counted."""
        return self._builder.snapshot()

    def named(self, workload: Workload) -> Workload:
        """The Workload by the names that its clusters have now."""
        return self._renames.of(workload)

    def unit(self, key: Key) -> WorkloadInfo | None:
        """A Workload as the last decision saw it; None for one that does not exist."""
        holding = self._holdings.get(key)
        return holding.unit if holding else None

    def rank(self, unit: WorkloadInfo) -> Rank:
        """The unit's place in the queue."""
        return self._feed.rank(unit)

    def offer(self, keys: Iterable[Key]) -> None:
        """These must be decided, those of them that exist."""
        units = [self.unit(key) for key in keys]
        self._feed.offer(unit for unit in units if unit is not None)

    def offer_in_steps(self, keys: Iterable[Key]) -> None:
        """As `offer`, of keys that may be very many."""
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
        """The units of each Workload on a cluster, decided ones included, by name."""
        return {held.unit.key: held.placements[cluster] for held in self._holdings.on(cluster)}

    def lead(self, queue: SchedulingQueue) -> None:
        """Feed that queue from now on."""
        self._feed.lead(queue)

    async def begin(self, queue: SchedulingQueue, workloads: Collection[Workload]) -> None:
        """Offer every Workload that is not settled: before the first of them is decided."""
        for ranks in self._unsettled(workloads):
            queue.offer(ranks)
            await asyncio.sleep(0)

    async def resync(
        self, queue: SchedulingQueue, workloads: Collection[Workload], *, clock: Clock
    ) -> None:
        """Offer every Workload that is not settled, whatever is known of it, little by little."""
        for ranks in self._unsettled(workloads):
            for rank in ranks:
                queue.again(rank)
            await clock.sleep(RESYNC_PAUSE)

    def _unsettled(self, workloads: Collection[Workload]) -> Iterator[list[Rank]]:
        """The places of those that are not settled, as they are by then, step by step."""
        left = iter(workloads)
        while some := list(islice(left, LOOK_STEP)):
            units = [self.unit(w.metadata.key) for w in some if self.unsettled(w)]
            yield [self.rank(unit) for unit in units if unit is not None]

    def rest(self) -> None:
        """Feed no queue any more."""
        self._owed.clear()
        self._feed.lead(None)

    def ours(self, workload: Workload) -> bool:
        """Whether we are to place it: it names one of our schedulers and is not on its way out."""
        deleting = workload.metadata.deleting
        return workload.spec.scheduler_name in self._schedulers and not deleting

    def unsettled(self, workload: Workload) -> bool:
        """Whether it is ours and the last decision, as written, does not stand.

        It stands while nothing was edited, every unit has a cluster, and all these exist and run
        what they were given.
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
        """Count a decision whose write is under way: all its new units are in flight."""
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
        """A decision was not written: what the informer holds counts again; the rest is free.

        Where it is decided anew `at_once`, others hear only of what it does not take again.
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
        """Something happened to an object of a feature's; see `SchedulingQueue.announce`."""
        self._feed.announce(kind, key, action, old, new)

    def hold(self, cluster: str, load: Load, units: int) -> None:
        """See `controller.cache.ledger.RoomHolder`."""
        self._builder.hold(cluster, load, units)

    def freed(self, cluster: str) -> None:
        """See `controller.cache.ledger.RoomHolder`."""
        self._feed.announce(MEMBER_CLUSTER, ("", cluster), Action.ROOM)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: what it says replaces what was assumed."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._feed.workload(self._owed.get(old.metadata.key, old), None)
            self._drop(old.metadata.key)
            return
        held = self._holdings.get(new.metadata.key)
        ours = held is not None and _stands(held, new)  # what was assumed came back
        landed = self._holdings.take(self.named(new))
        self._feed.workload(old, new)
        self._feed.landed(new.metadata.key, landed)
        edited = events.edited(old, new)
        told = old is None or old.unit.shown != new.unit.shown
        if (edited or not ours or told) and self.unsettled(new):
            self._feed.offer([new.unit], patiently=not (edited or told))

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler."""
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
        if landed:  # what else has gone there meanwhile is hidden behind what came
            self._feed.announce(MEMBER_CLUSTER, new.metadata.key, Action.ROOM)

    def _drop(self, key: Key) -> None:
        self._owed.pop(key, None)
        self._holdings.drop(key)
        self._feed.forget(key)

    @property
    def settled_names(self) -> bool:
        """Whether every share is read by the name that its cluster has now.

        A decision before that could find the quota or the reserved room of some of them free.
        """
        return not self._renamed.waiting

    async def run(self) -> None:
        """Read the shares of renamed clusters, few at a time, until cancelled."""
        await self._renamed.run()

    def _read_anew(self, clusters: Collection[str]) -> None:
        """These names mean other clusters now: read all that have shares there once more."""
        held = {each.unit.key for name in clusters for each in self._holdings.on(name)}
        self._renamed.add(self._renames, held)

    def _read_renamed(self, key: Key) -> None:
        if (stored := self._stored(key)) is not None:
            self._holdings.take(self.named(stored))
        self._offer_ours([key])

    def _lost(self, cluster: str) -> None:
        """Whoever held units on a cluster that is gone needs another one."""
        self._offer_ours([held.unit.key for held in self._holdings.on(cluster)])

    def _offer_ours(self, keys: Iterable[Key]) -> None:
        units = (self.unit(key) for key in keys)
        self._feed.offer_in_steps(u for u in units if u and u.scheduler_name in self._schedulers)


def _keep_room(ledgers: Iterable[Ledger], room: RoomHolder) -> None:
    """Give the room of the clusters to those ledgers that hold some of it."""
    for ledger in ledgers:
        if isinstance(ledger, HoldsRoom):
            try:
                ledger.keep(room)
            except Exception:  # it holds nothing then; everybody else goes on
                LOG.exception("the ledger %s did not take the room", type(ledger).__name__)


def _as_decided(
    unit: WorkloadInfo, placements: Mapping[str, int], now: Workload | None
) -> Workload:
    """A Workload as a decision had it."""
    meta = Meta(name=unit.name, namespace=unit.namespace, uid=unit.uid)
    decided = unit.with_present(placements)
    return msgspec.structs.replace(now or Workload(metadata=meta), unit=decided)


def _stands(held: AssumedPlacement, new: Workload) -> bool:
    """Whether what was decided last is what the object says."""
    return held.placements == new.placements and held.unit.limits == new.unit.limits


def _scheduled(workload: Workload) -> bool:
    return any(
        c["type"] == WorkloadCondition.SCHEDULED.value and c["status"] == "True"
        for c in workload.status.conditions
    ) and sum(workload.placements.values()) == (workload.status.desired or 0)
