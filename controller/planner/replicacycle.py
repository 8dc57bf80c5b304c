"""In which order domains take replicas: one scheduling cycle for each replica, in closed form.

A listed domain below its number goes first: under Balance that with the highest
`100*(desired-count)//desired`, under Fill that with the highest `100*count//desired`, equals in the
order of the list. Beyond that only a Preferred policy goes on: to the listed domain with the lowest
count/desired, then to the clusters outside all listed domains.

Under Balance the scores of a domain only ever fall, so all domains' replicas merge by a threshold
on the 101 scores. Under Fill a chosen domain stays the best until it is full. Beyond the numbers,
count/desired is a divisor method (`controller.planner.webster`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np

from controller.planner.webster import (
    ADAMS,
    MAX_REPLICAS,
    Ints,
    Mask,
    first_come,
    sums,
    until_full,
)

OUTSIDE = -1
"""The domain of a cluster that is in no listed one."""
_BEST = 100
TURNS = 64
"""The number of replicas whose order is listed."""

_Rule: TypeAlias = Callable[[int, Ints, Ints, Ints], Ints]


class Method(Enum):
    """Which domain below its number takes the next replica."""

    FILL = "Fill"
    BALANCE = "Balance"


@dataclass(frozen=True, slots=True)
class DomainQuota:
    """The numbers and counts of a policy. Arrays have one entry a domain, in the list's order.

    Args:
        desired: the domains' numbers.
        count: replicas of all counted Workloads, the one that is decided included.
        method: Fill or Balance.
        required: nothing goes beyond the numbers, nor to clusters outside.
        ordered: domains are ranked by the policy; otherwise only clusters are, by their score.
    """

    desired: Ints
    count: Ints
    method: Method
    required: bool
    ordered: bool = True

    @property
    def gap(self) -> Ints:
        """Return the replicas that each listed domain lacks, and 0 for the clusters outside."""
        return np.append(np.maximum(self.desired - self.count, 0), 0)


@dataclass(frozen=True, slots=True)
class DomainOrder:
    """The domains of a problem, and the order in which they take its replicas.

    Args:
        names: the listed domains.
        domain: shape (n,), an index into them, or OUTSIDE.
        quota: their numbers, and their counts while the Workload has its present replicas.
        held: shape (n,), replicas of all counted Workloads on each cluster; they break ties.
        uncounted: shape (n,), where the Workload's present replicas are not counted; they leave
            first, and no domain's count falls for it.
    """

    names: Sequence[str]
    domain: Ints
    quota: DomainQuota
    held: Ints
    uncounted: Mask

    @property
    def place(self) -> Ints:
        """Return the domain of each cluster, shape (n,); those outside come last."""
        return np.where(self.domain == OUTSIDE, len(self.names), self.domain)

    @property
    def leaving(self) -> Ints:
        """Return `place` for replicas that leave, shape (n,)."""
        return np.where(self.uncounted, len(self.names), self.place)

    def after(self, change: Ints) -> DomainOrder:
        """Return the order once each cluster holds `change` more replicas of the Workload."""
        counted = np.where(self.uncounted, np.maximum(change, 0), change)
        count = np.maximum(self.quota.count + self.by_domain(counted)[:-1], 0)
        return replace(self, held=self.held + change, quota=replace(self.quota, count=count))

    def by_domain(self, values: Ints) -> Ints:
        """Return the sums by listed domain, and last that of the clusters outside."""
        return sums(self.place, values, len(self.names) + 1)


def growth(quota: DomainQuota, room: Ints, replicas: int) -> Ints:
    """Return the replicas that each listed domain takes, and last the clusters outside.

    `room`, shape (domains + 1,), has the replicas that the clusters of each can take, those outside
    last.
    """
    below = np.minimum(np.maximum(quota.desired - quota.count, 0), room[:-1])
    if quota.method is Method.FILL:
        taken = first_come(below, replicas, _in_sequence(quota.desired, quota.count))
    else:
        wanted = min(replicas, int(below.sum()))
        taken = _in_balance(wanted, quota.desired, quota.count, below)
    outside, left = 0, replicas - int(taken.sum())
    if not quota.required and left:
        rest = room[:-1] - taken
        reached = quota.count + taken >= quota.desired
        rest = np.where(reached, rest, 0)
        more = _beyond(min(left, int(rest.sum())), quota.desired, quota.count + taken, rest)
        taken = taken + more
        outside = min(left - int(more.sum()), int(room[-1]))
    return np.append(taken, outside)


def decline(quota: DomainQuota, own: Ints, replicas: int) -> Ints:
    """Return the replicas that each listed domain gives back, and last the clusters outside.

    `own` has the same shape: the replicas that each can give back.
    """
    outside = min(replicas, int(own[-1]))
    left = replicas - outside
    over = np.minimum(np.maximum(quota.count - quota.desired, 0), own[:-1])
    first = _kept_last(_beyond, min(left, int(over.sum())), quota.desired, quota.count, over)
    left -= int(first.sum())
    count, own_left = quota.count - first, np.minimum(own[:-1] - first, quota.count - first)
    if quota.method is Method.FILL:
        second = first_come(own_left, left, _in_sequence(quota.desired, count)[::-1])
    else:
        wanted = min(left, int(own_left.sum()))
        second = _kept_last(_in_balance, wanted, quota.desired, count, own_left)
    return np.append(first + second, outside)


def scores(quota: DomainQuota) -> Ints:
    """Return the score of each domain's next replica, 0..100; 0 once it has reached its number."""
    some = np.maximum(quota.desired, 1)
    count = quota.count if quota.method is Method.FILL else quota.desired - quota.count
    value: Ints = np.clip(_BEST * count // some, 0, _BEST)
    return value * (quota.count < quota.desired)


def assignment_order(
    quota: DomainQuota, room: Ints, replicas: int, *, most: int = TURNS
) -> list[int]:
    """Return the domains, or OUTSIDE, that take the first `most` replicas, one after the other."""
    order: list[int] = []
    before = np.zeros(len(quota.desired) + 1, dtype=np.int64)
    for number in range(1, min(replicas, most) + 1):
        after = growth(quota, room, number)
        found = np.flatnonzero(after > before)
        if not len(found):
            break
        order.append(int(found[0]) if found[0] < len(quota.desired) else OUTSIDE)
        before = after
    return order


def _in_balance(replicas: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """Take replicas by falling score, equals by the list; a domain takes whole levels."""
    levels = np.arange(_BEST + 1, -2, -1, dtype=np.int64)[:, None]
    last = desired - -(-levels * desired // _BEST)
    # Replicas whose score is at least the level's; below level 0 no replica is left out.
    reach = np.where(levels < 0, most, np.clip(last - count + 1, 0, most))
    level = int(np.argmax(reach.sum(axis=1) >= replicas))
    if level == 0:
        return np.zeros_like(most)
    sure: Ints = reach[level - 1]
    return sure + first_come(reach[level] - sure, replicas - int(sure.sum()))


def _in_sequence(desired: Ints, count: Ints) -> Ints:
    """Return the domains in the order of Fill: the fullest first, equals by the list."""
    ratio = np.where(count >= desired, _BEST, _BEST * count // np.maximum(desired, 1))
    return np.argsort(-ratio, kind="stable")


def _beyond(replicas: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """Take replicas by rising count/desired, equals by the list; number 0 comes last."""
    known, one = desired > 0, np.zeros_like(most)
    if replicas <= 0:
        return one
    start = np.where(known, np.minimum(count, MAX_REPLICAS), 0)
    top = start + np.where(known, np.minimum(most, replicas), 0)
    cap = np.array([int(start.sum()) + replicas])
    taken = until_full(desired, start, top, np.arange(len(most)), one, cap, rule=ADAMS) - start
    return taken + first_come(np.where(known, 0, most), replicas - int(taken.sum()))


def _kept_last(rule: _Rule, replicas: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """Return which of the last `most` replicas of each domain the rule would have given last."""
    if replicas <= 0:
        return np.zeros_like(most)
    keep = rule(int(most.sum()) - replicas, desired, count - most, most)
    given: Ints = most - keep
    return given
