"""Reservation as a feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Any

from controller.features.reservation.compiled import (
    Reservation,
    Reserved,
    as_placed,
    compile_reservation,
)
from controller.features.reservation.controller import ReservationController
from controller.features.reservation.ledger import ReservationLedger as Ledger
from controller.features.reservation.plugin import NAME
from controller.features.reservation.plugin import ReservationPlugin as Plugin
from controller.features.reservation.status import decided, held
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Book
from controller.model.objects import MemberCluster, Workload
from controller.model.placed import PlacedKind
from controller.snapshot.snapshot import rendered
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, WORKLOADS
from machinery.types.metadata import Key

NAMED_OWNERS = NAMED_CLUSTERS = 100
"""Owners of one reservation in an answer; `owners` is the number of all."""


class Reservations(Feature):
    controller: ReservationController
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
        self.plugins = {NAME: Plugin}
        self.watch(RESERVATIONS, Reservation, self.reservation_changed, gone=self._gone)
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        # Reservations whose owners are being queued; True where they must be queued once more.
        self._looking: dict[Key, bool] = {}

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        for each in self.enabled(Plugin):
            each.endpoints = book(self.ledger).routes()

    def start(self, term: Term) -> ReservationController:
        self._looking.clear()  # iterations under way ended with the last term
        return ReservationController(term, ledger=self.ledger, handle=self.handle)

    def _gone(self, old: Reservation) -> None:
        key = old.metadata.key
        claimants = self.ledger.claimants(key)
        self.ledger.drop_reservation(key)
        self.controller.forget(key)
        self.handle.look(claimants)  # their shares inside are no longer valid

    def reservation_changed(self, old: Reservation | None, new: Reservation) -> None:
        reserved = compile_reservation(new)
        before, claimants = self.ledger.get(reserved.key), self.ledger.claimants(reserved.key)
        moved = old is None or held(old) != held(new)
        if reserved != before:
            self.ledger.put_reservation(reserved)
        if moved or before is None or before.uid != reserved.uid:
            self.handle.look(claimants)
        if moved or reserved != before:
            self._look_at_owners(reserved.key)
        self.controller.look(reserved.key)
        self.controller.look_at_clusters(held(new))

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if known is not None:
            self.controller.saw(known)
        before, after = _inside(old), _inside(new)
        same = old is None or new is None or old.info.request == new.info.request
        if before == after and (same or not after):
            return
        fewer = {at[0] for at, replicas in before.items() if after.get(at, 0) < replicas}
        for key, cluster in {**before, **after}:
            self.controller.look(key)
            self.controller.look_at_clusters([cluster])
        for key in fewer:
            self._look_at_owners(key)
        if new is not None and after and self.ledger.says_too_much(new.info):
            self.handle.look([new.metadata.key])

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        known = new or old
        if known is not None:
            self.controller.look_at_clusters([known.metadata.name])

    def _look_at_owners(self, key: Key) -> None:
        if key in self._looking:
            self._looking[key] = True
        else:
            self._looking[key] = False
            self.handle.look(self._pending_owners(key))

    def _pending_owners(self, key: Key) -> Iterator[Key]:
        again = True
        while again:
            if (reserved := self.ledger.get(key)) is not None:
                yield from self.ledger.pending_owners(reserved)
            again = self._looking.pop(key, False)
            if again:
                self._looking[key] = False


def _inside(workload: Workload | None) -> Mapping[tuple[Key, str], int]:
    if workload is None or workload.metadata.deleting:
        return {}
    shares = workload.info.reservations
    return {((each.namespace, each.name), each.cluster): each.replicas for each in shares}


def book(ledger: Ledger) -> Book[Reserved]:
    def told(reserved: Reserved) -> dict[str, Any]:
        key, users = reserved.key, ledger.uses(reserved.key)
        clusters = sorted(ledger.reserved(key).items())[:NAMED_CLUSTERS]
        return {
            "namespace": reserved.namespace,
            "name": reserved.name,
            "phase": reserved.phase,
            "clusters": [_there(ledger, reserved, *each) for each in clusters],
            "owners": len(users),
            "currentOwners": [
                {"namespace": each[0], "name": each[1], "clusters": dict(users[each])}
                for each in nsmallest(NAMED_OWNERS, users)
            ],
        }

    return Book("reservations", "reservation", ledger.values, ledger.get, told, told)


def _there(ledger: Ledger, reserved: Reserved, cluster: str, replicas: int) -> dict[str, Any]:
    held = {resource: n * replicas for resource, n in reserved.request.items()}
    taken = ledger.taken(reserved.key, cluster)
    return {
        "name": cluster,
        "replicas": replicas,
        "reserved": rendered(held),
        "allocated": rendered({r: min(n, taken.get(r, 0)) for r, n in held.items()}),
        "unused": rendered(ledger.unused(reserved.key, cluster)),
    }
