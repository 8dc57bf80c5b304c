"""From candidates to shares.

If a plugin divides the replicas, one planner solves the problem that all plugins with bounds make.
Otherwise the first plugin that serves the distribution assigns alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from controller.framework.calling import answers
from controller.framework.calling.guard import ask
from controller.framework.events import THE_PLAN
from controller.framework.explains import Explainer, clusters, full, method_of
from controller.framework.interface import Assignment, Bounds, Candidates
from controller.framework.profile import Profile
from controller.framework.room import lacking_for_more, limit_of, no_room_for_more, within
from controller.model.unit import WorkloadInfo
from controller.planner.plan import UNBOUNDED, Apportionment, Problem, apportion
from controller.planner.reasons import Obstacle, Reason, RuleKind
from controller.planner.replicacycle import OUTSIDE
from controller.planner.webster import MAX_WEIGHT, Ints
from controller.snapshot.columns import Mask
from crds.workload import ScheduledReason


def assigned(profile: Profile, info: WorkloadInfo, field: Candidates) -> Assignment | None:
    """Return the shares; None if no plugin serves the distribution."""
    if field.fixed and info.whole:
        found: Assignment | None = _held_whole(info, field)
    else:
        found = _where_it_was(profile, info, field) or _assigned(profile, info, field)
    if found is not None:
        found = _with_fixed(field, _with_empty(info, field, found))
    most = limit_of(field.state)
    if found is None or most is None or most.units >= found.desired:
        return found
    return replace(found, short=most.reason, shared_by=(*found.shared_by, most.plugin))


def _held_whole(info: WorkloadInfo, field: Candidates) -> Assignment:
    """What is no more than one may not be in two places."""
    rows = np.flatnonzero(field.keeps & (field.present > 0))
    shares = {int(row): int(field.present[row]) for row in rows}
    kept = {row: (Reason(RuleKind.KEPT, n),) for row, n in shares.items()}
    names = ", ".join(field.snapshot.names[row] for row in field.fixed)
    note = f"all of it stays on {names}, as spec.suspend holds it there"
    desired = max(info.replicas, sum(shares.values()))
    return Assignment(shares, desired, lambda row: kept.get(row, ()), notes=(note,))


def _with_fixed(field: Candidates, found: Assignment) -> Assignment:
    fixed = {row: int(field.present[row]) for row in field.fixed}
    if all(found.shares.get(row) == n for row, n in fixed.items()):
        return found

    def why(row: int) -> tuple[Reason, ...]:
        return (Reason(RuleKind.KEPT, fixed[row]),) if row in fixed else tuple(found.why(row))

    shares = {**found.shares, **fixed}
    return replace(found, shares=shares, desired=max(found.desired, sum(shares.values())), why=why)


def _where_it_was(profile: Profile, info: WorkloadInfo, field: Candidates) -> Assignment | None:
    """Return shares on the current clusters if some are empty and all fit."""
    if info.everywhere or not (field.keeps & field.held & (field.present == 0)).any():
        return None
    here = field.feasible & field.held
    line = field.ranking[here[field.ranking]]
    found = _assigned(
        profile,
        info,
        replace(field, feasible=here, ranking=line, reached=field.reached & field.held),
    )
    if found is None:
        return None
    wanted = within(field.state, found.desired) - field.staying
    return found if sum(found.shares.values()) >= wanted else None


def _with_empty(info: WorkloadInfo, field: Candidates, found: Assignment) -> Assignment:
    if info.replicas and not info.claims:
        return found
    empty = [int(row) for row in np.flatnonzero(field.keeps & field.held)]
    shares = {**found.shares, **{row: 0 for row in empty if row not in found.shares}}
    return replace(found, shares=shares) if len(shares) > len(found.shares) else found


def _assigned(profile: Profile, info: WorkloadInfo, field: Candidates) -> Assignment | None:
    for plugin in profile.bounds:
        if ask(plugin, "Assign", answers.a_bool, plugin.divides, info, field.state):
            return divided(profile.bounds, info, field)
    for assigner in profile.assigners:
        if ask(assigner, "Assign", answers.a_bool, assigner.serves, info):
            usable = partial(answers.an_assignment, field)
            found = ask(assigner, "Assign", usable, assigner.assign, info, field)
            return replace(found, shared_by=(assigner.name,))
    return None


def divided(bounds: Sequence[Bounds], info: WorkloadInfo, field: Candidates) -> Assignment:
    problem = asked(info, field)
    said = [THE_PLAN]
    made: list[tuple[Bounds, Problem]] = []
    for plugin in bounds:
        before = problem
        usable = partial(answers.a_problem, before)
        problem = ask(plugin, "Assign", usable, plugin.bound, info, field, before)
        if problem is not before:
            said.append(plugin.name)
            made.append((plugin, problem))
    plan = _solved(_fixing(problem, field), made)
    field.state.plan = plan
    given = {int(row): int(plan.shares[row]) for row in _in_order(plan, field)}
    short = Shortfall(info, field, plan, bounds)
    return Assignment(
        given,
        info.replicas,
        lambda row: _why(plan, row) if row in given else (),
        in_order=problem.domains is not None,
        notes=short.notes(),
        assignment_order=lambda: _assignment_order(plan),
        binding=lambda: _binding(plan),
        choosing=plan.choosing,
        short=short.reason(),
        shared_by=tuple(said),
    )


def _fixing(problem: Problem, field: Candidates) -> Problem:
    if not field.fixed:
        return problem
    fixed = list(field.fixed)
    bounds = {name: getattr(problem, name).copy() for name in ("lower", "upper", "room", "learnt")}
    for column in bounds.values():
        column[fixed] = problem.present[fixed]
    total = max(problem.total, int(problem.present[fixed].sum()))
    return replace(problem, total=total, **bounds)


def _solved(problem: Problem, made: Sequence[tuple[Bounds, Problem]]) -> Apportionment:
    """Raises PluginError of the first plugin that made the problem unsolvable."""
    try:
        return apportion(problem)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        for plugin, each in made:
            ask(plugin, "Assign", answers.anything, each.check)
        raise


def asked(info: WorkloadInfo, field: Candidates) -> Problem:
    """Return the problem before any plugin bounds it, weighted by free room."""
    size = len(field.snapshot)
    present = np.where(field.keeps, field.present, 0)
    room = np.where(field.able, np.minimum(field.room, UNBOUNDED), present)
    lower = np.zeros(size, dtype=np.int64)
    total = max(within(field.state, info.replicas) - field.staying, 0)
    if (work := info.shared_work) is not None and work.total is not None and total:
        # The part of a share is fixed, so no share grows, and none ends before its part is done.
        taken = _leaving(info, field)
        room = np.where((present > 0) | taken, np.minimum(room, present), room)
        lower = np.minimum(present, 1)
        total = max(total, int(lower.sum()))
    order = np.empty(size, dtype=np.int64)
    order[field.line] = np.arange(size)
    unbounded = np.full(size, UNBOUNDED, dtype=np.int64)
    return Problem(
        total=total,
        weight=np.where(field.able, np.minimum(room, MAX_WEIGHT), 0),
        lower=lower,
        upper=unbounded,
        room=room,
        learnt=unbounded,
        present=present,
        order=order,
        score=field.scores,
        names=field.snapshot.names,
    )


def _leaving(info: WorkloadInfo, field: Candidates) -> Mask:
    mask: Mask = np.zeros(len(field.snapshot), dtype=np.bool_)
    mask[field.snapshot.rows(info.moving.leaving)] = True
    return mask


def _why(plan: Apportionment, row: int) -> tuple[Reason, ...]:
    pairs = (each.reason for each in plan.contradictions if each.row == row)
    return (*plan.reasons(row), *pairs)


def _binding(plan: Apportionment) -> tuple[Obstacle, ...]:
    """Include contradictory bounds even if no replicas are pending."""
    return (*plan.binding, *(Obstacle(each.reason, 0) for each in plan.contradictions))


def _in_order(plan: Apportionment, field: Candidates) -> Ints:
    rows = np.flatnonzero(plan.shares)
    order = plan.asked.domains
    if order is None:
        return rows
    sorted_: Ints = rows[np.lexsort((field.snapshot.by_name[rows], order.place[rows]))]
    return sorted_


def _assignment_order(plan: Apportionment) -> list[str]:
    order = plan.asked.domains
    names = () if order is None else order.names
    return ["-" if turn == OUTSIDE else names[turn] for turn in plan.assignment_order()]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The condition's reason and notes for replicas that a plan leaves out."""

    info: WorkloadInfo
    field: Candidates
    plan: Apportionment
    bounds: Sequence[Bounds] = ()

    @property
    def asked(self) -> Problem:
        return self.plan.asked

    @property
    def shares(self) -> Ints:
        return self.plan.shares

    @property
    def lacks(self) -> tuple[str, ...]:
        return () if self.plan.choice is None else self.plan.choice.lacks

    def reason(self) -> ScheduledReason:
        """Return ReplicasReached if quotas or caps keep replicas out.

        FailedToSchedule if no cluster may take any, else InsufficientCapacity.
        """
        if self.plan.beyond_quotas or self.plan.beyond_caps:
            return ScheduledReason.REPLICAS_REACHED
        without = self.field.feasible.any() and not (self.asked.weight.any() or self.shares.any())
        if self.lacks or without:
            return ScheduledReason.FAILED_TO_SCHEDULE
        return ScheduledReason.INSUFFICIENT_CAPACITY

    def notes(self) -> tuple[str, ...]:
        if self.plan.pending <= 0:
            return ()
        if self._all_have_parts():
            return ("each cluster has its part of the completions",)
        untried = () if self.plan.choice is None else self.plan.choice.untried
        pairs = (str(each) for each in self.plan.contradictions)
        found = [*self.lacks, *self._rules(), *pairs, *untried]
        full = self._full()
        lacks = lacking_for_more(self.info, self.field.snapshot, self.shares)
        for component in np.unique(lacks[full]).tolist():
            if found or component >= 0:
                mask = full & (lacks == component)
                words = no_room_for_more(self.info, component)
                found.append(f"{clusters(mask, 'has', 'have')} {words}")
        return tuple(found)

    def _all_have_parts(self) -> bool:
        work, field = self.info.shared_work, self.field
        if work is None or work.total is None:
            return False
        return bool((field.able <= (field.present > 0)).all())

    def _rules(self) -> Iterator[str]:
        for plugin in self.bounds:
            if shortfall := method_of(plugin, Explainer.shortfall):
                about = (self.info, self.field, self.plan)
                yield from ask(plugin, "Shortfall", answers.texts, shortfall, *about)

    def _full(self) -> Mask:
        return full(self.field, self.plan)
