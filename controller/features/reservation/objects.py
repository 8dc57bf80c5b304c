"""The fields of the kind Reservation that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.model.objects import WorkloadSpec, WorkloadStatus
from crds.fields.placing import Distribution
from crds.reservation import Hold
from machinery.types.api import Owner
from machinery.types.metadata import Object


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
