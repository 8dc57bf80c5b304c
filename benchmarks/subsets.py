"""One division by ordered subsets, beside the same problem without them.

    uv run python -m benchmarks.subsets

A thousand clusters, and five thousand, in 20 subsets of which all but the last have a cap; ten
replicas a cluster. "rank" lets preferences and scores decide inside a subset, "weights" static
weights with lower and upper bounds, "fewest" packs, "shared" puts each cluster into two subsets,
"overflow" fills subsets to their caps beyond their room, and "policy" has a Required order of 20
domains as well. "growing" and "shrinking" start from three and from five quarters of the wanted
total.

Times are of `apportion` in milliseconds, the least and the median of many runs; the runs with and
without subsets take turns, and the ratio is that of the least ones of one run, which other work on
the machine disturbs the least. "+ why" adds the account in columns, from which the reasons of a row
are read.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np

from benchmarks.shares import bare, bounded, policy, timed
from controller.planner.indomain import WithinDomain
from controller.planner.plan import UNBOUNDED, Apportionment, Problem, apportion
from controller.planner.subsets import Subsets

AIM_MILLISECONDS = {1000: 5.0, 5000: 20.0}
SUBSETS, ROUNDS, TURNS = 20, 10, 10


def subsets(size: int, *, shared: bool = False, overflow: bool = False) -> Subsets:
    """Return subsets with caps of three quarters to one and a half of the mean number of units."""
    dice = np.random.default_rng(size + 3)
    at = dice.integers(0, SUBSETS, size)
    inside = np.arange(SUBSETS)[:, None] == at
    if shared:
        inside |= np.arange(SUBSETS)[:, None] == dice.integers(0, SUBSETS, size)
    mean = 10 * size // SUBSETS
    cap = dice.integers(mean * 3 // 4, mean * 3 // 2, SUBSETS)
    cap[-1] = UNBOUNDED
    return Subsets(
        names=[f"s{number}" for number in range(SUBSETS)],
        inside=inside,
        cap=cap,
        closed=np.zeros(SUBSETS, dtype=np.bool_),
        overflow=np.full(SUBSETS, overflow),
        rank=10 * dice.integers(0, 3, (SUBSETS, size)),
        crowded=dice.random(size) < 0.2,
    )


def by_rank(size: int) -> Problem:
    """Return a problem with room for about 40 units a cluster, and scores."""
    dice = np.random.default_rng(size + 4)
    room, score = dice.integers(0, 80, size), dice.integers(0, 100, size)
    return replace(bare(size), room=room, score=score, inside=WithinDomain.RANK)


def moved(problem: Problem, quarters: int) -> Problem:
    """Return the problem with shares that were planned for so many quarters of the total."""
    before = apportion(replace(problem, total=problem.total * quarters // 4))
    return replace(problem, present=before.shares, domains=before.order)


def with_why(problem: Problem) -> Apportionment:
    plan = apportion(problem)
    plan.account  # noqa: B018 - it is computed when it is asked for
    return plan


def fresh(problem: Problem) -> Problem:
    """Return the problem as a decision makes it: without computed values of its subsets."""
    assert problem.subsets is not None
    return replace(problem, subsets=replace(problem.subsets))


def line(size: int, name: str, problem: Problem) -> None:
    alone = replace(problem, subsets=None)
    if alone.inside is WithinDomain.RANK and alone.domains is None:
        alone = replace(
            alone, inside=WithinDomain.WEIGHT
        )  # rank alone divides nothing without subsets
    least, medians = [], []
    for _ in range(TURNS):
        times = [
            timed(lambda: apportion(fresh(problem)), ROUNDS),
            timed(lambda: apportion(alone), ROUNDS),
            timed(lambda: with_why(fresh(problem)), ROUNDS),
        ]
        least.append([best for best, _ in times])
        medians.append([middle for _, middle in times])
    best = [min(column) for column in zip(*least, strict=True)]
    middle = [statistics.median(column) for column in zip(*medians, strict=True)]
    print(
        f"{size:6} {name:10} {best[0]:8.3f} {middle[0]:8.3f} {best[1]:8.3f} {middle[1]:8.3f} "
        f"{best[0] / best[1]:6.1f}x {best[2]:8.3f} {middle[2]:8.3f}"
    )


def main() -> None:
    print(f"{'':6} {'':10} {'apportion':>17} {'without subsets':>17} {'':>7} {'+ why':>17}")
    heads = "".join(f" {head:>8}" for head in ("least", "median", "least", "median"))
    print(f"{'size':>6} {'':10}{heads} {'ratio':>7} {'least':>8} {'median':>8}")
    for size, aim in AIM_MILLISECONDS.items():
        apart, shared, over = (
            subsets(size),
            subsets(size, shared=True),
            subsets(size, overflow=True),
        )
        rank, weights = by_rank(size), replace(bounded(size), groups=())
        ruled = policy(size)
        assert ruled.domains is not None
        required = replace(ruled.domains, quota=replace(ruled.domains.quota, required=True))
        ruled = replace(ruled, domains=required, subsets=apart)
        for name, problem in (
            ("rank", replace(rank, subsets=apart)),
            ("weights", replace(weights, subsets=apart)),
            ("fewest", replace(weights, inside=WithinDomain.FEWEST, subsets=apart)),
            ("shared", replace(rank, subsets=shared)),
            ("overflow", replace(rank, room=rank.room // 4, subsets=over)),
            ("policy", ruled),
            ("growing", moved(replace(rank, subsets=apart), 3)),
            ("shrinking", moved(replace(rank, subsets=apart), 5)),
        ):
            line(size, name, problem)
        print(f"{size:6} {'aim':10} {aim:8.3f}")


if __name__ == "__main__":
    main()
