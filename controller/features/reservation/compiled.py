"""A Reservation, ready to hold room.

A stored object may be older than the rules of admission, or written past them, so everything is
checked again. An invalid reservation has a `fault`: it holds nothing and serves no Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from controller.features.reservation.objects import Reservation, ReservationSpec
from controller.features.reservation.placed import ENDED, as_workload
from controller.features.spec import checked_spec
from controller.model.load import Load
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo, workload_info
from crds.names import SYSTEM_NAMESPACE
from machinery.clock import stored_time
from machinery.types import durations
from machinery.types.api import Owner
from machinery.types.metadata import Key


@dataclass(frozen=True, slots=True)
class Reserved:
    """The room of a reservation and its owners.

    `request` and `load` are those of one unit; `expires` is when the reservation ends by itself,
    None for never; `namespaces` are those of the Workloads that each of `owners` selects, empty
    where the entry selects none. `ended` reservations take part in no decision: by their phase, or
    because they are being deleted.
    """

    key: Key
    uid: str
    created: str
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
        """Return whether the reservation holds room and takes owners."""
        return not self.ended and not self.fault


def compile_reservation(stored: Reservation) -> Reserved:
    """Compile a stored reservation; `fault` says where an invalid one is wrong."""
    found, fault = checked_spec("Reservation", stored.spec, ReservationSpec)
    spec = ReservationSpec() if found is None or fault else found
    info, wrong = _info(stored)
    namespace, fault = stored.metadata.namespace, fault or wrong
    return Reserved(
        key=stored.metadata.key,
        uid=stored.metadata.uid,
        created=stored.metadata.creation_timestamp,
        request=info.request if info else {},
        load=info.load if info else Load.of({}),
        once=spec.allocate_once,
        expires=None if fault else _end(spec, stored.metadata.creation_timestamp),
        owners=() if fault else tuple(spec.owners),
        namespaces=() if fault else tuple(_whose(each, namespace) for each in spec.owners),
        hold=spec.hold,
        phase=stored.status.phase,
        ended=stored.status.phase in ENDED or stored.metadata.deleting,
        fault=fault,
    )


def as_placed(stored: Reservation) -> Workload | None:
    """Return the Workload as `as_workload` does, with the fault of an invalid reservation."""
    workload = as_workload(stored)
    if workload is None or workload.fault:
        return workload
    return msgspec.structs.replace(workload, fault=compile_reservation(stored).fault)


def _info(stored: Reservation) -> tuple[WorkloadInfo | None, str]:
    """Return the reservation as a Workload, and its fault; None for one that has ended."""
    workload = as_workload(stored)
    if workload is None:
        return None, ""
    if workload.fault:
        return None, workload.fault
    try:
        return workload_info(workload), ""
    except (ValueError, msgspec.ValidationError) as e:
        return None, str(e)


def _end(spec: ReservationSpec, created: str) -> datetime | None:
    """Return when the reservation ends by itself; None for never."""
    if spec.expires:
        return datetime.fromisoformat(spec.expires)
    # An object that was read from a file has no time of creation.
    begin, held = stored_time(created), durations.parse(spec.ttl)
    return begin + held if begin and held else None


def may_serve(namespace: str, other: str) -> bool:
    """Return whether a reservation of `namespace` may be for Workloads of the other."""
    return namespace in (other, SYSTEM_NAMESPACE)


def _whose(owner: Owner, namespace: str) -> str:
    """Return the namespace of an entry's Workloads; empty where it contradicts or is forbidden."""
    parts = (part for part in (owner.object, owner.controller) if part is not None)
    [only, *more] = {part.namespace for part in parts if part.namespace} or {namespace}
    return only if not more and may_serve(namespace, only) else ""
