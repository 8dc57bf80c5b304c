"""WorkloadQuota: bounds the new replicas of a namespace by its quotas.

Decisions are claimed in the oldest quota's status, for schedulers of other names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.claims.controller import ClaimsQuota
from controller.features.reservation.ledger import ReservationLedger
from controller.features.reservation.split import fitting
from controller.features.workloadquota.compiled import (
    Amounts,
    CompiledQuota,
    asked,
    default_quota,
    held,
    most_request,
    of_cluster,
    of_unit,
    rendered,
    resource_of,
)
from controller.features.workloadquota.usage import Usage, Used
from controller.framework.events import Action, EventHint, namespace_of, on
from controller.framework.explains import Note, NoteKind, Shortage, Stop
from controller.framework.interface import CycleState, PlacementLimit, Unplaced
from controller.framework.room import cap, limit, variants_of
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Book, Route
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from crds.workloadquota import RESERVATIONS, UNITS, WorkloadQuotaSpec
from machinery.types.bounds import MOST_UNITS

NAME = "WorkloadQuota"
KIND = "WorkloadQuota"
_REASON = ScheduledReason.QUOTA_EXCEEDED
_USED = "Used"
"""The code of a refusal by an exhausted amount, with `_amount_of` as args."""


class WorkloadQuotaArgs(Args):
    """`defaultQuota`, for namespaces without a WorkloadQuota."""

    default_quota: WorkloadQuotaSpec | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    replicas: int
    short: Short


class WorkloadQuotaPlugin(ClaimsQuota):
    name = NAME

    def __init__(self, args: WorkloadQuotaArgs, handle: Handle) -> None:
        self._default = {} if args.default_quota is None else dict(args.default_quota.hard)
        self._handle = handle
        super().__init__()
        self._known: tuple[tuple[str, int, int], Sequence[tuple[str, int]]] = (("", -1, -1), ())

    @property
    def has_default(self) -> bool:
        return bool(self._default)

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(KIND, Action.every(), self._may_help, namespace_of),)

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        quotas = self.quotas(bound, info.namespace)
        if not quotas:
            return SUCCESS
        if closed := self.closed():
            text = f"{quotas[0].named} lets in no replicas: {closed}"
            return unschedulable(NAME, text, reason=_REASON)
        there = sum(info.present.values())
        reservations = bound.ledger(ReservationLedger)
        used = bound.ledger(Usage).used(info.namespace, reservations)
        found = self._spare(state, info, quotas, used)
        wanted = info.replicas if not info.everywhere else MOST_UNITS
        if found.short is None or found.replicas is None or there + found.replicas >= wanted:
            return SUCCESS
        inside = {} if info.booked else _inside(info, quotas, reservations)
        replicas = there + found.replicas + _most(info, inside)
        state.data[NAME] = Bound(replicas, found.short)
        if inside:
            cap(state, partial(_capped, info, inside, found.replicas))
        least = info.replicas if info.everywhere else 1
        if not info.present and replicas < least:
            return _refused(found.short, least)
        limit(state, PlacementLimit(replicas, NAME, _REASON))
        return SUCCESS

    def post_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, unplaced: Unplaced
    ) -> Status:
        known: Bound | None = state.data.get(NAME)
        if known is None or known.replicas >= unplaced.desired:
            return SUCCESS
        new = info.replicas - sum(info.present.values()) if info.whole else 1
        return _refused(known.short, max(new, 1))

    def cure(self, _shortage: Shortage, refusal: Refusal, _rows: Any) -> str:
        if refusal.code != _USED:
            return "the controller of WorkloadQuota, switched on"
        return _more(*refusal.args)

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        known: Bound | None = shortage.state.data.get(NAME)
        if known is None or shortage.reason is not _REASON:
            return ()
        text = _more(*_amount_of(known.short))
        return (Note(NoteKind.QUOTA, shortage.pending, known.short.quota.key[1], text),)

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        """All clusters, because the quotas bound their sum."""
        known: Bound | None = shortage.state.data.get(NAME)
        if known is None or shortage.reason is not _REASON:
            return ()
        rows = np.ones(len(shortage.snapshot), dtype=np.bool_)
        return (Stop(NoteKind.QUOTA, rows, f"as many as {known.short.quota.named} lets in"),)

    def routes(self) -> Sequence[Route]:
        return book(self._handle.index).routes()

    def quotas(self, bound: PlacementIndex, namespace: str) -> Sequence[CompiledQuota]:
        found = bound.ledger(Usage).quotas(namespace)
        return found or ([default_quota(namespace, self._default)] if self._default else [])

    def _spare(
        self, state: CycleState, info: WorkloadInfo, quotas: Sequence[CompiledQuota], used: Used
    ) -> Spare:
        if not info.booked:
            each = of_unit(info)
            if each and (wrong := _patched(state, info, quotas, used)) is not None:
                return Spare(0, wrong)
            return _with_manifests(info, quotas, used, each) if each else ANY
        if not any(info.present.values()) and (short := one_more(quotas, used)) is not None:
            return Spare(0, short)
        return spare(quotas, used, held(info.request))

    def _may_help(self, info: WorkloadInfo, _old: Any, _new: Any) -> bool:
        """Called for thousands at once."""
        index = self._handle.index()
        reservations, most = index.ledger(ReservationLedger), most_request(info)
        for resource, more in self._left(index, info.namespace, reservations):
            if more < (most.get(resource, 0) if resource else 1):
                room = reservations.unused_in(info.namespace)
                quotas = self.quotas(index, info.namespace)
                return bool(room and not info.booked and _inside(info, quotas, reservations))
        return True

    def _left(
        self, index: PlacementIndex, namespace: str, reservations: ReservationLedger
    ) -> Sequence[tuple[str, int]]:
        usage = index.ledger(Usage)
        about = (namespace, index.version, usage.version)
        if self._known[0] != about:
            quotas = self.quotas(index, namespace)
            amounts = left(quotas, usage.used(namespace, reservations)) if quotas else {}
            found = [
                ("" if name == UNITS else resource_of(name), n)
                for name, n in amounts.items()
                if name != RESERVATIONS
            ]
            self._known = (about, found)
        return self._known[1]


def _with_manifests(
    info: WorkloadInfo, quotas: Sequence[CompiledQuota], used: Used, each: Amounts
) -> Spare:
    """Return how many replicas are let in, each as if on a separate cluster."""
    along = of_cluster(info)
    if not along:
        return spare(quotas, used, each)
    both = {name: each.get(name, 0) + along.get(name, 0) for name in {**each, **along}}
    found = spare(quotas, used, both)
    short = None if found.short is None else replace(found.short, along=True)
    return Spare(found.replicas, short)


def _patched(
    state: CycleState, info: WorkloadInfo, quotas: Sequence[CompiledQuota], used: Used
) -> Short | None:
    base = asked(most_request(info))
    for variant in variants_of(state):
        for name, n in asked(variant.request).items():
            for quota in quotas:
                if name in quota.hard and n > base.get(name, 0):
                    return Short(
                        quota, name, used.amounts.get(name, 0), quota.hard[name], n, patched=True
                    )
    return None


def _inside(
    info: WorkloadInfo, quotas: Sequence[CompiledQuota], reservations: ReservationLedger
) -> dict[str, int]:
    counts = {name for quota in quotas for name in quota.hard}
    each = {name: n for name, n in of_unit(info).items() if n and name in counts}
    found: dict[str, int] = {}
    for reserved in reservations.of(info):
        for cluster in (
            reservations.reserved(reserved.key) if reserved.namespace == info.namespace else ()
        ):
            unused = reservations.unused(reserved.key, cluster)
            rest = held(unused)
            fits = min((rest.get(name, 0) // n for name, n in each.items()), default=0)
            if replicas := min(fits, fitting(unused, info.request)):
                found[cluster] = found.get(cluster, 0) + replicas
    return found


def _most(info: WorkloadInfo, inside: Mapping[str, int]) -> int:
    return max(inside.values(), default=0) if info.whole else sum(inside.values())


def _capped(info: WorkloadInfo, inside: Mapping[str, int], spare: int, snapshot: Snapshot) -> Ints:
    """Return the most per cluster, shape (n,): present, inside, and on one the spare."""
    there = {name: n for name, n in inside.items() if name in snapshot.row}
    # Only one cluster gets the spare, or several would each take all of it.
    first = max(sorted(there), key=there.__getitem__, default="")
    column = np.full(len(snapshot), spare if info.whole else 0, dtype=np.int64)
    for name, n in there.items():
        column[snapshot.row[name]] = n + (spare if info.whole or name == first else 0)
    for name, n in info.present.items():
        if name in snapshot.row:
            column[snapshot.row[name]] += n
    return column


def _refused(short: Short, replicas: int) -> Status:
    text, amount = short.words(replicas), _amount_of(short)
    return unschedulable(NAME, text, reason=_REASON, detail=_USED, args=amount)


def _amount_of(short: Short) -> tuple[str, ...]:
    about = (short.name, short.quota.key[1])
    return (*about, short.unknown) if short.unknown else about


def _more(name: str, quota: str, unknown: str = "") -> str:
    where = f"WorkloadQuota {quota}" if quota else "defaultQuota of the configuration"
    if unknown:
        return f"a known use of {where}: {unknown}"
    return f"more of hard.{name} in {where}"


def book(index: Callable[[], PlacementIndex]) -> Book[CompiledQuota]:
    def told(quota: CompiledQuota) -> dict[str, Any]:
        reserved = index().ledger(ReservationLedger)
        used = index().ledger(Usage).used(quota.key[0], reserved).amounts
        return {
            "namespace": quota.key[0],
            "name": quota.key[1],
            "hard": {name: rendered(name, n) for name, n in quota.hard.items()},
            "used": {name: rendered(name, used.get(name, 0)) for name in quota.hard},
            **({"fault": quota.fault} if quota.fault else {}),
        }

    return Book(
        *("quotas", "workloadquota"),
        objects=lambda: index().ledger(Usage).every(),
        find=lambda key: index().ledger(Usage).quota(key),
        summary=told,
        detail=told,
    )


@dataclass(frozen=True, slots=True)
class Short:
    """The exhausted amount of a quota. `asks` is a replica's request for it.

    `unknown`: why more may be used, so that nothing is let in. `patched`: a replica requests more
    on some cluster than its template.
    """

    quota: CompiledQuota
    name: str
    used: int
    hard: int
    asks: int
    unknown: str = ""
    patched: bool = False
    along: bool = False
    """`asks` includes the pods of the manifests."""

    def words(self, replicas: int = 1) -> str:
        """Return `WorkloadQuota team: requests.cpu 198 of 200 used, a replica asks for 4`."""
        used, hard = (rendered(self.name, n) for n in (self.used, self.hard))
        text = f"{self.quota.named}: {self.name} {used} of {hard} used"
        if self.patched:
            return (
                f"{text}, and the patch of a WorkloadSpread asks for more of it than the template, "
                "which is what counts: ask for the most in the template"
            )
        if self.name != RESERVATIONS:
            who = "a replica asks for" if replicas == 1 else f"{replicas} replicas ask for"
            who = "a replica, with the pods of its manifests, asks for" if self.along else who
            text = f"{text}, {who} {rendered(self.name, self.asks * replicas)}"
        if self.unknown:
            text += f", and {self.unknown}"
        return text


@dataclass(frozen=True, slots=True)
class Spare:
    """None replicas mean any number. `short` is the tightest amount."""

    replicas: int | None
    short: Short | None = None


ANY = Spare(None)


def spare(quotas: Iterable[CompiledQuota], used: Used, each: Amounts) -> Spare:
    """Return how many replicas of `each` the quotas let in on top of `used`."""
    least, short = None, None
    for quota in quotas:
        for name, hard in sorted(quota.hard.items()):
            asks, there = each.get(name, 0), used.amounts.get(name, 0)
            if not asks:
                continue
            replicas = 0 if used.unknown else max(hard - there, 0) // asks
            if least is None or replicas < least:
                least, short = replicas, Short(quota, name, there, hard, asks, used.unknown)
    return Spare(least, short)


def one_more(quotas: Iterable[CompiledQuota], used: Used) -> Short | None:
    found = spare(quotas, used, {RESERVATIONS: 1})
    return found.short if found.replicas == 0 else None


def left(quotas: Iterable[CompiledQuota], used: Used) -> dict[str, int]:
    found: dict[str, int] = {}
    for quota in quotas:
        for name, hard in quota.hard.items():
            more = -1 if used.unknown else hard - used.amounts.get(name, 0)
            found[name] = min(found.get(name, more), more)
    return found
