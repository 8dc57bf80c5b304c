"""The plugin Reservation: reserved room is for its owners alone.

If all new replicas fit inside, the first pass tries that: without rules about other Workloads and
spread, because the reservation's author has chosen the cluster. If replicas are left, the pass is
repeated without these changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from controller.cache.placements import PlacementIndex
from controller.features.reservation.compiled import Reserved
from controller.features.reservation.ledger import ReservationLedger
from controller.features.reservation.owners import matches
from controller.framework.events import EventHint
from controller.framework.explains import Note, NoteKind, PassView, Shortage, either
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask, Unplaced
from controller.framework.room import cap, needed, room, variants_of
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route
from controller.framework.status import SKIP, SUCCESS, Refusal, Status, unschedulable
from controller.model.load import added
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask, plus
from controller.snapshot.nodegroups import UNLIMITED
from controller.snapshot.snapshot import Snapshot
from crds.reservation import ReservationPhase
from machinery.types import hostports, quantities
from machinery.types.api import WorkloadAffinity
from machinery.types.metadata import Key

NAME = "Reservation"
_OUTSIDE = "no reservation of its own here"
_NO_RULE = WorkloadAffinity()
_PODS = "pods"
"""Places for pods bound no Workload whose reservation has anything else."""
NAMED = 3
"""Reservations that a remedy names, and clusters that a change does."""


@dataclass(frozen=True, slots=True)
class UsableReservations:
    """`inside` are the replicas that fit into each, by cluster, `room` their sum."""

    reserved: Sequence[Reserved]
    inside: Mapping[Key, Mapping[str, int]]
    room: Mapping[str, int]
    first: bool
    ledger: ReservationLedger


class ReservationPlugin:
    name = NAME
    ignored_during_execution = True

    def __init__(self, _args: NoArgs, handle: Handle) -> None:
        self._handle = handle
        self.endpoints: Sequence[Route] = ()

    def events_to_register(self) -> Sequence[EventHint]:
        """The feature queues pending owners."""
        return ()

    def before_pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> tuple[WorkloadInfo, bool] | Status:
        if info.booked:
            return info, False
        ledger = bound.ledger(ReservationLedger)
        reserved = ledger.of(info)
        inside = ledger.inside(info.request, reserved)
        room = Counter[str]()
        for replicas in inside.values():
            room.update(replicas)
        first = NAME not in state.without and _fits(info, snapshot, room)
        state.data[NAME] = UsableReservations(reserved, inside, room, first, ledger)
        if not first:
            return info, False
        state.tentative.add(NAME)
        if not _rules(info):
            return info, False
        return replace(info, affinity=_NO_RULE, anti_affinity=_NO_RULE, spread=()), True

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        own = _own(state)
        if own is not None and (most := _apart(state, info, snapshot, own)):
            cap(state, lambda after: after.by_row(most, UNLIMITED))
        if own is not None and own.first:
            cap(
                state,
                lambda snapshot: snapshot.by_row(info.present) + snapshot.by_row(own.room),
            )
        return SUCCESS

    def before_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> tuple[WorkloadInfo, Snapshot, bool] | Status:
        own = _own(state)
        if own is None:
            return info, snapshot, False
        # What others of a set take inside is in flight, and no longer held beside that.
        then, now = own.ledger.changed_holds({each.key for each in own.reserved})
        back = added([*(own.ledger.held(each.key) for each in own.reserved), *then])
        if not back:
            return info, snapshot, False
        snapshot = snapshot.releasing(back)
        for name, loads in added(now).items():
            for load, replicas in loads.items():
                snapshot = snapshot.assuming(load, {name: replicas})
        return info, snapshot, True

    def filter(
        self, state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        own = _own(state)
        if own is None or not own.first:
            return NOTHING_REFUSED
        return FilterMask([(snapshot.by_row(own.room) <= 0, _OUTSIDE)])

    def post_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, found: Unplaced
    ) -> Status:
        if info.booked or not info.counted or not len(snapshot.holds):
            return SUCCESS
        told = _held_for_others(state, info, snapshot, found)
        return unschedulable(NAME, told) if told else SUCCESS

    def pre_score(
        self,
        state: CycleState,
        _info: WorkloadInfo,
        _snapshot: Snapshot,
        _bound: PlacementIndex,
        _feasible: Mask,
    ) -> Status:
        own = _own(state)
        return SUCCESS if own is not None and any(own.room.values()) else SKIP

    def score(
        self, state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        own = _own(state)
        values: Ints = np.where(snapshot.by_row(own.room if own else {}) > 0, 100, 0)
        return values

    def status_fields(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        _snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        if info.booked:
            return {}
        inside = bound.ledger(ReservationLedger).split(info, placements)
        return {"reservations": [msgspec.to_builtins(share) for share in inside] or None}

    def changes(self, before: PassView, after: PassView) -> Sequence[str]:
        found = []
        if gone := [
            name for name, field in _RULES if field(before.workload) != field(after.workload)
        ]:
            ledger = self._handle.index().ledger(ReservationLedger)
            names = [each.name for each in ledger.of(before.workload)]
            new = before.workload.replicas - sum(before.workload.present.values())
            fits = "its new replica fits" if new == 1 else f"all {new} new replicas fit"
            inside = f"inside reservation {either(names, 'and')}" if names else "inside"
            found.append(f"took {either(gone, 'and')} away: {fits} {inside}")
        return [*found, *_given_back(before.snapshot, after.snapshot)]

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "unused room there in a reservation that it may use"

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        own, info = _own(shortage.state), shortage.workload
        if own is None:
            return ()
        told = [(each, _lacking(own, each, info)) for each in own.reserved]
        told += [
            (each, _over(each))
            for each in own.ledger.values()
            if each.ended and matches(each, info)
        ]
        notes = [Note(NoteKind.ROOM, shortage.pending, r.name, text) for r, text in told if text]
        return notes[:NAMED]

    def routes(self) -> Sequence[Route]:
        return self.endpoints


def _own(state: CycleState) -> UsableReservations | None:
    own: UsableReservations | None = state.data.get(NAME)
    return own


_RULES: Sequence[tuple[str, Callable[[WorkloadInfo], Any]]] = (
    ("workloadAffinity", lambda info: info.affinity),
    ("workloadAntiAffinity", lambda info: info.anti_affinity),
    ("spreadConstraints", lambda info: info.spread),
)


def _given_back(before: Snapshot, after: Snapshot) -> Iterator[str]:
    if before is after:
        return
    amounts: dict[int, list[str]] = {}
    for resource in sorted(before.holds.amounts):
        was, now = (snapshot.holds.amount(resource, len(snapshot)) for snapshot in (before, after))
        for row in np.flatnonzero(was > now).tolist() if resource != _PODS else ():
            text = f"{quantities.render(resource, int(was[row] - now[row]))} {resource}"
            amounts.setdefault(row, []).append(text)
    rows = sorted(amounts, key=lambda row: before.names[row])
    for row in rows[:NAMED]:
        yield f"gave back {' and '.join(amounts[row])} on {before.names[row]}"
    if len(rows) > NAMED:
        yield f"gave back what is held on {len(rows) - NAMED} more"


def _held_for_others(
    state: CycleState, info: WorkloadInfo, snapshot: Snapshot, found: Unplaced
) -> str:
    """Return, for example, `Reservations hold 6 of 8 cpu that 4 replicas ask for`."""
    names = [snapshot.names[row] for row in np.unique(snapshot.holds.cluster).tolist()]
    without = snapshot.releasing({name: snapshot.held(name) for name in names})
    now, then = (room(info, each, variants=variants_of(state)) for each in (snapshot, without))
    kept = (found.feasible | found.crowded) & (then > now) & (then >= needed(info))
    pending = found.desired - sum(found.shares.values())
    amounts = []
    for resource in sorted(info.request.keys() - {_PODS}) if kept.any() else ():
        held, asked = snapshot.holds.amount(resource, len(snapshot))[kept], info.request[resource]
        most = int(held.max() if info.whole else held.sum())
        if most and hostports.code(resource) is None:
            part, all_of_it = min(most, asked * pending), asked * pending
            told = (quantities.readable(resource, n) for n in (part, all_of_it))
            amounts.append(f"{' of '.join(told)} {resource}")
    replicas = "a replica asks for" if pending == 1 else f"{pending} replicas ask for"
    return f"Reservations hold {' and '.join(amounts)} that {replicas}" if amounts else ""


def _rules(info: WorkloadInfo) -> bool:
    sides = (info.affinity, info.anti_affinity)
    return bool(info.spread) or any(side.required or side.preferred for side in sides)


def _fits(info: WorkloadInfo, snapshot: Snapshot, room: Mapping[str, int]) -> bool:
    there = {name: n for name, n in info.present.items() if name in snapshot.row}
    new = info.replicas - sum(there.values())
    if new <= 0 or info.everywhere:
        return False
    if info.whole:  # beside the present ones: a reservation moves nothing
        return any(n >= new for name, n in room.items() if not there or name in there)
    return new <= sum(room.values())


def _apart(
    state: CycleState, info: WorkloadInfo, snapshot: Snapshot, own: UsableReservations
) -> dict[str, int]:
    """Return the most replicas of clusters with several reservations.

    All their room is released, so a large replica could take room that another one holds.
    """
    held = {key: own.ledger.held(key) for key in own.inside}
    shared = Counter(cluster for loads in held.values() for cluster in loads)
    several = [c for c, n in shared.items() if n > 1 and c in snapshot.row]
    if not several:
        return {}
    rows, most = snapshot.rows(several), np.zeros(len(several), dtype=np.int64)
    whole = {
        key: np.array([replicas.get(c, 0) for c in several], dtype=np.int64)
        for key, replicas in own.inside.items()
    }
    for key, loads in held.items():
        with_it = snapshot.releasing({c: loads[c] for c in several if c in loads})
        fits = room(info, with_it, variants=variants_of(state))[rows]
        others = sum((n for other, n in whole.items() if other != key), np.zeros_like(most))
        most = np.maximum(most, plus(fits, others))
    return dict(zip(several, most.tolist(), strict=True))


def _lacking(own: UsableReservations, reserved: Reserved, info: WorkloadInfo) -> str:
    name, lacks = f"Reservation {reserved.name}", []
    for cluster in own.ledger.reserved(reserved.key):
        unused = own.ledger.unused(reserved.key, cluster)
        asked = ((r, info.request.get(r, 0)) for r in reserved.request if r != _PODS)
        lacks.append((cluster, {r: n - unused.get(r, 0) for r, n in asked if n > unused.get(r, 0)}))
    if not lacks:
        return f"a cluster for its {name}, which has none yet"
    cluster, lack = min(lacks, key=lambda each: (len(each[1]), sum(each[1].values()), each[0]))
    amounts = " and ".join(f"{quantities.render(r, n)} {r}" for r, n in sorted(lack.items()))
    less = f"what it has left on {cluster} is {amounts} less than a replica asks for"
    return f"a larger {name}: {less}" if lack else ""


def _over(reserved: Reserved) -> str:
    how = "is used up" if reserved.phase == ReservationPhase.SUCCEEDED.value else "has ended"
    return f"another Reservation like {reserved.name}, which {how}"
