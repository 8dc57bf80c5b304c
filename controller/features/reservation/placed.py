"""A Reservation as a Workload: how it is placed, and how its decision is written on it.

A unit of it is a replica of a Deployment of its template's pods. The decision is written in the
fields of that name; the phase and the cluster's name go with the placements, so that a client that
waits for `Available` sees both or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.features.reservation.objects import (
    PlacedSpec,
    Reservation,
    ReservationSpec,
)
from controller.features.spec import read_spec
from controller.model.objects import Template, TemplateMeta, Workload, WorkloadSpec
from crds.fields.placing import PlacementStatus
from crds.names import SYSTEM_NAMESPACE
from crds.reservation import ReservationPhase
from machinery.api.resources import DEPLOYMENTS
from machinery.types.bounds import between

PENDING, AVAILABLE = ReservationPhase.PENDING.value, ReservationPhase.AVAILABLE.value
ENDED = frozenset({ReservationPhase.SUCCEEDED.value, ReservationPhase.FAILED.value})
NAMES_LIMIT = 4096
"""The longest status.clusterName that the schema allows, in characters."""
_MOST_REPLICAS = 2**31 - 1
_KEPT = frozenset({f.alias or name for name, f in PlacementStatus.model_fields.items()}) | {
    "conditions"
}


def as_workload(stored: Reservation) -> Workload | None:
    """Return the Workload that decisions read; None for a reservation that has ended.

    An unreadable spec becomes the `fault`. A reservation that is being deleted still is a Workload:
    it holds nothing, as no shares count then.
    """
    if stored.status.phase in ENDED:
        return None
    spec, fault = read_spec(stored.spec, PlacedSpec)
    own, wrong = read_spec(stored.spec, ReservationSpec)
    named = stored.spec.get("schedulerName") if isinstance(stored.spec, dict) else None
    if fault and isinstance(named, str):  # so that this scheduler reports the fault
        spec = PlacedSpec(scheduler_name=named)
    return Workload(
        metadata=stored.metadata,
        spec=_spec(spec, own, stored.metadata.namespace),
        status=stored.status,
        fault=fault or wrong,
    )


def _spec(said: PlacedSpec, own: ReservationSpec, namespace: str) -> WorkloadSpec:
    fields = {name: getattr(said, name) for name in WorkloadSpec.__struct_fields__}
    pods = {"metadata": own.template.metadata, "spec": own.template.spec}
    fields |= {
        "replicas": between(0, 1 if said.replicas is None else said.replicas, _MOST_REPLICAS),
        "target_namespace": _target(own, namespace),
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
    return WorkloadSpec(**fields)


def _target(own: ReservationSpec, namespace: str) -> str:
    """Return the namespace that members must take: the reservation's own, or its first owner's."""
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


def status_of(stored: Reservation, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status fields of a Reservation for those of a Workload's decision.

    With placements the phase is Available, without them Pending. A reservation that was available
    and has no placements any more keeps its phase: the leader tells whether its clusters are lost.
    """
    written = {name: value for name, value in fields.items() if name in _KEPT}
    if "placements" not in fields:
        return written
    clusters = [each["cluster"] for each in fields["placements"] if each["replicas"]]
    if clusters:
        return written | {"phase": AVAILABLE, "clusterName": _joined(clusters)}
    lost = stored.status.phase == AVAILABLE
    return written | ({} if lost else {"phase": PENDING, "clusterName": None})


def _joined(names: list[str]) -> str:
    """Join the names by commas, cut at `NAMES_LIMIT`."""
    text = ",".join(names)
    return text if len(text) <= NAMES_LIMIT else f"{text[: NAMES_LIMIT - 1]}…"
