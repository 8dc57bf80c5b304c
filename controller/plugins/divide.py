"""Divided: shares by free room, by static weights, or packed on as few clusters as hold them.

What is placed does not move: growing hands out only what is new, shrinking takes from where a plan
is most over its share (`controller.apportion.planner`). spec.spreadConstraints say beforehand which
clusters take part; those that must have a unit get it before the weights count.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from controller import limits
from controller.apportion.divisor import MAX_UNITS, MAX_WEIGHT, Ints, Mask, hand_out
from controller.apportion.packing import packed, packed_why
from controller.apportion.planner import UNBOUNDED, Problem, apportion
from controller.apportion.settle import as_bounds
from controller.framework.points import Assignment, Candidates
from controller.plugins.shortfall import Shortfall
from controller.plugins.spread import Choice, choose
from controller.reasons import Binding, nothing_binds
from controller.unit import Unit
from crds.workload import Packing

PATIENCE_SECONDS = 60
"""How long units may have no node before a cluster counts as full: one that grows by itself needs
a while."""


class Divided:
    """Split by static weights where there are any, otherwise by free room."""

    name = "Divided"

    def __init__(
        self,
        unschedulableSeconds: int = PATIENCE_SECONDS,  # noqa: N803 - as the file spells it
    ) -> None:
        if not isinstance(unschedulableSeconds, int) or unschedulableSeconds < 0:
            raise ValueError("unschedulableSeconds: a whole number of seconds, 0 or more")
        self._patience = timedelta(seconds=unschedulableSeconds)

    def settled(self, unit: Unit, now: datetime) -> Unit:
        """The unit with the limits that its clusters have shown by now."""
        return limits.settled(unit, now, self._patience)

    def next_look(self, unit: Unit, now: datetime) -> float | None:
        """Seconds until `settled` may say something new without a report."""
        return limits.next_look(unit, now, self._patience)

    def serves(self, unit: Unit) -> bool:
        """`distribution: Divided`, for kinds that have replicas."""
        return unit.distribution == "Divided" and not unit.everywhere

    def assign(self, unit: Unit, field: Candidates) -> Assignment:
        """The planner's shares; what no cluster may take stays pending."""
        asked = _problem(unit, field)
        choice = choose(unit, field, np.where(asked.weight > 0, asked.cap(), 0), asked.settled())
        problem = _within(asked, field, choice)
        binding: Binding = nothing_binds
        if unit.packing == Packing.FEWEST.value:
            shares = packed(problem)
            why = packed_why(problem, shares)
        else:
            plan = apportion(problem)
            shares, why, binding = plan.shares, plan.reasons, lambda: plan.binding
        given = {int(row): int(shares[row]) for row in np.flatnonzero(shares)}
        short = Shortfall(unit, field, asked, choice, shares)
        return Assignment(
            given,
            unit.replicas,
            lambda row: why(row) if row in given else (),
            notes=short.notes(),
            binding=binding,
            short=short.reason(),
        )


def undividable(unit: Unit) -> str:
    """Why a Workload cannot be divided by the planner; empty where it can."""
    if unit.replicas <= MAX_UNITS or unit.bound or not Divided().serves(unit):
        return ""
    return (
        f"spec.replicas: {unit.replicas}, but at most {MAX_UNITS} units are Divided; ask for fewer"
    )


def _problem(unit: Unit, field: Candidates) -> Problem:
    """What is asked, before the choice of domains."""
    size = len(field.fleet)
    present = np.where(field.keeps, field.present, 0)
    room = np.where(field.feasible, np.minimum(field.room, UNBOUNDED), present)
    lower = np.zeros(size, dtype=np.int64)
    upper = np.full(size, UNBOUNDED, dtype=np.int64)
    weight = _static(unit, field, lower, upper) if unit.weights else np.minimum(room, MAX_WEIGHT)
    weight = np.where(field.feasible, weight, 0)
    order = np.empty(size, dtype=np.int64)
    order[np.lexsort((field.fleet.by_name, -field.scores))] = np.arange(size)
    learnt = as_bounds(unit.limits, field.fleet.row)
    return Problem(unit.replicas, weight, lower, upper, room, learnt, present, order)


def _within(asked: Problem, field: Candidates, choice: Choice) -> Problem:
    """The same for the chosen domains."""
    weight = np.where(choice.open, asked.weight, 0)
    room = np.where(field.feasible & choice.open, asked.room, asked.present)
    problem = replace(asked, weight=weight, room=room)
    if not choice.first.any():
        return problem
    return replace(problem, lower=_served(problem, choice.first))


def _served(problem: Problem, first: Mask) -> Ints:
    """The lower bounds, with a unit for each of the first before any other bound is served."""
    held, cap = problem.settled(), problem.cap()
    grows = problem.total >= int(held.sum())
    top = np.maximum(cap, held) if grows else np.minimum(cap, held)
    start = np.maximum(held if grows else 0, np.minimum(top, first))
    floor = np.maximum(np.minimum(top, problem.lower), start)
    if int(floor.sum()) <= problem.total:
        return np.maximum(problem.lower, first)
    weight = np.maximum(problem.weight, 1)
    return hand_out(problem.total, weight=weight, start=start, top=floor, order=problem.order)


def _static(unit: Unit, field: Candidates, lower: Ints, upper: Ints) -> Ints:
    """The first rule that matches a cluster gives its weight and bounds; no rule, no units."""
    weight = np.zeros(len(field.fleet), dtype=np.int64)
    free = np.ones(len(field.fleet), dtype=np.bool_)
    for rule in unit.weights:
        mask = field.fleet.selected(rule.cluster_selector) & free
        free &= ~mask
        weight[mask] = rule.weight
        lower[mask] = np.maximum(lower[mask], rule.min_replicas)
        if rule.max_replicas is not None:
            upper[mask] = rule.max_replicas
    lower[free] = 0
    return weight
