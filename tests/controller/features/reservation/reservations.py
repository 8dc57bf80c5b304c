"""A hall of reservations and Workloads, without a hub: what informers and decisions tell the books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import msgspec

from controller.eventhandlers import SchedulerCache, known
from controller.features.reservation.compiled import Reservation, Reserved, compile_reservation
from controller.features.reservation.feature import Reservations as Feature
from controller.features.reservation.ledger import ReservationLedger
from controller.model.load import Loads, added
from controller.model.objects import Workload
from controller.model.placed import placed_key
from controller.model.unit import WorkloadInfo
from controller.plugins.defaults import PrioritySort
from controller.snapshot.snapshot import ResourceAmounts, amounts_of
from machinery.types.metadata import OwnerReference
from machinery.types.workload_api import ReservedShare
from tests.controller import make

CREATED = "2026-01-02T03:04:05Z"
NS = "shop"
[PLACED] = Feature.places


def pod(request: Mapping[str, str], **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": dict(request)}}], **more}


def reservation(
    name: str = "peak",
    request: Mapping[str, str] | None = None,
    *,
    namespace: str = NS,
    uid: str = "",
    created: str = CREATED,
    phase: str = "",
    placed: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    **spec: Any,
) -> Reservation:
    """One of 4 cpu for the Workload demo, unless told otherwise; `spec` in JSON spelling."""
    template = {
        "metadata": {"labels": dict(labels or {})},
        "spec": pod({"cpu": "4"} if request is None else request),
    }
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "creationTimestamp": created,
        },
        "spec": {
            "schedulerName": "stowage",
            "template": template,
            "owners": [{"object": {"name": "demo"}}],
            **spec,
        },
        "status": {
            "phase": phase,
            "placements": [{"cluster": c, "replicas": n} for c, n in (placed or {}).items()],
        },
    }
    if deleting:
        document["metadata"]["deletionTimestamp"] = CREATED
    return msgspec.convert(document, Reservation)


def owner(
    name: str = "demo",
    request: Mapping[str, str] | None = None,
    *,
    inside: Sequence[ReservedShare] = (),
    said: Any = None,
    namespace: str = NS,
    uid: str = "",
    controller: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Workload:
    """A Workload as the informer keeps it, of units of 1 cpu, unless told otherwise."""
    made = make.workload(
        name,
        namespace=namespace,
        pod=fields.pop("pod", pod({"cpu": "1"} if request is None else request)),
        **fields,
    )
    stored = said if said is not None else msgspec.to_builtins(list(inside))
    status = msgspec.structs.replace(made.status, reservations=stored)
    meta = msgspec.structs.replace(made.metadata, uid=uid or f"uid-{name}")
    if controller is not None:
        references = [msgspec.convert({"controller": True, **controller}, OwnerReference)]
        meta = msgspec.structs.replace(meta, owner_references=references)
    return known(msgspec.structs.replace(made, metadata=meta, status=status))


def as_placed(stored: Reservation) -> Workload | None:
    """The Workload that a reservation is placed as."""
    found = PLACED.workload(stored)
    if found is None:
        return None
    key = placed_key(PLACED.resource, *stored.metadata.key)
    meta = msgspec.structs.replace(stored.metadata, name=key[1])
    made = known(msgspec.structs.replace(found, metadata=meta))
    return msgspec.structs.replace(made, info=replace(made.info, booked=True))


class Hall:
    """The world and its books, and what is stored of whom."""

    def __init__(self, *clusters: str) -> None:
        self.books = ReservationLedger()
        self.world = SchedulerCache(
            {"stowage"}, sort=PrioritySort(), reviewed=lambda _: True, ledgers=[self.books]
        )
        for name in clusters:
            self.world.cluster_changed(None, make.cluster(name))
        self.reservations: dict[tuple[str, str], Reservation] = {}
        self.workloads: dict[tuple[str, str], Workload] = {}

    def reserve(self, stored: Reservation) -> Reserved:
        """The hub stores this of a reservation, new or changed."""
        key = stored.metadata.key
        before = self.reservations.get(key)
        old = as_placed(before) if before is not None else None
        new, compiled = as_placed(stored), compile_reservation(stored)
        self.reservations[key] = stored
        self.books.put_reservation(compiled)
        if old is not None or new is not None:
            self.world.workload_changed(old, new)
        return compiled

    def reserving(self, *stored: Reservation) -> Self:
        for each in stored:
            self.reserve(each)
        return self

    def release(self, name: str = "peak", namespace: str = NS) -> None:
        """The hub has deleted a reservation."""
        before = as_placed(self.reservations.pop((namespace, name)))
        self.books.drop_reservation((namespace, name))
        if before is not None:
            self.world.workload_changed(before, None)

    def store(self, workload: Workload) -> WorkloadInfo:
        """The hub stores this of a Workload, new or changed."""
        key = workload.metadata.key
        self.world.workload_changed(self.workloads.get(key), workload)
        self.workloads[key] = workload
        info: WorkloadInfo = workload.info
        return info

    def delete(self, name: str, namespace: str = NS) -> None:
        """The hub has deleted a Workload."""
        self.world.workload_changed(self.workloads.pop((namespace, name)), None)

    def decide(
        self, workload: Workload, placements: Mapping[str, int]
    ) -> tuple[ReservedShare, ...]:
        """A decision whose write is under way; what it tells."""
        told = self.books.split(workload.info, placements)
        self.world.assume(workload.info, placements)
        return told

    def undo(self, workload: Workload, placements: Mapping[str, int]) -> None:
        """The decision could not be written."""
        self.world.restore(workload.info, placements, workload)

    @property
    def holds(self) -> Loads:
        """All held room, by cluster."""
        return added(self.books.held(each.key) for each in self.books.values())

    def inside(self, info: WorkloadInfo) -> dict[str, int]:
        """How many more units fit into what is held for it."""
        each = self.books.inside(info.request, self.books.of(info)).values()
        return {cluster: n for found in each for cluster, n in found.items()}

    def amounts(self, cluster: str) -> ResourceAmounts:
        """The amounts that the next decision finds on a cluster."""
        found = amounts_of(self.world.snapshot(), cluster)
        assert found is not None
        return found

    def fits(self, workload: Workload, cluster: str) -> int:
        """How many more units fit there, for one of whom nothing is held."""
        return self._fits(self.world.snapshot(), workload, cluster)

    def fits_with_its_own(self, workload: Workload, cluster: str) -> int:
        """The same, with what is held for it given back."""
        own = added(self.books.held(each.key) for each in self.books.of(workload.info))
        snapshot = self.world.snapshot().releasing(own)
        return self._fits(snapshot, workload, cluster)

    @staticmethod
    def _fits(snapshot: Any, workload: Workload, cluster: str) -> int:
        info = workload.info
        found = snapshot.fitting(info.request, info.place)
        return int(found[snapshot.row[cluster]])
