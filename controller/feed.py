"""From the cache to the scheduling queue of the leader: what must be decided, what has happened.

A standby feeds no queue: it keeps its cache up to date and offers every Workload once it leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.framework.events import MEMBER_CLUSTER, WORKLOAD, Action
from controller.framework.interface import QueueSort
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.queue import events
from controller.queue.scheduling_queue import Rank, SchedulingQueue
from machinery import logs
from machinery.types.metadata import Key

LOG = logs.get(__name__)


class Feed:
    """The queue of this term, if there is one; `sort` is its order."""

    def __init__(self, sort: QueueSort) -> None:
        self._sort = sort
        self._queue: SchedulingQueue | None = None

    def lead(self, queue: SchedulingQueue | None) -> None:
        """Feed that queue, and no other, from now on; None for none."""
        self._queue = queue

    def rank(self, unit: WorkloadInfo) -> Rank:
        """Return the Workload's place in the queue: the first, where the plugin fails to say."""
        try:
            order = self._sort.rank(unit)
        except Exception:
            LOG.exception("its rank is not known", extra={"object": "/".join(unit.key)})
            order = ()
        return Rank(order, unit.key, unit.priority)

    def offer(self, units: Iterable[WorkloadInfo], *, patiently: bool = False) -> None:
        """Queue these to be decided; `patiently` leaves the back-off of failed writes as it is."""
        if self._queue is not None:
            offer = self._queue.offer_patiently if patiently else self._queue.offer
            offer([self.rank(unit) for unit in units])

    def offer_in_steps(self, units: Iterable[WorkloadInfo]) -> None:
        """As `offer`, for very many: each is asked for when its step comes."""
        if self._queue is not None:
            self._queue.offer_in_steps(self.rank(unit) for unit in units)

    def forget(self, key: Key) -> None:
        if self._queue is not None:
            self._queue.forget(key)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """Announce an event; where both versions are None no hint is asked."""
        if self._queue is not None:
            self._queue.announce(kind, key, action, old, new)

    def workload(self, old: Workload | None, new: Workload | None) -> None:
        """Announce a Workload's change, and the clusters where others have more room or less."""
        known = new or old
        if self._queue is None or known is None:
            return
        key, action = known.metadata.key, events.of_workload(old, new)
        self._queue.announce(WORKLOAD, key, action, old, new, by=key)
        for cluster in events.freed(old, new) if old is not None else ():
            self._queue.announce(MEMBER_CLUSTER, ("", cluster), Action.ROOM, by=key)
        for cluster in events.taken(old, new):
            self._queue.announce(MEMBER_CLUSTER, ("", cluster), Action.WORSE, by=key)

    def landed(self, key: Key, clusters: Iterable[str]) -> None:
        """Announce clusters where replicas of a Workload were counted twice and no longer are.

        The room is as before the double count, so that wakes no Workload; but the message of a
        Workload that was refused meanwhile may be untrue.
        """
        if self._queue is not None:
            for cluster in clusters:
                self._queue.announce(MEMBER_CLUSTER, ("", cluster), Action.WORSE, by=key)

    def cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        known = new or old
        if known is not None:
            action = events.of_cluster(old, new)
            self.announce(MEMBER_CLUSTER, known.metadata.key, action, old, new)
