"""A Reservation as a Workload: how it is placed, and how its decision is written on it.

Its unit is one of a Deployment of its template's pods. The decision is written in the fields of
that name; with the placements go the phase and the cluster's name, so that who waits for
`Available` sees both or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from controller.features.reservation.objects import (
    PlacedSpec,
    Reservation,
    ReservationSpec,
)
from controller.model.objects import Template, TemplateMeta, Workload, WorkloadSpec
from crds.fields.placing import PlacementStatus
from crds.names import SYSTEM_NAMESPACE
from crds.reservation import ReservationPhase
from machinery.types.bounds import between

PENDING, AVAILABLE = ReservationPhase.PENDING.value, ReservationPhase.AVAILABLE.value
ENDED = frozenset({ReservationPhase.SUCCEEDED.value, ReservationPhase.FAILED.value})
NAMES_LIMIT = 4096
"""Characters of status.clusterName, as the schema has it."""
_MOST_REPLICAS = 2**31 - 1
_KEPT = frozenset({f.alias or name for name, f in PlacementStatus.model_fields.items()}) | {
    "conditions"
}


def as_workload(stored: Reservation) -> Workload | None:
    """The Workload that decisions read; None for one that has ended.

    What cannot be read is its `fault`. One that is being deleted still is one: it holds nothing, as
    nobody's shares count then.
    """
    if stored.status.phase in ENDED:
        return None
    spec, fault = read(stored.spec, PlacedSpec)
    own, wrong = read(stored.spec, ReservationSpec)
    return Workload(
        metadata=stored.metadata,
        spec=_spec(spec, own, stored.metadata.namespace),
        status=stored.status,
        fault=fault or wrong,
    )


def read(stored: Any, form: type[Any]) -> tuple[Any, str]:
    """The spec in that form, and what is wrong with it; an empty one where it is of another."""
    try:
        return msgspec.convert(stored, form), ""
    except msgspec.ValidationError as e:
        text, _, path = str(e).partition(" - at `$")
        return _named(stored, form), f"spec{path.removesuffix('`')}: {text}"


def _named(stored: Any, form: type[Any]) -> Any:
    """An empty spec, of the scheduler that it names: who is to decide it tells what is wrong."""
    name = stored.get("schedulerName") if isinstance(stored, dict) else None
    return form(scheduler_name=name) if form is PlacedSpec and isinstance(name, str) else form()


def _spec(said: PlacedSpec, own: ReservationSpec, namespace: str) -> WorkloadSpec:
    fields = {name: getattr(said, name) for name in WorkloadSpec.__struct_fields__}
    pods = {"metadata": own.template.metadata, "spec": own.template.spec}
    fields |= {
        "replicas": between(0, 1 if said.replicas is None else said.replicas, _MOST_REPLICAS),
        "target_namespace": _target(own, namespace),
        "template": Template(
            api_version="apps/v1",
            kind="Deployment",
            metadata=TemplateMeta(),
            spec={"template": {name: part for name, part in pods.items() if part is not None}},
        ),
        "target_deployment": None,
        "manifests": [],
        "replicas_path": "",
    }
    return WorkloadSpec(**fields)


def _target(own: ReservationSpec, namespace: str) -> str:
    """The namespace on members that its clusters must take: its own, or that of its first owner.

    No cluster takes anything into the namespace of Stowage, where room for others is held.
    """
    if namespace != SYSTEM_NAMESPACE:
        return namespace
    named = (
        part.namespace
        for owner in own.owners
        for part in (owner.object, owner.controller)
        if part is not None and part.namespace
    )
    return next(named, namespace)


def status_of(stored: Reservation, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is written on a Reservation of what a decision would write on a Workload.

    With placements its phase is Available, without them Pending. One that was available and has
    none any more is left with its phase: whoever leads tells whether its clusters are lost.
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
    """The names by commas, as many as fit."""
    text = ",".join(names)
    return text if len(text) <= NAMES_LIMIT else f"{text[: NAMES_LIMIT - 1]}…"
