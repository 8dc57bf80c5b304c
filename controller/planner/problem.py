"""The problem that the planner solves: a total, its bounds, the step that gave the last replicas.

`Problem.check` refuses invalid problems, which the planner's divisions would answer with nonsense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import numpy as np

from controller.planner.indomain import WithinDomain
from controller.planner.replicacycle import DomainOrder
from controller.planner.subsets import Subsets
from controller.planner.webster import MAX_REPLICAS, MAX_WEIGHT, Ints

UNBOUNDED = MAX_REPLICAS


class BoundKind(Enum):
    DOMAIN_QUOTA = "domain quota"
    SUBSET_CAP = "subset cap"


@dataclass(frozen=True, slots=True)
class GroupBound:
    """Disjoint groups of clusters with an upper and a lower bound each.

    Args:
        kind: the meaning of the bound, for the reasons.
        names: one for each group (a domain's value, a subset's name).
        group: shape (n,), an index into the others for each cluster.
        upper: shape (groups,), replicas.
        lower: shape (groups,), replicas.
        number: shape (groups,), the upper bound to show to users, where that counts the replicas of
            other Workloads too; None where it is `upper`.
    """

    kind: BoundKind
    names: Sequence[str]
    group: Ints
    upper: Ints
    lower: Ints
    number: Ints | None = None

    def told(self, group: int) -> int:
        return int((self.upper if self.number is None else self.number)[group])


@dataclass(frozen=True, slots=True)
class DomainCount:
    """How many domains of a topology the replicas may use.

    Args:
        key: the topology, for the reasons.
        domain: shape (n,), a number from 1 on, 0 for a cluster without a domain.
        least: domains that must be used, at least 1.
        most: domains that may be used; None for no upper bound.
    """

    key: str
    domain: Ints
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A total and its bounds. All arrays have one entry a cluster, in replicas.

    Args:
        total: replicas wanted.
        weight: relative; a cluster of weight 0 takes no replica beyond its lower bound.
        lower: replicas to be served first.
        upper: the most replicas that the rule allows.
        room: replicas of this Workload that the cluster can hold in all, its present ones included.
        learnt: replicas that the cluster was seen to hold when it had more; UNBOUNDED where
            unknown. Present replicas above it do not run, and are free to go elsewhere.
        present: replicas placed now.
        order: distinct; of equal priorities the lowest goes first.
        groups: bounds on groups, outermost first, each nested in the one before.
        inside: the rule between the clusters of a domain; of all clusters, where there is no order.
        domains: the order in which domains take replicas, and their quotas; may cross `groups`.
        counts: how many domains of other topologies are used, in the order of their precedence.
        subsets: are filled one after the other; clusters outside all of them take no new replica.
        score: the greater the better; None where all suit alike.
        names: of the clusters, for the reasons.
        ruled: whether rules give the weights, so that these choose the domains before the scores.
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
    inside: WithinDomain = WithinDomain.WEIGHT
    domains: DomainOrder | None = None
    counts: tuple[DomainCount, ...] = ()
    subsets: Subsets | None = None
    score: Ints | None = None
    names: Sequence[str] = ()
    ruled: bool = False

    def check(self) -> None:
        """Refuse an invalid problem.

        Raises:
            ValueError: names the field and the value.
        """
        if not 0 <= self.total <= MAX_REPLICAS:
            raise ValueError(f"total: 0 to {MAX_REPLICAS} replicas, found {self.total}")
        size = len(self.weight)
        _check_columns({name: getattr(self, name) for name in _COLUMNS}, size)
        for name, most in (("weight", MAX_WEIGHT), ("present", MAX_REPLICAS)):
            _check_most(name, getattr(self, name), most)
        _check_order(self.order, size)
        before: GroupBound | None = None
        for depth, bound in enumerate(self.groups):
            _check_group(f"groups[{depth}]", bound, before, size)
            before = bound
        if self.subsets is not None:
            self.subsets.check(size)

    def cap(self) -> Ints:
        """Return the least of the three bounds on each single cluster, shape (n,)."""
        return np.minimum(np.minimum(self.upper, self.room), self.learnt)

    def without_room(self) -> Ints:
        """Return the bounds for replicas that may wait for room, shape (n,)."""
        return np.minimum(self.upper, self.learnt)

    def settled(self) -> Ints:
        """Return the present replicas that run, as far as is known, shape (n,)."""
        return np.minimum(self.present, self.learnt)

    def scored(self) -> Ints:
        return np.zeros_like(self.weight) if self.score is None else self.score

    def nests(self) -> bool:
        """Whether each group lies in one group of the bound before it, quotas aside."""
        inner = zip(self.groups, self.groups[1:], strict=False)
        return all(_apart(bound, before) is None for before, bound in inner)

    def caps(self) -> tuple[GroupBound, ...]:
        """Return all bounds on groups: those given, and the quotas of a Required order."""
        if self.domains is None or not self.domains.quota.required:
            return self.groups
        return (*self.groups, quotas(self.domains, self.present))


def quotas(order: DomainOrder, present: Ints) -> GroupBound:
    """Return the quotas of an order as a bound on this Workload's replicas: present ones and gap.

    The clusters outside all domains are the last group, which takes no new replicas.
    """
    own = order.by_domain(present)
    upper = own + order.quota.gap
    names = (*order.names, "")
    number = np.append(order.quota.desired, 0)
    none = np.zeros_like(upper)
    return GroupBound(BoundKind.DOMAIN_QUOTA, names, order.place, upper, none, number)


_COLUMNS = ("weight", "lower", "upper", "room", "learnt", "present")


def _check_columns(columns: Mapping[str, Ints], size: int) -> None:
    for name, values in columns.items():
        if values.shape != (size,):
            raise ValueError(f"{name}: one entry for each of {size}, found {len(values)}")
    # The sign is a bit: the OR of all columns tells whether any value is negative.
    if not size or int(reduce(np.bitwise_or, columns.values()).min()) >= 0:
        return
    for name, values in columns.items():
        if int(values.min()) < 0:
            at = int(values.argmin())
            raise ValueError(f"{name}[{at}]: not below 0, found {int(values[at])}")


def _check_most(name: str, values: Ints, most: int) -> None:
    if len(values) and int(values.max()) > most:
        at = int(values.argmax())
        raise ValueError(f"{name}[{at}]: at most {most}, found {int(values[at])}")


def _check_order(order: Ints, size: int) -> None:
    if order.shape != (size,):
        raise ValueError(f"order: one entry for each of {size}, found {len(order)}")
    if not size:
        return
    least = int(order.min())
    if int(order.max()) - least < 2 * size and int(np.bincount(order - least).max()) == 1:
        return
    places, counts = np.unique(order, return_counts=True)
    if int(counts.max()) > 1:
        twice = int(places[counts.argmax()])
        first, second = np.flatnonzero(order == twice)[:2].tolist()
        raise ValueError(f"order[{second}]: {twice} stands at order[{first}] already")


def _check_group(where: str, bound: GroupBound, before: GroupBound | None, size: int) -> None:
    groups = len(bound.names)
    _check_columns({f"{where}.group": bound.group}, size)
    _check_most(f"{where}.group", bound.group, groups - 1)
    _check_columns({f"{where}.upper": bound.upper, f"{where}.lower": bound.lower}, groups)
    if before is None:
        return
    apart = _apart(bound, before)
    if apart is not None:
        one, other = sorted(before.names[each] for each in apart[1:])
        name = bound.names[apart[0]]
        raise ValueError(f"{where}: {name} does not nest, it lies in {one} and in {other}")


def _apart(bound: GroupBound, before: GroupBound) -> tuple[int, int, int] | None:
    """Return a group and two of the outer groups that it lies in; None where all of them nest."""
    lies_in = np.zeros(len(bound.names), dtype=np.int64)
    lies_in[bound.group] = before.group
    apart = np.flatnonzero(lies_in[bound.group] != before.group)
    if not len(apart):
        return None
    group = int(bound.group[apart[0]])
    return group, int(lies_in[group]), int(before.group[apart[0]])


@dataclass(frozen=True, slots=True)
class LastStep:
    """The step in which weights gave out the last replicas; the account of a plan starts from it.

    Args:
        weight: shape (n,), the weights of this step.
        base: shape (n,), the replicas of each cluster before it: kept, and served to lower bounds.
        top: shape (n,), the most replicas that each could hold.
        bounded: whether bounds on groups held; they do not for replicas that stand over them
            already.
    """

    weight: Ints
    base: Ints
    top: Ints
    bounded: bool
