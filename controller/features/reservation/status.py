"""The status of a Reservation beside its decision: its phase, and the use of its room. Pure.

The decision writes the placements; from these, the Workloads inside as they are stored, the time
and the room of the clusters follow the phase, the amounts, the condition Ready, the events, and the
moment of the next check. Succeeded and Failed are final.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from controller.features.reservation.compiled import Reserved, compile_reservation
from controller.features.reservation.objects import Reservation
from controller.features.reservation.placed import AVAILABLE, ENDED, status_of
from controller.framework.statuswriter import MESSAGE_LIMIT, StatusEvent
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
_READY = ReservationCondition.READY.value
_WAITING = frozenset(
    {
        ReservationReadyReason.PENDING,
        ScheduledReason.WAITING_FOR_GROUP,
        ScheduledReason.WAITING_ON_PERMIT,
    }
)
"""Reasons of Ready, and of Scheduled, that pass by themselves; the others need a person."""
_GOOD = (ReservationReadyReason.AVAILABLE, ReservationReadyReason.SUCCEEDED)


class Use(NamedTuple):
    """Replicas of a stored Workload inside a reservation, on one cluster."""

    namespace: str
    name: str
    uid: str
    cluster: str
    replicas: int
    request: Mapping[str, int]


class ReservationResult(NamedTuple):
    """The fields to write, the events to emit, and when the status may change by itself."""

    fields: Mapping[str, Any]
    events: Sequence[StatusEvent]
    next_look: datetime | None


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """The facts beside the object itself.

    Args:
        uses: the users inside, by stored statuses, in the order of names.
        gone: clusters of the reservation's `clusterName` that are gone.
        short: in words, which of its clusters have less free than is held there.
        unheld: why no pods keep the room on its clusters, where they should.
        clocks: how far the controller's clock and the hub's differ, empty where they agree; while
            they differ nothing ends for good because of the time.
    """

    uses: Sequence[Use] = ()
    gone: Sequence[str] = ()
    short: Sequence[str] = ()
    unheld: str = ""
    clocks: str = ""


class ReservationState(NamedTuple):
    """The phase, and the condition Ready."""

    phase: ReservationPhase
    reason: ReservationReadyReason
    message: str = ""

    @property
    def ends(self) -> bool:
        """Return whether the phase is final."""
        return self.phase.value in ENDED


_HOLDS = ReservationState(ReservationPhase.AVAILABLE, ReservationReadyReason.AVAILABLE)
_WAITS = ReservationState(
    ReservationPhase.PENDING,
    ReservationReadyReason.PENDING,
    "no unit of it has a cluster; the condition Scheduled says why",
)


def decided(stored: Reservation, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields that a decision writes, with the reserved amounts and a new Ready.

    A client that waits for Available finds all of them at once. `fields` are those of a Workload.
    """
    written = status_of(stored, fields)
    if "placements" not in fields:
        return written
    replicas = sum(each["replicas"] for each in fields["placements"])
    amounts = _times(compile_reservation(stored).request, replicas)
    found = {**written, "allocatable": _rendered(amounts)}
    comes = stored.status.phase != AVAILABLE and written.get("phase") == AVAILABLE
    said = conditions.among(stored.status.conditions, _READY)
    # What Ready says of an older generation must not stand beside the observedGeneration of this.
    if comes or said.get("observedGeneration") != stored.metadata.generation:
        verdict = _HOLDS if replicas else _WAITS
        now = parse_timestamp(fields["decision"]["time"])
        found["conditions"] = _conditions(stored, fields["conditions"], verdict, now)
    return found


def ended(stored: Reservation) -> bool:
    return stored.status.phase in ENDED


def look(
    stored: Reservation, reserved: Reserved, facts: ReservationFacts, now: datetime
) -> ReservationResult:
    """Return the status as of now; a reservation that has ended stays as a record."""
    generation = stored.metadata.generation
    if ended(stored):
        return ReservationResult({"observedGeneration": generation}, (), None)
    verdict = verdict_of(stored, reserved, facts, now)
    fields: dict[str, Any] = {
        "phase": verdict.phase.value,
        "allocatable": _rendered(_times(reserved.request, sum(held(stored).values()))),
        "allocated": _rendered(_allocated(stored, reserved, facts.uses)),
        "currentOwners": [_owner(use) for use in facts.uses[:NAMED_OWNERS]],
        "owners": len({(use.namespace, use.name) for use in facts.uses}),
        "conditions": _conditions(stored, stored.status.conditions, verdict, now),
    }
    if verdict.ends:  # before that the decision writes the observed generation
        fields["observedGeneration"] = generation
    elif verdict.phase is ReservationPhase.PENDING:
        fields["clusterName"] = None
    events = [*_came(stored, facts.uses), *_turned(stored, verdict)]
    return ReservationResult(fields, events, None if verdict.ends else reserved.expires)


def verdict_of(
    stored: Reservation, reserved: Reserved, facts: ReservationFacts, now: datetime
) -> ReservationState:
    """Return the state of a reservation that has not ended before."""
    if reserved.once and facts.uses:
        first = facts.uses[0]
        text = f"it serves once, and {first.namespace}/{first.name} uses it"
        return ReservationState(ReservationPhase.SUCCEEDED, ReservationReadyReason.SUCCEEDED, text)
    over = reserved.expires is not None and now >= reserved.expires
    if reserved.expires is not None and over and not facts.clocks:
        text = f"it held until {timestamp(reserved.expires)}"
        return ReservationState(ReservationPhase.FAILED, ReservationReadyReason.EXPIRED, text)
    if not held(stored):
        if stored.status.phase == AVAILABLE and facts.gone:
            text = f"{_named(facts.gone)} is gone, and no other cluster takes it"
            return ReservationState(
                ReservationPhase.FAILED, ReservationReadyReason.CLUSTER_LOST, text
            )
        return _WAITS._replace(message=reserved.fault or _WAITS.message)
    if over:
        text = f"nothing ends by the time while the controller's clock is {facts.clocks}"
        return ReservationState(
            ReservationPhase.AVAILABLE, ReservationReadyReason.CLOCKS_DIFFER, text
        )
    if facts.short:
        text = "; ".join(facts.short[:NOTED])
        return ReservationState(ReservationPhase.AVAILABLE, ReservationReadyReason.SHORT, text)
    if facts.unheld:
        return ReservationState(
            ReservationPhase.AVAILABLE, ReservationReadyReason.NOT_HELD, facts.unheld
        )
    return _HOLDS


def held(stored: Reservation) -> dict[str, int]:
    """Return the reservation's units by cluster."""
    return {share.cluster: share.replicas for share in stored.status.placements if share.replicas}


def _allocated(stored: Reservation, reserved: Reserved, uses: Iterable[Use]) -> dict[str, int]:
    """Return the amounts that users take, no more than is reserved on each cluster."""
    assigned: dict[str, dict[str, int]] = {}
    for use in uses:
        there = assigned.setdefault(use.cluster, {})
        for resource, amount in use.request.items():
            there[resource] = there.get(resource, 0) + amount * use.replicas
    total: dict[str, int] = {}
    for cluster, replicas in held(stored).items():
        there = assigned.get(cluster, {})
        for resource, amount in reserved.request.items():
            used = min(there.get(resource, 0), amount * replicas)
            total[resource] = total.get(resource, 0) + used
    return total


def _times(request: Mapping[str, int], replicas: int) -> dict[str, int]:
    return {resource: amount * replicas for resource, amount in request.items()}


def _rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    """Render as quantities, each cut to the allowed maximum, without pods: each unit is one."""
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
    stored: Reservation, before: Sequence[Any], verdict: ReservationState, now: datetime
) -> list[Any]:
    """Return Ready and what follows from it as of now, and the other conditions unchanged."""
    ready = conditions.renewed(
        conditions.among(before, _READY),
        type_=_READY,
        true=verdict.reason in _GOOD,
        reason=verdict.reason.value,
        message=verdict.message[:MESSAGE_LIMIT],
        now=now,
        generation=stored.metadata.generation,
    )
    scheduled = conditions.among(before, ReservationCondition.SCHEDULED.value)
    refused = verdict.phase is ReservationPhase.PENDING and scheduled.get("status") == "False"
    return conditions.with_progress(
        ({each.get("type"): each for each in before} | {_READY: ready}).values(),
        waits=_WAITING,
        cause=scheduled if refused else ready,
        now=now,
    )


def _came(stored: Reservation, uses: Sequence[Use]) -> Iterator[StatusEvent]:
    """Yield an event for users with more replicas inside than the status names."""
    before = {
        tuple(map(each.get, ("namespace", "name", "cluster"))): each.get("replicas") or 0
        for each in stored.status.current_owners
    }
    named = uses[:NAMED_OWNERS]
    more = [use for use in named if use.replicas > before.get((*use[:2], use.cluster), 0)]
    if more:
        texts = [
            f"{u.namespace}/{u.name} with {_replicas(u.replicas)} on {u.cluster}" for u in more
        ]
        yield StatusEvent(ReservationEventReason.ALLOCATED, f"used by {_named(texts)}")


def _turned(stored: Reservation, verdict: ReservationState) -> Iterator[StatusEvent]:
    """Yield the event of a state that is new."""
    before = conditions.among(stored.status.conditions, _READY)
    reason = _TOLD.get(verdict.reason)
    if reason is not None and before.get("reason") != verdict.reason.value:
        warning = verdict.reason is not ReservationReadyReason.SUCCEEDED
        yield StatusEvent(reason, verdict.message, warning)


_TOLD = {
    ReservationReadyReason.SUCCEEDED: ReservationEventReason.SUCCEEDED,
    ReservationReadyReason.EXPIRED: ReservationEventReason.EXPIRED,
    ReservationReadyReason.CLUSTER_LOST: ReservationEventReason.CLUSTER_LOST,
    ReservationReadyReason.SHORT: ReservationEventReason.SHORT,
    ReservationReadyReason.NOT_HELD: ReservationEventReason.NOT_HELD,
    ReservationReadyReason.CLOCKS_DIFFER: ReservationEventReason.CLOCKS_DIFFER,
}


def _named(texts: Sequence[str]) -> str:
    """Return the first texts, and how many more there are."""
    more = len(texts) - NOTED
    return ", ".join(texts[:NOTED]) + (f" and {more} more" if more > 0 else "")


def _replicas(number: int) -> str:
    return "1 unit" if number == 1 else f"{number} units"
