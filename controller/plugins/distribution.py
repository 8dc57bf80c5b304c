"""The distributions: all on the best cluster, a copy on each, or divided between clusters.

Divided adds the weights and bounds of `distributionWeights`, `packing`, and observed limits to the
plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

import numpy as np
from pydantic import Field

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Note, NoteKind, Shortage, Stop, clusters, either, full
from controller.framework.interface import Assignment, Candidates, CycleState
from controller.framework.room import within
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster
from controller.model.observedlimits import as_bounds, learn, next_expiry
from controller.model.unit import WorkloadInfo
from controller.planner.choice import Choice, choose
from controller.planner.choice import Field as ChoiceField
from controller.planner.indomain import WithinDomain
from controller.planner.plan import Apportionment
from controller.planner.problem import UNBOUNDED, DomainCount, Problem
from controller.planner.reasons import Reason, RuleKind, no_reasons
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.placing import Packing
from crds.names import LABEL_CLUSTER
from crds.workload import ScheduledReason
from machinery.types.selectors import label_selector


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
        shares = _at_most(chosen, field, within(field.state, desired))
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


def _at_most(chosen: dict[int, int], field: Candidates, most: int) -> dict[int, int]:
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
    about = ChoiceField(field.feasible, held, None, stays, field.scores, field.snapshot.by_name)
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


PATIENCE_SECONDS = 60
"""Seconds without a node until a cluster counts as full: a cluster that scales its nodes needs a
while.
"""
MOST_SECONDS = 10**9


class DividedArgs(Args):
    """`unschedulable_seconds`: how long replicas may have no node before they are divided again."""

    unschedulable_seconds: Annotated[int, Field(strict=True, ge=0, le=MOST_SECONDS)] = (
        PATIENCE_SECONDS
    )


class Divided:
    """Splits by static weights if there are any, otherwise by free room."""

    name = "Divided"

    def __init__(self, args: DividedArgs, _handle: Handle) -> None:
        self._patience = timedelta(seconds=args.unschedulable_seconds)

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),
            on(MEMBER_CLUSTER, Action.LABELS | Action.DELETED, _is_weighted),
        )

    def settled(self, info: WorkloadInfo, now: datetime, _bound: PlacementIndex) -> WorkloadInfo:
        """Return the Workload with the limits that its clusters have shown.

        Without limits if another rule decides about replicas without a node.
        """
        if not _limited(info):
            return replace(info, limits={}) if info.limits else info
        now = now.replace(microsecond=0)  # the resolution of the status
        # Replicas count as having no node only after the patience: a cluster that scales itself
        # needs a while.
        due = {
            cluster: each
            for cluster, each in (info.shown.items() if _learns(info) else ())
            if (at := each.believed(self._patience)) is None or at <= now
        }
        limits = learn(
            info.limits,
            present={cluster: each.asked for cluster, each in due.items()},
            unschedulable={cluster: each.asked - each.runs for cluster, each in due.items()},
            now=now,
        )
        return info if limits == info.limits else replace(info, limits=limits)

    def next_look(self, info: WorkloadInfo, now: datetime) -> float | None:
        """Return the seconds until `settled` may change without a report; None for never."""
        if not _limited(info):
            return None
        shown = info.shown.values() if _learns(info) else ()
        waits = [each.believed(self._patience) for each in shown]
        moments = [next_expiry(info.limits), *(at for at in waits if at is not None and at > now)]
        known = [(at - now).total_seconds() for at in moments if at is not None]
        return max(min(known), 1.0) if known else None

    def divides(self, info: WorkloadInfo, _state: CycleState) -> bool:
        return info.distribution == "Divided" and not info.everywhere

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        """Add static weights with their bounds, packing, and learnt limits to the problem."""
        limits = np.minimum(problem.learnt, as_bounds(info.limits, field.snapshot.row))
        problem = replace(problem, learnt=limits)
        if not self.divides(info, field.state):
            return problem
        if info.weights:
            problem = replace(_static(info, field, problem), inside=WithinDomain.WEIGHT)
        if info.packing == Packing.FEWEST.value:
            weight = np.where(_takes(field, problem), problem.weight, 0)
            subsets = problem.subsets and replace(problem.subsets, keeps=WithinDomain.FEWEST)
            problem = replace(problem, weight=weight, inside=WithinDomain.FEWEST, subsets=subsets)
        return problem

    def shortfall(
        self, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        """Name clusters without weight, and those with room at a rule's or a learnt bound."""
        rules = _Rules.of(info, field.snapshot) if self._has_rules(info) else None
        return (
            *(self._unweighted(rules.meant, field, plan) if rules else ()),
            *self._at_bounds(rules, info, field, plan),
        )

    def _unweighted(self, ruled: Mask, field: Candidates, plan: Apportionment) -> Iterator[str]:
        without = field.feasible & (plan.asked.weight == 0)
        if not without.any():
            return
        if not (ruled & field.feasible).any():
            yield "no rule of distributionWeights matches a cluster that would do"
        elif (without & ~ruled).any():
            yield f"no rule of distributionWeights matches {clusters(without & ~ruled)}"
        if (without & ruled).any():
            yield f"distributionWeights give weight 0 to {clusters(without & ruled)}"

    def _at_bounds(
        self, rules: _Rules | None, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Iterator[str]:
        spare = field.feasible & (plan.asked.weight > 0) & ~full(field, plan)
        bound = spare & (plan.shares >= rules.upper) if rules else np.zeros_like(spare)
        if bound.any():
            yield f"{clusters(bound, 'is', 'are')} at the maxReplicas of distributionWeights"
        learnt = spare & ~bound & (plan.shares >= as_bounds(info.limits, field.snapshot.row))
        if learnt.any():
            yield f"{clusters(learnt, 'was', 'were')} seen to run no more, though with room"

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        info, stops = shortage.workload, []
        ruled = self._has_rules(info)
        if ruled:
            text = "at the upper bound of spec.distributionWeights"
            stops.append(Stop(NoteKind.BOUND, self._at_upper(shortage), text))
        text = "seen to run what it has and no more (status.limits)"
        stops.append(Stop(NoteKind.BOUND, shortage.made_by(RuleKind.LEARNT), text))
        if ruled:
            outside = ~_Rules.of(info, shortage.snapshot).meant
            stops.append(Stop(NoteKind.BOUND, outside, "no rule of spec.distributionWeights"))
        return stops

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        if not self._has_rules(shortage.workload):
            return ()
        found = []
        if stuck := shortage.names(self._at_upper(shortage)):
            text = f"a greater maxReplicas in spec.distributionWeights for {either(stuck)}"
            found.append(Note(NoteKind.BOUND, len(stuck), "maxReplicas", text))
        outside = ~_Rules.of(shortage.workload, shortage.snapshot).meant
        if unruled := shortage.names(shortage.feasible & outside):
            text = f"a rule in spec.distributionWeights that matches {either(unruled)}"
            found.append(Note(NoteKind.BOUND, len(unruled), "distributionWeights", text))
        return found

    def _has_rules(self, info: WorkloadInfo) -> bool:
        return info.distribution == "Divided" and bool(info.weights)

    def _at_upper(self, shortage: Shortage) -> Mask:
        upper = _Rules.of(shortage.workload, shortage.snapshot).upper
        mask: Mask = shortage.made_by(RuleKind.UPPER) & (shortage.held >= upper)
        return mask


def _learns(info: WorkloadInfo) -> bool:
    return not info.divided and info.learns


def _limited(info: WorkloadInfo) -> bool:
    failover = info.moving.spec.unhealthy_seconds is not None
    return _learns(info) or (failover and bool(info.limits))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The static weights and bounds as columns; `meant` are the clusters that a rule matches."""

    weight: Ints
    lower: Ints
    upper: Ints
    meant: Mask

    @staticmethod
    def of(info: WorkloadInfo, snapshot: Snapshot) -> _Rules:
        """Read the rules; the first one that matches a cluster counts there."""
        weight, lower = np.zeros((2, len(snapshot)), dtype=np.int64)
        upper = np.full(len(snapshot), UNBOUNDED, dtype=np.int64)
        free = np.ones(len(snapshot), dtype=np.bool_)
        for rule in info.weights:
            mask = snapshot.labelled(label_selector(rule.cluster_selector)) & free
            free &= ~mask
            weight[mask] = rule.weight
            lower[mask] = rule.min_replicas or 0
            if rule.max_replicas is not None:
                upper[mask] = rule.max_replicas
        return _Rules(weight, lower, upper, ~free)


def _static(info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
    """The first matching rule counts; without one a cluster takes none."""
    rules = _Rules.of(info, field.snapshot)
    weight, lower, upper = rules.weight, rules.lower, rules.upper
    able, subsets = field.able, problem.subsets
    if subsets is not None:
        # Replicas may wait for room on clusters with weight, and leave by weight as they came.
        able = able | subsets.crowded
        crowded = subsets.crowded & (weight > 0)
        subsets = replace(subsets, crowded=crowded, keeps=WithinDomain.WEIGHT, weight=weight)
    weight = np.where(able, weight, 0)
    return replace(
        problem,
        weight=weight,
        ruled=True,
        subsets=subsets,
        room=np.where(weight > 0, problem.room, problem.present),
        lower=np.maximum(problem.lower, lower),
        upper=np.minimum(problem.upper, upper),
    )


def _takes(field: Candidates, problem: Problem) -> Mask:
    return field.able if problem.subsets is None else field.able | problem.subsets.crowded


def _is_weighted(info: WorkloadInfo, _old: MemberCluster, _new: MemberCluster | None) -> bool:
    return bool(info.weights)


class SpreadConstraints:
    name = "SpreadConstraints"

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS | Action.DELETED),)

    def divides(self, _info: WorkloadInfo, _state: CycleState) -> bool:
        """Return False: the constraints bound the divisions of other plugins."""
        return False

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        if not info.spread:
            return problem
        return replace(problem, counts=(*problem.counts, *counts(info, field.snapshot)))

    def shortfall(
        self, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        if not info.spread or plan.choice is None or plan.choice.lacks:
            return ()
        asked = plan.asked
        spare = field.feasible & (asked.weight > 0) & ~full(field, plan)
        bound = plan.shares >= np.minimum(asked.upper, asked.learnt)
        out = spare & ~bound & ~plan.choice.open
        return (f"spreadConstraints leave out {clusters(out)} with room",) if out.any() else ()

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        text = "left out by spec.spreadConstraints"
        return (
            (Stop(NoteKind.BOUND, _left_out(shortage), text),) if shortage.workload.spread else ()
        )

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        out = _left_out(shortage) & shortage.feasible & (shortage.held == 0)
        if not shortage.workload.spread or not out.any():
            return ()
        left = either(shortage.names(out))
        text = f"other bounds in spec.spreadConstraints, which leave out {left}"
        number = int(out.sum())
        return (Note(NoteKind.BOUND, number, "spreadConstraints", f"{text}{shortage.space(out)}"),)


def _left_out(shortage: Shortage) -> Mask:
    mask, plan = ~shortage.tight, shortage.state.plan
    if plan is not None:
        mask &= plan.asked.weight > 0
        if plan.choice is not None:
            mask &= ~plan.choice.open
    left: Mask = mask
    return left


def counts(info: WorkloadInfo, snapshot: Snapshot) -> tuple[DomainCount, ...]:
    return tuple(
        DomainCount(
            each.topology_key,
            _domains(snapshot, each.topology_key),
            each.min_domains or 1,
            each.max_domains,
        )
        for each in info.spread
    )


def _domains(snapshot: Snapshot, key: str) -> Ints:
    if key == LABEL_CLUSTER:
        return np.arange(1, len(snapshot) + 1, dtype=np.int64)
    return snapshot.domains_by(key).codes.astype(np.int64)
