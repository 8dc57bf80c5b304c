"""A Reservation, ready to hold room, and as the Workload as which it is placed.

An invalid one has a `fault`: it holds nothing. A unit is a replica of a Deployment of its pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from controller.framework.runtime.feature import checked_spec, read_spec
from controller.model.load import Load
from controller.model.objects import Template, TemplateMeta, Workload, WorkloadSpec, WorkloadStatus
from controller.model.unit import WorkloadInfo, workload_info
from crds.fields.placing import Distribution
from crds.names import SYSTEM_NAMESPACE
from crds.reservation import Hold, ReservationPhase
from machinery.api.resources import DEPLOYMENTS
from machinery.clock import stored_time
from machinery.types import durations
from machinery.types.api import Owner
from machinery.types.bounds import between
from machinery.types.metadata import Key, Object


class PodTemplate(msgspec.Struct, frozen=True):
    metadata: Any = None
    spec: Any = None


class ReservationSpec(msgspec.Struct, frozen=True, rename="camel"):
    template: PodTemplate = PodTemplate()
    owners: list[Owner] = []
    allocate_once: bool = True
    ttl: str = "24h"
    expires: str = ""
    hold: str = Hold.BOOKS.value


class PlacedSpec(WorkloadSpec, msgspec.Struct, frozen=True, rename="camel"):
    distribution: str = Distribution.DIVIDED.value
    template: Any = None


class ReservationStatus(WorkloadStatus, msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    cluster_name: str = ""
    allocatable: dict[str, str | int] = {}
    allocated: dict[str, str | int] = {}
    current_owners: list[dict[str, Any]] = []
    owners: int | None = None


class Reservation(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: ReservationStatus = ReservationStatus()


ENDED = frozenset({ReservationPhase.SUCCEEDED.value, ReservationPhase.FAILED.value})
Rank: TypeAlias = tuple[float, str, Key]
"""The order of use: the reservation that expires first, then the oldest, then by name."""
_MOST_REPLICAS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Reserved:
    """`request` and `load` are those of one unit.

    `namespaces` has that of each of `owners`, "" for an entry that selects none.
    """

    key: Key
    uid: str
    rank: Rank
    request: Mapping[str, int]
    load: Load
    once: bool
    expires: datetime | None
    owners: tuple[Owner, ...]
    namespaces: tuple[str, ...]
    hold: str
    phase: str
    ended: bool
    fault: str = ""

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def open(self) -> bool:
        return not self.ended and not self.fault


def compile_reservation(stored: Reservation) -> Reserved:
    meta, ended = stored.metadata, stored.status.phase in ENDED
    found, fault = checked_spec("Reservation", stored.spec, ReservationSpec)
    info, wrong = (None, "") if found is None or ended else _info(stored)
    spec = ReservationSpec() if found is None or fault else found
    fault = fault or wrong
    expires = None if fault else _end(spec, meta.creation_timestamp)
    until = float("inf") if expires is None else expires.timestamp()
    return Reserved(
        key=meta.key,
        uid=meta.uid,
        rank=(until, meta.creation_timestamp, meta.key),
        request=info.request if info else {},
        load=info.load if info else Load.of({}),
        once=spec.allocate_once,
        expires=expires,
        owners=() if fault else tuple(spec.owners),
        namespaces=() if fault else tuple(_whose(each, meta.namespace) for each in spec.owners),
        hold=spec.hold,
        phase=stored.status.phase,
        ended=ended or meta.deleting,
        fault=fault,
    )


def as_placed(stored: Reservation) -> Workload | None:
    """Return the Workload that decisions read; None if it has ended."""
    if stored.status.phase in ENDED:
        return None
    fault = compile_reservation(stored).fault
    return msgspec.structs.replace(_workload(stored), fault=fault)


def _info(stored: Reservation) -> tuple[WorkloadInfo | None, str]:
    try:
        return workload_info(_workload(stored)), ""
    except (ValueError, msgspec.ValidationError) as e:
        return None, str(e)


def _workload(stored: Reservation) -> Workload:
    spec, fault = read_spec(stored.spec, PlacedSpec)
    own, _ = read_spec(stored.spec, ReservationSpec)
    named = stored.spec.get("schedulerName") if isinstance(stored.spec, dict) else None
    if fault and isinstance(named, str):  # so that this scheduler reports the fault
        spec = PlacedSpec(scheduler_name=named)
    fields = {name: getattr(spec, name) for name in WorkloadSpec.__struct_fields__}
    pods = {"metadata": own.template.metadata, "spec": own.template.spec}
    fields |= {
        "replicas": between(0, 1 if spec.replicas is None else spec.replicas, _MOST_REPLICAS),
        "target_namespace": _target(own, stored.metadata.namespace),
        "template": Template(
            api_version=DEPLOYMENTS.api_version,
            kind=DEPLOYMENTS.kind,
            metadata=TemplateMeta(),
            spec={"template": {name: part for name, part in pods.items() if part is not None}},
        ),
        "target_deployment": None,
        "manifests": [],
        "replicas_path": "",
    }
    return Workload(metadata=stored.metadata, spec=WorkloadSpec(**fields), status=stored.status)


def _target(own: ReservationSpec, namespace: str) -> str:
    """Return the namespace that members must take: its own, or its first owner's."""
    if namespace != SYSTEM_NAMESPACE:
        return namespace
    # No cluster takes anything into the namespace of Stowage, where room for other namespaces is
    # held.
    named = (
        part.namespace
        for owner in own.owners
        for part in (owner.object, owner.controller)
        if part is not None and part.namespace
    )
    return next(named, namespace)


def _end(spec: ReservationSpec, created: str) -> datetime | None:
    if spec.expires:
        return datetime.fromisoformat(spec.expires)
    # An object that was read from a file has no time of creation.
    begin, held = stored_time(created), durations.parse(spec.ttl)
    return begin + held if begin and held else None


def may_serve(namespace: str, other: str) -> bool:
    return namespace in (other, SYSTEM_NAMESPACE)


def _whose(owner: Owner, namespace: str) -> str:
    """Return the namespace of an entry's Workloads; empty if it is forbidden."""
    parts = (part for part in (owner.object, owner.controller) if part is not None)
    [only, *more] = {part.namespace for part in parts if part.namespace} or {namespace}
    return only if not more and may_serve(namespace, only) else ""
