"""What members tell of themselves: the kinds that they serve, and what their quotas leave.

A fact that is not known refuses no cluster, and one that changes moves nothing that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import NoteKind, Shortage, Stop
from controller.framework.interface import (
    NOTHING_REFUSED,
    Candidates,
    CycleState,
    FilterMask,
    MaskedReason,
    Variant,
)
from controller.framework.room import by_variant, cap, needed, variants_of
from controller.framework.status import SUCCESS, Refusal, Status
from controller.model.objects import MemberCluster
from controller.model.requests import amounts_left, charges, left_by
from controller.model.unit import WorkloadInfo
from controller.planner.problem import Problem
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.nodegroups import UNLIMITED
from controller.snapshot.snapshot import Snapshot
from machinery.types import podquotas, quantities

MOST_NAMED = 16
"""Clusters whose quota a refusal names; those of the others it counts."""


class ServedKinds:
    """Refuses clusters that do not serve a kind of the Workload: MemberCluster.status.kinds."""

    name = "ServedKinds"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.VERSION, _serves),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        if not info.served_kinds:
            return NOTHING_REFUSED
        return FilterMask([self._lacking(kind, snapshot) for kind in info.served_kinds])

    def _lacking(self, kind: str, snapshot: Snapshot) -> MaskedReason:
        line = f"\n{kind}\n"

        def lacks() -> Mask:
            return snapshot.served.where(lambda listed: listed is not None and line not in listed)

        mask = snapshot.kept.fixed((self.name, kind), lacks)
        return mask, f"does not serve {_worded(kind)}", "", (kind,)

    def cure(self, _shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        return f"the CustomResourceDefinition of {_worded(refusal.args[0])}"


def _worded(kind: str) -> str:
    """Return `argoproj.io/v1alpha1 Rollout`."""
    return " ".join(kind.rsplit("/", 1))


def _serves(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    return new.served is None or set(info.served_kinds) <= set(new.served)


class MemberQuota:
    """Bounds the new replicas on a cluster by the ResourceQuotas of their namespace there.

    Those that are decided and not counted there yet take their part: MemberCluster.status.quotas.
    """

    name = "MemberQuota"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM, _leaves_another),)

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        """Bound the room."""
        if info.counted and info.target_namespace in snapshot.quotas:
            variants = variants_of(state)
            cap(state, lambda after: _most(info, after, variants))
        return SUCCESS

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        if not info.counted or info.target_namespace not in snapshot.quotas:
            return NOTHING_REFUSED
        full = _most(info, snapshot, variants_of(state)) < needed(info)
        return FilterMask((), short=self._named(state, info, snapshot, full))

    def divides(self, _info: WorkloadInfo, _state: CycleState) -> bool:
        return False

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        return replace(problem) if self._at(info, field.snapshot, field.state).any() else problem

    def shortfall(self, info: WorkloadInfo, field: Candidates, plan: object) -> Sequence[str]:
        del plan
        at = field.feasible & self._at(info, field.snapshot, field.state)
        named = self._named(field.state, info, field.snapshot, at)
        return [text for _, text, *_ in named]

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        rows = shortage.tight & self._at(shortage.workload, shortage.snapshot, shortage.state)
        text = "what a ResourceQuota of its namespace there leaves"
        return [Stop(NoteKind.BOUND, rows, text)] if rows.any() else []

    def cure(self, shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return f"a greater ResourceQuota of namespace {shortage.workload.target_namespace} there"

    def _at(self, info: WorkloadInfo, snapshot: Snapshot, state: CycleState) -> Mask:
        if not info.counted or info.target_namespace not in snapshot.quotas:
            return np.zeros(len(snapshot), dtype=np.bool_)
        mask: Mask = _most(info, snapshot, variants_of(state)) < info.replicas
        return mask

    def _named(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, rows: Mask
    ) -> list[MaskedReason]:
        numbers = np.flatnonzero(rows)
        found: dict[str, Mask] = {}
        for row in numbers[np.argsort(snapshot.by_name[numbers])][:MOST_NAMED].tolist():
            on_row = next((v for v in variants_of(state) if v.rows(snapshot)[row]), info)
            text = _tightest(info, on_row, snapshot, row)
            found.setdefault(text, np.zeros(len(snapshot), dtype=np.bool_))[row] = True
        named: list[MaskedReason] = [(mask, text) for text, mask in sorted(found.items())]
        if len(numbers) > MOST_NAMED:
            others = rows & ~np.any([mask for mask, *_ in named], axis=0)
            named.append((others, f"at a ResourceQuota of namespace {info.target_namespace}"))
        return named


def _most(info: WorkloadInfo, snapshot: Snapshot, variants: Sequence[Variant]) -> Ints:
    most = np.full(len(snapshot), UNLIMITED, dtype=np.int64)
    quotas = snapshot.quotas.get(info.target_namespace)
    if quotas is None:
        return most

    def fits(of: WorkloadInfo | Variant) -> Ints:
        column, left = most.copy(), snapshot.left(info.target_namespace)
        for name, amount in charges(of.pod or info.pod).items():
            if name in left and amount:
                room = np.maximum(left[name], 0) // amount
                column[quotas.rows] = np.minimum(column[quotas.rows], room)
        return column

    found = by_variant(variants, info, snapshot, fits)
    for there in (info.present, info.moving.kept):
        found = found + snapshot.by_row(there)
    return np.minimum(found, UNLIMITED)


def _tightest(info: WorkloadInfo, of: WorkloadInfo | Variant, snapshot: Snapshot, row: int) -> str:
    """Return `ResourceQuota shop/team has pods 2 left`: of the quota that takes the fewest."""
    namespace, each = info.target_namespace, charges(of.pod or info.pod)
    at = int(np.searchsorted(snapshot.quotas[namespace].rows, row))
    flying = {name: int(n[at]) for name, n in snapshot.left(namespace).items()}
    told = snapshot.quotas[namespace].left
    found = []
    for quota in snapshot.clusters[row].status.quotas:
        for name, left in amounts_left(quota).items() if quota.namespace == namespace else ():
            charged = podquotas.charged(name)
            if amount := each.get(charged):
                beside = max(left - int(told[charged][at]) + flying[charged], 0)
                found.append((beside // amount, quota.name, name, beside))
    if not found:
        return f"at a ResourceQuota of namespace {namespace}"
    _, quota_name, name, left = min(found)
    amount_text = quantities.render(podquotas.resource(name), left)
    return f"ResourceQuota {namespace}/{quota_name} has {name} {amount_text} left"


def _leaves_another(
    info: WorkloadInfo, old: MemberCluster | None, new: MemberCluster | None
) -> bool:
    if old is None or new is None:
        return True
    namespace = info.target_namespace
    was, now = (left_by(each.status.quotas).get(namespace) for each in (old, new))
    return was != now
