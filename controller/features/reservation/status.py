"""The status of a Reservation: its decision's fields, its phase, its use. Pure.

Succeeded and Failed are final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from controller.features.reservation.compiled import (
    ENDED,
    Reservation,
    Reserved,
    compile_reservation,
)
from controller.framework.statuswriter import MESSAGE_LIMIT, Result, StatusEvent
from crds.fields.placing import PlacementStatus
from crds.reservation import (
    ReservationCondition,
    ReservationEventReason,
    ReservationPhase,
    ReservationReadyReason,
)
from crds.workload import ScheduledReason
from machinery.clock import parse_timestamp, timestamp
from machinery.types import conditions, quantities
from machinery.types.bounds import MOST_AMOUNT, MOST_UNITS

NAMED_OWNERS = 100
"""Owners that a status names; `owners` is the number of all."""
NOTED = 3
"""Owners that an event names, and clusters that a message does."""
NAMES_LIMIT = 4096
"""Characters of status.clusterName, by the schema."""
CLOCKS_SECONDS = 5.0
"""Seconds between two checks of an expired reservation while the clocks differ."""
_KEPT = frozenset({f.alias or name for name, f in PlacementStatus.model_fields.items()}) | {
    "conditions"
}
_PENDING, _AVAILABLE = ReservationPhase.PENDING.value, ReservationPhase.AVAILABLE.value
_READY = ReservationCondition.READY.value
_WAITING = frozenset(
    {
        ReservationReadyReason.PENDING,
        ScheduledReason.WAITING_FOR_GROUP,
        ScheduledReason.WAITING_ON_PERMIT,
    }
)
"""Reasons of Ready, and of Scheduled, that pass by themselves."""
_TOLD = {
    ReservationReadyReason.SUCCEEDED: ReservationEventReason.SUCCEEDED,
    ReservationReadyReason.EXPIRED: ReservationEventReason.EXPIRED,
    ReservationReadyReason.CLUSTER_LOST: ReservationEventReason.CLUSTER_LOST,
    ReservationReadyReason.SHORT: ReservationEventReason.SHORT,
    ReservationReadyReason.NOT_HELD: ReservationEventReason.NOT_HELD,
    ReservationReadyReason.CLOCKS_DIFFER: ReservationEventReason.CLOCKS_DIFFER,
}
"""The events of new reasons of Ready."""


class Use(NamedTuple):
    namespace: str
    name: str
    uid: str
    cluster: str
    replicas: int
    request: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """The facts beside the object itself.

    Args:
        uses: the users inside, by stored statuses, by name.
        gone: clusters of the reservation's `clusterName` that are gone.
        short: as text, which of its clusters have less free than is held there.
        unheld: why no pods keep the room on its clusters, or empty.
        clocks: how far the controller's clock and the hub's differ, or empty; while they differ
            nothing ends because of the time.
    """

    uses: Sequence[Use] = ()
    gone: Sequence[str] = ()
    short: Sequence[str] = ()
    unheld: str = ""
    clocks: str = ""


class ReservationState(NamedTuple):
    phase: ReservationPhase
    reason: ReservationReadyReason
    message: str


_HOLDS = ReservationState(
    ReservationPhase.AVAILABLE, ReservationReadyReason.AVAILABLE, "its room is held for its owners"
)
_WAITS = ReservationState(
    ReservationPhase.PENDING,
    ReservationReadyReason.PENDING,
    "no replica of it has a cluster; the condition Scheduled says why",
)


def held(stored: Reservation) -> dict[str, int]:
    return {share.cluster: share.replicas for share in stored.status.placements if share.replicas}


def decided(stored: Reservation, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Reservation's fields for those of a Workload's decision."""
    found = {name: value for name, value in fields.items() if name in _KEPT}
    if "placements" not in fields:
        return found
    clusters = [each["cluster"] for each in fields["placements"] if each["replicas"]]
    units = sum(each["replicas"] for each in fields["placements"])
    found["allocatable"] = _rendered(_times(compile_reservation(stored).request, units))
    before = stored.status.phase
    if clusters:
        found |= {"phase": _AVAILABLE, "clusterName": _joined(clusters)}
    elif before != _AVAILABLE:
        found |= {"phase": _PENDING, "clusterName": None}
    said = conditions.among(stored.status.conditions, _READY)
    # What Ready says of an older generation must not stand beside the observedGeneration of this.
    outdated = said.get("observedGeneration") != stored.metadata.generation
    if outdated or (clusters and before != _AVAILABLE):
        now = parse_timestamp(fields["decision"]["time"])
        state = _HOLDS if units else _WAITS
        found["conditions"] = _conditions(stored, fields["conditions"], state, now)
    return found


def _joined(names: Sequence[str]) -> str:
    text = ",".join(names)
    return text if len(text) <= NAMES_LIMIT else f"{text[: NAMES_LIMIT - 1]}…"


def look(stored: Reservation, reserved: Reserved, facts: ReservationFacts, now: datetime) -> Result:
    generation = stored.metadata.generation
    if stored.status.phase in ENDED:
        return Result(fields={"observedGeneration": generation})
    state = state_of(stored, reserved, facts, now)
    fields: dict[str, Any] = {
        "phase": state.phase.value,
        "allocatable": _rendered(_times(reserved.request, sum(held(stored).values()))),
        "allocated": _rendered(_allocated(stored, reserved, facts.uses)),
        "currentOwners": [_owner(use) for use in facts.uses[:NAMED_OWNERS]],
        "owners": len({(use.namespace, use.name) for use in facts.uses}),
        "conditions": _conditions(stored, stored.status.conditions, state, now),
    }
    events, after = [*_came(stored, facts.uses), *_turned(stored, state)], None
    if state.phase.value in ENDED:  # before that the decision writes the observed generation
        fields["observedGeneration"] = generation
    elif reserved.expires is not None:
        after = (reserved.expires - now).total_seconds()
        after = max(after, CLOCKS_SECONDS) if facts.clocks else after
    if state.phase is ReservationPhase.PENDING:
        fields["clusterName"] = None
    return Result(fields=fields, events=events, requeue_after=after)


def state_of(
    stored: Reservation, reserved: Reserved, facts: ReservationFacts, now: datetime
) -> ReservationState:
    phase, reason = ReservationPhase, ReservationReadyReason
    if reserved.once and facts.uses:
        first = facts.uses[0]
        text = f"it serves once, and {first.namespace}/{first.name} uses it"
        return ReservationState(phase.SUCCEEDED, reason.SUCCEEDED, text)
    over = reserved.expires is not None and now >= reserved.expires
    if reserved.expires is not None and over and not facts.clocks:
        text = f"it held until {timestamp(reserved.expires)}"
        return ReservationState(phase.FAILED, reason.EXPIRED, text)
    if not held(stored):
        if stored.status.phase == _AVAILABLE and facts.gone:
            text = f"{_named(facts.gone)} is gone, and no other cluster takes it"
            return ReservationState(phase.FAILED, reason.CLUSTER_LOST, text)
        return _WAITS._replace(message=reserved.fault or _WAITS.message)
    if over:
        text = f"nothing ends by the time while the controller's clock is {facts.clocks}"
        return ReservationState(phase.AVAILABLE, reason.CLOCKS_DIFFER, text)
    if facts.short:
        text = "; ".join(facts.short[:NOTED])
        return ReservationState(phase.AVAILABLE, reason.SHORT, text)
    if facts.unheld:
        return ReservationState(phase.AVAILABLE, reason.NOT_HELD, facts.unheld)
    return _HOLDS


def _allocated(stored: Reservation, reserved: Reserved, uses: Sequence[Use]) -> dict[str, int]:
    taken: dict[tuple[str, str], int] = {}
    for use in uses:
        for resource, amount in use.request.items():
            at = (use.cluster, resource)
            taken[at] = taken.get(at, 0) + amount * use.replicas
    there = held(stored)
    return {
        resource: sum(min(taken.get((c, resource), 0), amount * n) for c, n in there.items())
        for resource, amount in (reserved.request.items() if there else ())
    }


def _times(request: Mapping[str, int], replicas: int) -> dict[str, int]:
    return {resource: amount * replicas for resource, amount in request.items()}


def _rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    """Render, cut to the allowed maximum, without pods: each unit is one."""
    found = sorted((name, min(n, MOST_AMOUNT)) for name, n in amounts.items() if name != "pods")
    return {name: quantities.render(name, n) for name, n in found}


def _owner(use: Use) -> dict[str, Any]:
    return {
        "kind": "Workload",
        "namespace": use.namespace,
        "name": use.name,
        "uid": use.uid,
        "cluster": use.cluster,
        "replicas": min(use.replicas, MOST_UNITS),
    }


def _conditions(
    stored: Reservation, before: Sequence[Any], state: ReservationState, now: datetime
) -> list[Any]:
    ready = conditions.renewed(
        conditions.among(before, _READY),
        type_=_READY,
        true=state.reason in (ReservationReadyReason.AVAILABLE, ReservationReadyReason.SUCCEEDED),
        reason=state.reason.value,
        message=state.message[:MESSAGE_LIMIT],
        now=now,
        generation=stored.metadata.generation,
    )
    scheduled = conditions.among(before, ReservationCondition.SCHEDULED.value)
    refused = state.phase is ReservationPhase.PENDING and scheduled.get("status") == "False"
    return conditions.with_progress(
        ({each.get("type"): each for each in before} | {_READY: ready}).values(),
        waits=_WAITING,
        cause=scheduled if refused else ready,
        now=now,
    )


def _came(stored: Reservation, uses: Sequence[Use]) -> Iterator[StatusEvent]:
    before = {
        tuple(map(each.get, ("namespace", "name", "cluster"))): each.get("replicas") or 0
        for each in stored.status.current_owners
    }
    texts = [
        f"{use.namespace}/{use.name} with {_replicas(use.replicas)} on {use.cluster}"
        for use in uses[:NAMED_OWNERS]
        if use.replicas > before.get((use.namespace, use.name, use.cluster), 0)
    ]
    if texts:
        yield StatusEvent(ReservationEventReason.ALLOCATED, f"used by {_named(texts)}")


def _turned(stored: Reservation, state: ReservationState) -> Iterator[StatusEvent]:
    before, reason = conditions.among(stored.status.conditions, _READY), _TOLD.get(state.reason)
    if reason is not None and before.get("reason") != state.reason.value:
        warning = state.reason is not ReservationReadyReason.SUCCEEDED
        yield StatusEvent(reason, state.message, warning)


def _named(texts: Sequence[str]) -> str:
    more = len(texts) - NOTED
    return ", ".join(texts[:NOTED]) + (f" and {more} more" if more > 0 else "")


def _replicas(number: int) -> str:
    return "1 replica" if number == 1 else f"{number} replicas"
