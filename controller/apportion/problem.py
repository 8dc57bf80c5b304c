"""What the planner is asked: a total, what binds it, and how the last units were handed out.

Kept apart from the planner so that the account of a plan can read the same values without calling
the planner again. Columns of integers, one entry a cluster; nothing here computes more than a
minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from controller.apportion.divisor import MAX_UNITS, Ints

UNBOUNDED = MAX_UNITS


class BoundKind(Enum):
    """What a bound on a group of clusters stands for."""

    DOMAIN_QUOTA = "domain quota"
    SUBSET_CAP = "subset cap"


@dataclass(frozen=True, slots=True)
class GroupBound:
    """Disjoint groups of clusters with an upper and a lower bound each.

    Args:
        kind: what the bound is, for the reasons.
        names: one for each group (a domain's value, a subset's name).
        group: shape (n,), an index into the others for each cluster.
        upper: shape (groups,), units.
        lower: shape (groups,), units.
    """

    kind: BoundKind
    names: Sequence[str]
    group: Ints
    upper: Ints
    lower: Ints


@dataclass(frozen=True, slots=True)
class Problem:
    """A total and what binds it. All arrays have one entry a cluster, in units.

    Args:
        total: units wanted.
        weight: relative; 0 takes no unit beyond its lower bound.
        lower: units to be served first.
        upper: the rule's most.
        room: units of this Workload that the cluster can hold in all, its present ones included.
        learnt: units that the cluster was seen to hold when it had more; UNBOUNDED where unknown.
            Present units above it do not run, and are free to go elsewhere.
        present: units placed now.
        order: distinct; of equal priorities the lowest goes first.
        groups: bounds on groups, outermost first, each nested in the one before.
    """

    total: int
    weight: Ints
    lower: Ints
    upper: Ints
    room: Ints
    learnt: Ints
    present: Ints
    order: Ints
    groups: tuple[GroupBound, ...] = ()

    def cap(self) -> Ints:
        """Shape (n,): the least of the three bounds on a single cluster."""
        return np.minimum(np.minimum(self.upper, self.room), self.learnt)

    def settled(self) -> Ints:
        """Shape (n,): the present units that run, as far as is known."""
        return np.minimum(self.present, self.learnt)


@dataclass(frozen=True, slots=True)
class LastStep:
    """The step in which the last units were handed out by weight; what the account starts from.

    Args:
        weight: shape (n,), the weights of this step.
        base: shape (n,), what each cluster held before it: kept, and served to lower bounds.
        top: shape (n,), what each could hold at most.
        bounded: whether bounds on groups held; they do not for what stands over them already.
    """

    weight: Ints
    base: Ints
    top: Ints
    bounded: bool
