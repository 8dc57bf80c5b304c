"""The kind Reservation as the hub stores it, as far as the controller reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.model.objects import WorkloadSpec, WorkloadStatus
from crds.fields.placing import Distribution
from crds.reservation import Hold
from machinery.types.metadata import Object
from machinery.types.selectors import LabelSelector


class OwnerObject(msgspec.Struct, frozen=True, rename="camel"):
    """A Workload by its name."""

    name: str
    kind: str = "Workload"
    api_version: str = ""
    namespace: str = ""
    uid: str = ""


class OwnerController(msgspec.Struct, frozen=True, rename="camel"):
    """The controlling owner of a Workload, or the object of its template."""

    kind: str
    name: str
    api_version: str = ""
    namespace: str = ""
    uid: str = ""


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """One of spec.owners: all that is given must hold."""

    object: OwnerObject | None = None
    controller: OwnerController | None = None
    label_selector: LabelSelector | None = None


class PodTemplate(msgspec.Struct, frozen=True):
    """A unit; `controller.model.podtemplate` looks at its form."""

    metadata: Any = None
    spec: Any = None


class ReservationSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of Reservation.spec beside the rules of its placement."""

    template: PodTemplate = PodTemplate()
    owners: list[Owner] = []
    allocate_once: bool = True
    ttl: str = "24h"
    expires: str = ""
    hold: str = Hold.BOOKS.value


class PlacedSpec(WorkloadSpec, msgspec.Struct, frozen=True, rename="camel"):
    """The rules of its placement, by the names and in the types of a Workload's."""

    distribution: str = Distribution.DIVIDED.value
    template: Any = None


class ReservationStatus(WorkloadStatus, msgspec.Struct, frozen=True, rename="camel"):
    """Reservation.status: what a decision writes on a Workload, and what only this kind has."""

    phase: str = ""
    cluster_name: str = ""
    allocatable: dict[str, str] = {}
    allocated: dict[str, str] = {}
    current_owners: list[dict[str, Any]] = []
    owners: int | None = None


class Reservation(Object, frozen=True):
    """Room that is held for owners.

    The spec is left as it is stored: what an older schema let in may be of any type, and a
    reservation that cannot be decoded would be as good as deleted.
    `controller.features.reservation.compiled` makes sense of it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: ReservationStatus = ReservationStatus()
