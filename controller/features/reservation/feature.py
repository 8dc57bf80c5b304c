"""Reservation as a feature: what the process watches, places and keeps for it.

Every instance counts, so that a standby decides at once when its turn comes. Only the leader writes
statuses, ends expired reservations, and checks the room of clusters. When a reservation comes,
changes, goes or has room again, the pending Workloads that may use it are queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.features.reservation.compiled import as_placed, compile_reservation
from controller.features.reservation.controller import ReservationController
from controller.features.reservation.ledger import ReservationLedger as Ledger
from controller.features.reservation.objects import Reservation
from controller.features.reservation.plugin import NAME
from controller.features.reservation.plugin import ReservationPlugin as Plugin
from controller.features.reservation.status import decided, held
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Running, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from controller.model.placed import PlacedKind
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, WORKLOADS
from machinery.types.metadata import Key


class Reservations:
    """The one instance of the feature in a process."""

    defaults = (
        Enabled("preFilterHook", NAME),
        Enabled("preFilter", NAME),
        Enabled("filterHook", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("postFilter", NAME),
        Enabled("preScore", NAME),
        Enabled("score", NAME, weight=3),
    )
    places = (
        PlacedKind(RESERVATIONS, Reservation, workload=as_placed, status=decided, booked=True),
    )

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledgers = (self.ledger,)
        self.plugins: Mapping[str, Factory] = {NAME: Plugin}
        self.watches = (
            Watch(RESERVATIONS, Reservation, self.reservation_changed),
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self.controller: ReservationController | None = None
        # Reservations whose owners are being queued; True where they must be queued once more.
        self._looking: dict[Key, bool] = {}
        self._handle: Handle | None = None

    def attach(self, handle: Handle) -> None:
        self._handle = handle

    def lead(self, term: Term) -> Running:
        self._looking.clear()  # iterations under way ended with the last term
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self.controller = ReservationController(term, ledger=self.ledger, handle=self._handle)
        return self.controller

    def stop_leading(self) -> None:
        self.controller = None

    def reservation_changed(self, old: Reservation | None, new: Reservation | None) -> None:
        """Handle an informer's event, before the scheduler does."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            key = old.metadata.key
            claimants = self.ledger.claimants(key)
            self.ledger.drop_reservation(key)
            if self.controller is not None:
                self.controller.forget(key)
            self._look(claimants)  # their shares inside are no longer valid
            return
        reserved = compile_reservation(new)
        before, claimants = self.ledger.get(reserved.key), self.ledger.claimants(reserved.key)
        moved = old is None or held(old) != held(new)
        if reserved != before:
            self.ledger.put_reservation(reserved)
        if moved or before is None or before.uid != reserved.uid:
            self._look(claimants)
        if moved or reserved != before:
            self._look_at_owners(reserved.key)
        if self.controller is not None:
            self.controller.look(reserved.key)
            self.controller.look_at_clusters(held(new))

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's event: the stored shares inside reservations."""
        known = new or old
        if self.controller is not None and known is not None:
            self.controller.saw(known)
        before, after = _inside(old), _inside(new)
        same = old is None or new is None or old.info.request == new.info.request
        if before == after and (same or not after):
            return
        fewer = {at[0] for at, replicas in before.items() if after.get(at, 0) < replicas}
        if self.controller is not None:
            for key, cluster in {**before, **after}:
                self.controller.look(key)
                self.controller.look_at_clusters([cluster])
        for key in fewer:
            self._look_at_owners(key)
        if new is not None and after and self.ledger.says_too_much(new.info):
            self._look([new.metadata.key])

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event: the free room of a cluster."""
        known = new or old
        if self.controller is not None and known is not None:
            self.controller.look_at_clusters([known.metadata.name])

    def _look(self, keys: Iterable[Key]) -> None:
        if self._handle is not None:
            self._handle.look(keys)

    def _look_at_owners(self, key: Key) -> None:
        """Queue the pending Workloads that may use a reservation, once for many changes of it."""
        if key in self._looking:
            self._looking[key] = True
        else:
            self._looking[key] = False
            self._look(self._pending_owners(key))

    def _pending_owners(self, key: Key) -> Iterator[Key]:
        """Yield the pending owners, and again if the reservation has changed meanwhile."""
        again = True
        while again:
            if (reserved := self.ledger.get(key)) is not None:
                yield from self.ledger.pending_owners(reserved)
            again = self._looking.pop(key, False)
            if again:
                self._looking[key] = False


def _inside(workload: Workload | None) -> Mapping[tuple[Key, str], int]:
    """Return the replicas of a Workload inside reservations, by reservation and cluster."""
    if workload is None or workload.metadata.deleting:
        return {}
    shares = workload.info.reservations
    return {((each.namespace, each.name), each.cluster): each.replicas for each in shares}
