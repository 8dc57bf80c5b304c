"""The scheduler cache: the clusters, and every Workload's WorkloadInfo and placements.

The scheduler adds its decisions before their writes return (`assume`). The cache queues Workloads
that need a decision, and announces events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from controller.cache.asread import Renames, SeenWaits
from controller.cache.assumed import AssumedPlacement, AssumedPlacements, PendingAffinity
from controller.cache.away import AwayClusters
from controller.cache.ledger import Ledger, RoomHolder
from controller.cache.placements import PlacementIndex
from controller.framework import events
from controller.framework.events import MEMBER_CLUSTER, WORKLOAD, Action
from controller.framework.interface import Fields, QueueSort
from controller.framework.runtime.feature import IDLE
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, compact, harmless, with_bodies, workload_info
from controller.model.work import ordinals_of
from controller.queue.scheduling_queue import Rank, SchedulingQueue
from controller.snapshot.builder import Snapshot, SnapshotBuilder
from crds.restored import incomplete
from crds.workload import WorkloadCondition
from machinery import logs
from machinery.clock import Clock
from machinery.kinds.table import may_change
from machinery.tasks import Gradually, end, in_slices
from machinery.types.lean import lean
from machinery.types.metadata import Key, Meta

LOG = logs.get(__name__)
LOOK_STEP = 200
"""Workloads per turn of the event loop."""
RESYNC_PAUSE = 0.05
"""Seconds between two steps of a resync."""
_EVER = datetime.min.replace(tzinfo=UTC)


def known(workload: Workload) -> Workload:
    """Return the Workload with a WorkloadInfo in place of its template.

    If the template cannot be read, the WorkloadInfo requests nothing, is `unread`, and `fault` has
    the reason.
    """
    meta, made = workload.metadata, workload.info
    current = (meta.key, meta.resource_version)
    if isinstance(made, WorkloadInfo) and (made.key, made.version) == current:
        return workload
    slim = lean(compact(workload))
    try:
        info, fault = workload_info(with_bodies(slim, workload.spec)), ""
    except (ValueError, msgspec.ValidationError) as e:
        info, fault = replace(workload_info(harmless(slim)), unread=True), str(e)
    template = workload.spec.target_deployment or workload.spec.template
    if template is not None and may_change(template.api_version):
        version, kind = template.api_version, template.kind
        info = replace(info, source=workload.spec, api_version=version, kind=kind)
    return msgspec.structs.replace(slim, info=info, fault=fault)


def read_anew(workload: Workload) -> Workload:
    """Return a Workload as `known` reads it now: the profile of its kind may be another."""
    source = workload.info.source
    if source is None:
        return workload
    spec = msgspec.structs.replace(source, replicas=workload.spec.replicas)
    return known(msgspec.structs.replace(workload, spec=spec, info=None))


class QueueFeed:
    """Feeds the queue of this term in the order of `sort`. A standby has none."""

    def __init__(self, sort: QueueSort) -> None:
        self._sort = sort
        self._queue: SchedulingQueue = IDLE

    def lead(self, queue: SchedulingQueue) -> None:
        self._queue = queue

    def rank(self, info: WorkloadInfo) -> Rank:
        """Return the place in the queue: the first if the plugin fails."""
        try:
            order = self._sort.rank(info)
        except Exception:
            LOG.exception("its rank is not known", extra={"object": "/".join(info.key)})
            order = ()
        return Rank(order, info.key, info.priority)

    def activate(self, infos: Iterable[WorkloadInfo], *, after_backoff: bool = False) -> None:
        """Queue these Workloads. `after_backoff` keeps the back-off of failed writes."""
        activate = self._queue.activate_after_backoff if after_backoff else self._queue.activate
        activate([self.rank(info) for info in infos])

    def activate_in_steps(self, infos: Iterable[WorkloadInfo]) -> None:
        """For very many."""
        self._queue.activate_in_steps(self.rank(info) for info in infos)

    def forget(self, key: Key) -> None:
        self._queue.forget(key)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """Announce an event. No hint is called if both versions are None."""
        self._queue.announce(kind, key, action, old, new)

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if self._queue is IDLE or known is None:
            return
        key, action = known.metadata.key, events.of_workload(old, new)
        self._queue.announce(WORKLOAD, key, action, old, new, by=key)
        for cluster in events.freed(old, new) if old is not None else ():
            self._queue.announce(MEMBER_CLUSTER, ("", cluster), Action.ROOM, by=key)
        for cluster in events.taken(old, new):
            self._queue.announce(MEMBER_CLUSTER, ("", cluster), Action.WORSE, by=key)

    def landed(self, key: Key, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            self._queue.announce(MEMBER_CLUSTER, ("", cluster), Action.WORSE, by=key)

    def freed(self, cluster: str) -> None:
        self.announce(MEMBER_CLUSTER, ("", cluster), Action.ROOM)

    def cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        known = new or old
        if known is not None:
            action = events.of_cluster(old, new)
            self.announce(MEMBER_CLUSTER, known.metadata.key, action, old, new)


class SchedulerCache:
    """The state between the informers and `decide`.

    Args:
        schedulers: the scheduler names of this process.
        sort: the order of the queue.
        reviewed: whether admission has passed this version of a Workload.
        ledgers: those of the features.
        fields: returns the plugins' status fields.
        now: the wall clock; without one what waits is read as the statuses say it.
    """

    def __init__(
        self,
        schedulers: Collection[str],
        *,
        sort: QueueSort,
        reviewed: Callable[[Meta], bool],
        ledgers: Iterable[Ledger] = (),
        fields: Fields = lambda *_: {},
        now: Callable[[], datetime] = lambda: _EVER,
    ) -> None:
        self._fields = fields
        self._waits = SeenWaits(now)
        ledgers = tuple(ledgers)
        self.index = PlacementIndex(ledgers)
        self._schedulers = frozenset(schedulers)
        self._reviewed = reviewed
        self._builder = SnapshotBuilder()
        self._assumed = AssumedPlacements(self.index, self._builder)
        self._renames = Renames()
        self._renamed: Gradually[Key] = Gradually(self._read_renamed)
        self._landing: Gradually[tuple[str, Key]] = Gradually(self._land)
        self._stored: Callable[[Key], Workload | None] = lambda _: None
        self._evacuating = set[str]()
        """Workloads leave these, or they were lost recently."""
        self.away = AwayClusters(self._away_changed)
        """Named by shares, without a MemberCluster."""
        self._listed = False
        """Until all clusters and Workloads are known, none is known to be away."""
        self._feed = QueueFeed(sort)
        # Undone decisions whose freed room is announced once their Workloads are decided again.
        self._unannounced: dict[Key, Workload] = {}
        self.revision = ""
        """The newest resourceVersion of a MemberCluster."""
        _keep_room(ledgers, RoomHolder(self._builder.hold, self._feed.freed))

    def reads(self, stored: Callable[[Key], Workload | None]) -> None:
        self._stored = stored

    def snapshot(self) -> Snapshot:
        """Return the clusters, including assumed placements."""
        return self._builder.snapshot()

    def named(self, workload: Workload) -> Workload:
        """Return the Workload as decisions read it.

        With the names that its clusters have now, and with what waits since this term has seen it.
        """
        return self._waits.of(self._renames.of(workload))

    def info(self, key: Key) -> WorkloadInfo | None:
        """Return a Workload as the last decision saw it, or None."""
        assumed = self._assumed.get(key)
        return assumed.workload if assumed else None

    def rank(self, info: WorkloadInfo) -> Rank:
        return self._feed.rank(info)

    def activate(self, keys: Iterable[Key]) -> None:
        """Queue these Workloads, if they exist."""
        infos = [self.info(key) for key in keys]
        self._feed.activate(info for info in infos if info is not None)

    def activate_in_steps(self, keys: Iterable[Key]) -> None:
        infos = (self.info(key) for key in keys)
        self._feed.activate_in_steps(info for info in infos if info is not None)

    @property
    def pending_affinity(self) -> PendingAffinity:
        """The Workloads that require others and run nowhere yet."""
        return self._assumed.pending_affinity

    @property
    def placed_affinity(self) -> PendingAffinity:
        """The Workloads that require others and run somewhere."""
        return self._assumed.placed_affinity

    def shares(self, cluster: str) -> dict[Key, int]:
        held = ((key, self._assumed.get(key)) for key in sorted(self._assumed.holders(cluster)))
        return {
            key: each.placements[cluster]
            for key, each in held
            if each is not None and cluster in each.placements
        }

    def lead(self, queue: SchedulingQueue) -> None:
        self._feed.lead(queue)

    async def begin(self, queue: SchedulingQueue, workloads: Collection[Workload]) -> None:
        """Queue every Workload that needs a decision. Call before the first decision."""
        self._listed = True
        self._waits.clear()
        async for workload in in_slices(workloads, size=LOOK_STEP):
            self._find_away(workload)
        for ranks in self._needing_decision(workloads):
            queue.activate(ranks)
            await asyncio.sleep(0)

    def listed(self, workloads: Iterable[Workload]) -> None:
        """Find the clusters that are away. Call once all clusters and Workloads are known."""
        self._listed = True
        for workload in workloads:
            self._find_away(workload)

    async def resync(
        self, queue: SchedulingQueue, workloads: Collection[Workload], *, clock: Clock
    ) -> None:
        """Queue every Workload that needs a decision, slowly. Back-offs stay."""
        for ranks in self._needing_decision(workloads):
            for rank in ranks:
                queue.requeue(rank)
            await clock.sleep(RESYNC_PAUSE)

    def _needing_decision(self, workloads: Collection[Workload]) -> Iterator[list[Rank]]:
        left = iter(workloads)
        while some := list(islice(left, LOOK_STEP)):
            infos = [self.info(w.metadata.key) for w in some if self.needs_decision(w)]
            yield [self.rank(info) for info in infos if info is not None]

    def stop(self) -> None:
        self._unannounced.clear()
        self._feed.lead(IDLE)

    def ours(self, workload: Workload) -> bool:
        """Whether this process schedules the Workload, which is whole and not being deleted."""
        meta = workload.metadata
        return (
            workload.spec.scheduler_name in self._schedulers
            and not meta.deleting
            and not incomplete(meta.annotations)
        )

    def needs_decision(self, workload: Workload) -> bool:
        """Whether the Workload is ours and its stored decision does not hold.

        It holds while nothing was edited, every replica has a cluster, and these clusters exist and
        run what they were given.
        """
        if not self.ours(workload):
            return False
        info, status = workload.info, workload.status
        return not (
            status.observed.controller == workload.metadata.generation
            and info.hash == status.decision.hash
            and _scheduled(workload)
            and not info.everywhere
            and (not info.ended or sum(info.present.values()) == info.replicas)
            and all(name in self.snapshot().row for name in info.present)
            and not info.limits
            and not (info.shown or info.waits)
            and not self._moves(info)
            and not _lacks_ranges(info, workload)
            and status.says(self._fields(info, info.present, self.snapshot(), self.index))
            and self._reviewed(workload.metadata)
        )

    def _moves(self, info: WorkloadInfo) -> bool:
        state = info.moving
        if state.leaving or state.displaced or state.rebalance_due or any(state.unhealthy.values()):
            return True
        return bool(self._evacuating) and not self._evacuating.isdisjoint(info.present)

    def assume(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Count a decision whose write is in flight."""
        self._assumed.assume(info, placements)
        if (decided := self._unannounced.pop(info.key, None)) is not None:
            self._feed.workload(decided, _as_decided(info, placements, decided))

    def restore(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        workload: Workload | None,
        *,
        at_once: bool = False,
    ) -> None:
        """Undo `assume` for a decision that was not written.

        With `at_once` it is decided again immediately, and released room is announced only if the
        next `assume` does not take it.
        """
        decided = _as_decided(info, placements, workload)
        self._unannounced.pop(info.key, None)
        if workload is None:
            self._drop(info.key)
        else:
            self._take(workload)
            if at_once:
                self._unannounced[info.key] = decided
                return
        self._feed.workload(decided, workload)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        self._feed.announce(kind, key, action, old, new)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Replace the assumed placement by the informer's."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            # Count what the last decision had as freed, if that was not announced yet.
            self._feed.workload(self._unannounced.get(old.metadata.key, old), None)
            self._drop(old.metadata.key)
            return
        held = self._assumed.get(new.metadata.key)
        ours = held is not None and _is_assumed(held, new)  # the assumed placement came back
        landed = self._take(new)
        if self._listed:
            self._find_away(new)
        self._feed.workload(old, new)
        self._feed.landed(new.metadata.key, landed)
        edited = events.edited(old, new)
        reported = old is None or _reported(old.info) != _reported(new.info)
        if old is not None and not reported and self._moves(new.info):  # successors may be ready
            reported = old.status.clusters != new.status.clusters
        reported = reported or _lacks_ranges(new.info, new)
        if (edited or not ours or reported) and self.needs_decision(new):
            self._feed.activate([new.info], after_backoff=not (edited or reported))

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """A cluster that an operator gives up counts as gone."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        name, was = known.metadata.name, old is not None and not old.given_up
        if new is not None:
            self.revision = new.metadata.resource_version
        if new is None or new.given_up:
            read_again = self._renames.saw(known, None)
            if known.given_up:
                self.away.give_up(name)
            if was:
                self._cluster_gone(known, stands=not known.given_up)
            self._read_again(read_again)
            return
        away = self.away.came(name)
        self._upsert(away or (old if was else None), new)
        if away is not None:
            self._look_again(name)
        self._landing.add(name, [(name, key) for key in self._assumed.saw(new)])
        changed = self._renames.saw(old, new)
        self._read_again(changed)
        for former in new.spec.former_names:
            if former in changed:
                self.away.gone(former)

    def _cluster_gone(self, cluster: MemberCluster, *, stands: bool) -> None:
        """`stands` means that its replicas are not given up."""
        name = cluster.metadata.name
        self._assumed.lost(name)
        if stands and name not in self._renames and self._named_by_shares(name):
            self.away.went(cluster)  # its row stays
            return
        self._away_changed(cluster, None)

    def _away_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None:
            self._upsert(old, new)
            return
        assert old is not None  # noqa: S101 - one of both is there
        name = old.metadata.name
        self._builder.remove(name)
        self._evacuating.discard(name)
        self._look_again(name)
        self._feed.cluster(old, None)

    def _upsert(self, old: MemberCluster | None, new: MemberCluster) -> None:
        name = new.metadata.name
        self._builder.upsert(new)
        (self._evacuating.add if new.evacuating else self._evacuating.discard)(name)
        self._feed.cluster(old, new)

    def _named_by_shares(self, name: str) -> bool:
        """An assumed share does not run yet."""
        stored = (self._stored(key) for key in self._assumed.holders(name))
        return any(each is None or name in _named_by(self.named(each).info) for each in stored)

    def _find_away(self, workload: Workload) -> None:
        if not self.ours(workload):
            return
        info = self.named(workload).info
        for name in (*info.present, *info.moving.leaving):
            if name not in self._builder:
                self.away.named(name)

    def _take(self, new: Workload) -> list[str]:
        """Return the clusters where fewer replicas are in flight."""
        key = new.metadata.key
        held = self._assumed.get(key)
        landed = self._assumed.take(self.named(new))
        self._forget_away(held.clusters if held is not None else ())
        return landed

    def _forget_away(self, clusters: Iterable[str]) -> None:
        for name in clusters:
            if name in self.away and not self._named_by_shares(name):
                self.away.gone(name)

    def _land(self, item: tuple[str, Key]) -> None:
        cluster, key = item
        self._assumed.land(key, cluster)
        # Replicas in flight hide room that the cluster's numbers gained in the same time.
        self._feed.announce(MEMBER_CLUSTER, ("", cluster), Action.ROOM)

    def _drop(self, key: Key) -> None:
        self._unannounced.pop(key, None)
        held = self._assumed.get(key)
        self._assumed.drop(key)
        self._waits.forget(key)
        self._forget_away(held.clusters if held is not None else ())
        self._feed.forget(key)

    @property
    def renames_read(self) -> bool:
        """Whether all shares are read by current cluster names."""
        return not self._renamed.waiting

    async def run(self) -> None:
        """Land replicas, feed ledgers and read shares of renamed clusters, in steps."""
        others = [asyncio.create_task(each.run()) for each in (self._landing, self.index)]
        try:
            await self._renamed.run()
        finally:
            await end(others)

    def _read_again(self, clusters: Collection[str]) -> None:
        self._renamed.add(self._renames, {key for name in clusters for key in self.holders(name)})

    def _read_renamed(self, key: Key) -> None:
        if (stored := self._stored(key)) is not None:
            self._take(stored)
        self._activate_ours([key])

    def holders(self, cluster: str) -> list[Key]:
        """Return the Workloads that have a share of the cluster, leave it or may return to it."""
        return [*self._assumed.holders(cluster)]

    def _look_again(self, cluster: str) -> None:
        self._activate_ours(self.holders(cluster))

    def _activate_ours(self, keys: Iterable[Key]) -> None:
        infos = (self.info(key) for key in keys)
        self._feed.activate_in_steps(
            info for info in infos if info and info.scheduler_name in self._schedulers
        )


def _keep_room(ledgers: Iterable[Ledger], room: RoomHolder) -> None:
    for ledger in ledgers:
        if (keep := getattr(ledger, "keep", None)) is not None:
            try:
                keep(room)
            except Exception:  # that ledger then holds no room
                LOG.exception("the ledger %s did not take the room", type(ledger).__name__)


def _named_by(info: WorkloadInfo) -> set[str]:
    return {*info.present, *info.moving.leaving, *info.moving.displaced}


def _lacks_ranges(info: WorkloadInfo, workload: Workload) -> bool:
    if not info.profile.ordered:
        return False
    about = workload, info.present, info.ranges, info.first_ordinal
    return ordinals_of(*about) != workload.status.ordinals


def _as_decided(
    info: WorkloadInfo, placements: Mapping[str, int], now: Workload | None
) -> Workload:
    meta = Meta(name=info.name, namespace=info.namespace, uid=info.uid)
    decided = info.with_present(placements)
    return msgspec.structs.replace(now or Workload(metadata=meta), info=decided)


def _reported(info: WorkloadInfo) -> tuple[object, ...]:
    return info.shown, info.waits, info.holding, info.moving.kept, info.moving.unhealthy


def _is_assumed(held: AssumedPlacement, new: Workload) -> bool:
    return held.placements == new.placements and held.workload.limits == new.info.limits


def _scheduled(workload: Workload) -> bool:
    return any(
        c["type"] == WorkloadCondition.SCHEDULED.value and c["status"] == "True"
        for c in workload.status.conditions
    ) and sum(workload.standing.values()) == (workload.status.desired or 0)
