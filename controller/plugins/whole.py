"""Undivided shares: all on the best cluster, or the full number on every cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.interface import Assignment, Candidates
from controller.framework.room import within
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.planner.choice import Choice, Field, choose
from controller.planner.reasons import Reason, RuleKind, no_reasons
from controller.plugins.spreadconstraints import counts
from crds.workload import ScheduledReason


class Single:
    """Puts all replicas on one cluster: the present one if it still qualifies, else the best.

    Shares on several clusters, left by a WorkloadPolicy that no longer applies, stay until the
    Workload's own rules are edited.
    """

    name = "Single"

    def events_to_register(self) -> Sequence[EventHint]:
        """Return events that bring room, and the loss of the Workload's own cluster."""
        return (
            on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),
            on(MEMBER_CLUSTER, Action.READY | Action.DELETED, _is_home),
        )

    def serves(self, info: WorkloadInfo) -> bool:
        return info.distribution == "Single" and not info.everywhere

    def assign(self, info: WorkloadInfo, field: Candidates) -> Assignment:
        """Return one share of all replicas, or none; the old one if no cluster takes more."""
        want = info.replicas
        if within(field.state, want) == want:
            return self._assign(info, field, want)
        # A limit that does not admit all replicas admits no more than are placed.
        placed = min(want, sum(info.present.values()))
        found = self._assign(info, field, placed) if placed else Assignment({}, want, no_reasons)
        return replace(found, desired=want)

    def _assign(self, info: WorkloadInfo, field: Candidates, want: int) -> Assignment:
        shared = int((field.keeps & (field.present > 0)).sum()) > 1
        if shared and (info.claims or not info.edited):
            return _as_it_is(field, want)
        home = self._home(info, field)
        if home is not None and self._holds(home, want, field):
            kind = RuleKind.KEPT if field.present[home] else RuleKind.WHOLE
            return _whole(home, want, want, kind)
        # Data stays where it is, even if more replicas fit elsewhere.
        if len(field.ranking) and not (info.claims and home is not None):
            best = int(field.ranking[0])
            return _whole(best, want, want, RuleKind.WHOLE)
        if home is not None:
            kept = min(int(field.present[home]), want)
            return _whole(home, kept, want, RuleKind.KEPT)
        return Assignment({}, want, no_reasons)

    def _home(self, info: WorkloadInfo, field: Candidates) -> int | None:
        """Return the present cluster; of several the best ranked, then the fullest."""
        rows = [field.snapshot.row[n] for n in info.present if n in field.snapshot.row]
        rows = [row for row in rows if field.keeps[row]]
        if not rows:
            return None
        return min(
            rows, key=lambda r: (-field.scores[r], -field.present[r], field.snapshot.names[r])
        )

    def _holds(self, row: int, want: int, field: Candidates) -> bool:
        # A cluster that does not answer is kept: its share grows when it returns.
        if want <= field.present[row] or not field.snapshot.ready[row]:
            return True
        return bool(field.feasible[row] and field.room[row] >= want)


class Duplicated:
    """Puts the full number on every matching cluster, and wherever a copy is already."""

    name = "Duplicated"

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),
            on(MEMBER_CLUSTER, Action.LABELS | Action.DELETED, is_spread),
        )

    def serves(self, info: WorkloadInfo) -> bool:
        return info.everywhere or info.distribution == "Duplicated"

    def assign(self, info: WorkloadInfo, field: Candidates) -> Assignment:
        """Assign to every chosen cluster.

        If there is none, `desired` counts one copy unless copies ended.
        """
        held = field.keeps & field.held
        choice = _choice(info, field)
        rows = np.flatnonzero((field.feasible & choice.open) | held)
        chosen = {int(row): info.replicas for row in rows}
        desired = info.replicas * max(len(chosen), 0 if info.ended else 1)
        shares = _limited(chosen, field, within(field.state, desired))
        why = (Reason(RuleKind.EVERYWHERE, info.replicas),)
        kept = {row: (Reason(RuleKind.KEPT, n),) for row, n in shares.items() if n != chosen[row]}
        return Assignment(
            shares,
            desired,
            lambda row: kept.get(row, why) if row in shares else (),
            notes=choice.lacks,
            choosing=choice.lacks,
            short=ScheduledReason.FAILED_TO_SCHEDULE
            if choice.lacks
            else ScheduledReason.INSUFFICIENT_CAPACITY,
        )


def _limited(chosen: dict[int, int], field: Candidates, most: int) -> dict[int, int]:
    """Give the full number to the best clusters within the limit; others keep theirs."""
    shares = {r: min(int(field.present[r]), n) for r, n in chosen.items() if field.held[r]}
    left = most - sum(shares.values())
    for row in map(int, field.line):
        if row in chosen and (more := chosen[row] - shares.get(row, 0)) <= left:
            shares[row] = chosen[row]
            left -= more
    return {row: shares[row] for row in chosen if row in shares}


def _is_home(info: WorkloadInfo, old: MemberCluster, _new: MemberCluster | None) -> bool:
    return old.metadata.name in info.present


def is_spread(info: WorkloadInfo, _old: MemberCluster, _new: MemberCluster | None) -> bool:
    return bool(info.spread)


def _choice(info: WorkloadInfo, field: Candidates) -> Choice:
    """Return the clusters that spec.spreadConstraints leave; those with a copy count as in use."""
    held = field.keeps & field.held
    stays = held.astype(np.int64)
    about = Field(field.feasible, held, None, stays, field.scores, field.snapshot.by_name)
    return choose(counts(info, field.snapshot), about, info.replicas)


def _as_it_is(field: Candidates, want: int) -> Assignment:
    """Keep the shares; more go to the best cluster with room, fewer leave the smallest."""
    present = np.where(field.keeps, field.present, 0)
    shares = {int(row): int(present[row]) for row in np.flatnonzero(present)}
    more = want - sum(shares.values())
    if more > 0:
        roomy = (int(r) for r in field.ranking if field.room[r] - field.present[r] >= more)
        best = next(roomy, None)
        if best is not None:
            shares[best] = shares.get(best, 0) + more
    for row in sorted(shares, key=lambda row: (shares[row], -field.snapshot.by_name[row])):
        taken = min(max(-more, 0), shares[row])
        shares[row] -= taken
        more += taken
    kept = {row: replicas for row, replicas in shares.items() if replicas}
    return Assignment(
        kept, want, lambda row: (Reason(RuleKind.KEPT, kept[row]),) if row in kept else ()
    )


def _whole(row: int, replicas: int, desired: int, kind: RuleKind) -> Assignment:
    why = (Reason(kind, replicas),)
    return Assignment({row: replicas}, desired, lambda asked: why if asked == row else ())
