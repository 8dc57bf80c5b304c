"""How each domain's replicas go to its clusters: by rank, by weight, or on as few as hold them.

Each rule takes the number of replicas of every domain, to take or to give back; a problem without
an order of domains is one domain.

- By rank: the score decides, then how many counted replicas a cluster holds (most under Fill, least
  under Balance), then its place in the order.
- By weight: Webster, see `controller.planner.webster`.
- Packed: clusters in use go before others, the fullest first; then the roomiest. Clusters are left
  as a whole, the emptiest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from controller.planner.replicacycle import DomainOrder, DomainQuota, Method, growth
from controller.planner.webster import ADAMS, Ints, first_come, sums, until_full

_HIGHEST = 2**31


class WithinDomain(Enum):
    WEIGHT = "weight"
    RANK = "rank"
    FEWEST = "fewest"


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters, shape (n,) each.

    Args:
        domain: an index into the quota's arrays, or OUTSIDE.
        room: new replicas that the cluster can take; 0 where it is not feasible.
        present: replicas that the cluster can give back.
        held: replicas of all counted Workloads on the cluster.
        score: the greater the better.
        order: distinct, by name.
    """

    domain: Ints
    room: Ints
    present: Ints
    held: Ints
    score: Ints
    order: Ints

    def place(self, domains: int) -> Ints:
        """Return the domain of each cluster; those outside come after the listed domains."""
        return np.where(self.domain < 0, domains, self.domain)


def grow(quota: DomainQuota, clusters: Clusters, replicas: int) -> Ints:
    """Return the replicas that each takes by rank; fewer in sum if none takes the rest."""
    if not quota.ordered:
        return _unordered(quota, clusters, replicas)
    place, size = clusters.place(len(quota.desired)), len(quota.desired) + 1
    taken = growth(quota, sums(place, clusters.room, size), replicas)
    return taken_by_rank(clusters, place, taken, quota.method)


def taken_by_rank(clusters: Clusters, place: Ints, replicas: Ints, method: Method) -> Ints:
    of = clusters
    tie = -of.held if method is Method.FILL else of.held
    line = np.lexsort((of.order, tie, -of.score, place))
    taken = in_line(line, place, of.room, replicas)
    if method is Method.BALANCE:
        _level(taken, of.held, of.room, place, of.score, of.order)
    return taken


def given_by_rank(clusters: Clusters, place: Ints, replicas: Ints, method: Method) -> Ints:
    """Divide the replicas that each domain gives back over its clusters' present ones."""
    of = clusters
    tie = of.held if method is Method.FILL else -of.held
    line = np.lexsort((-of.order, tie, of.score, place))
    given = in_line(line, place, of.present, replicas)
    if method is Method.BALANCE:
        # To take from those that hold most is to give to those that hold least, mirrored.
        _level(given, -of.held, of.present, place, of.score, -of.order)
    return given


def taken_by_score(start: Ints, top: Ints, score: Ints, order: Ints, replicas: int) -> Ints:
    """Divide by rank without an order of domains: the best clusters take all they can."""
    return first_come(np.maximum(top - start, 0), replicas, np.lexsort((order, -score)))


def taken_packed(
    place: Ints, start: Ints, top: Ints, order: Ints, replicas: Ints, *, lowers: bool
) -> Ints:
    """Return the replicas that each takes, packed; lower bounds open few clusters."""
    open_ = np.maximum(top - start, 0)
    if lowers:
        keys = (order, np.where(start > 0, 0, -open_), start == 0, place)
    else:
        keys = (order, -open_, -start, place)
    return in_line(np.lexsort(keys), place, open_, replicas)


def in_line(line: Ints, place: Ints, wanted: Ints, replicas: Ints) -> Ints:
    """Serve the clusters in line, sorted by place, until the replicas of their place are gone."""
    if len(replicas) == 1:
        return first_come(wanted, int(replicas[0]), line)
    served, asked, at = np.zeros_like(wanted), wanted[line], place[line]
    totals = sums(place, wanted, len(replicas))
    before = np.cumsum(asked) - asked - (np.cumsum(totals) - totals)[at]
    served[line] = np.clip(replicas[at] - before, 0, asked)
    return served


def _level(taken: Ints, held: Ints, most: Ints, place: Ints, score: Ints, order: Ints) -> None:
    """Level in place the clusters of one domain and score that got some of what they could take."""
    if not len(taken):
        return
    group, size = _groups(place, score)
    got, whole = sums(group, taken, size), sums(group, most, size)
    partly = (got > 0) & (got < whole)
    rows = np.flatnonzero(partly[group])
    if not len(rows):
        return
    group = (np.cumsum(partly) - 1)[group[rows]]
    # By Adams' rule equal weights are levels; only differences of levels matter.
    start = np.minimum(held[rows] - held[rows].min() + 1, _HIGHEST)
    cap = sums(group, start, int(partly.sum())) + got[partly]
    about = (np.ones_like(start), start, start + most[rows], order[rows], group, cap)
    taken[rows] = until_full(*about, rule=ADAMS) - start


def _groups(place: Ints, score: Ints) -> tuple[Ints, int]:
    """Number the pairs of domain and score; return the numbers and their count."""
    line = np.lexsort((score, place))
    new = np.ones(len(line), dtype=np.bool_)
    new[1:] = (np.diff(place[line]) != 0) | (np.diff(score[line]) != 0)
    group = np.empty(len(line), dtype=np.int64)
    group[line] = np.cumsum(new) - 1
    return group, int(new.sum())


def _unordered(quota: DomainQuota, clusters: Clusters, replicas: int) -> Ints:
    line = np.lexsort((clusters.order, -clusters.score))
    wanted = clusters.room
    if quota.required:
        place = clusters.place(len(quota.desired))
        by_place = line[np.argsort(place[line], kind="stable")]
        wanted = in_line(by_place, place, wanted, quota.gap)
    return first_come(wanted, replicas, line)


def ranked(order: DomainOrder, score: Ints, names: Ints, amount: Ints) -> Clusters:
    """Return the clusters of an order for the rules by rank; `amount` to take or to give back."""
    return Clusters(order.domain, amount, amount, order.held, score, names)


__all__ = [
    "Clusters",
    "WithinDomain",
    "given_by_rank",
    "grow",
    "in_line",
    "ranked",
    "taken_by_rank",
    "taken_by_score",
    "taken_packed",
]
