"""One division into shares: the planner beside a heap, on 1,000 and 5,000 clusters.

    uv run python -m benchmarks.shares

Ten replicas a cluster. "weights" has nothing but weights. "own bounds" has a lower and an upper
bound, room and a learnt limit on each cluster, "and quotas" besides these a quota on each of 20
zones, "all bounds" caps on three subsets of each zone as well; about a third of them bind.
"growing" and "shrinking" start from three quarters, and from five quarters, of the wanted total.
"policy" is an order of domains with quotas (Balance, Preferred, so that all of its rules are met),
the rank inside; "policy, less" shrinks that plan to its half; "all rules" has quotas that are
Required, weights, own bounds, and at most half of the clusters. 20 domains, then 256.

Times are of `apportion` in milliseconds, least and median of many runs; "+ why" adds the account of
all clusters in columns, from which the reasons of a row are read, and the bounds that bind. The
heap is the obvious way: a unit at a time to the highest priority, bounds looked up at each unit.
The benchmark first checks that both give the same shares.
"""

from __future__ import annotations

import gc
import heapq
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from controller.planner.indomain import WithinDomain
from controller.planner.plan import (
    UNBOUNDED,
    Apportionment,
    BoundKind,
    DomainCount,
    GroupBound,
    Problem,
    apportion,
)
from controller.planner.replicacycle import OUTSIDE, DomainOrder, DomainQuota, Method
from controller.planner.webster import Ints

AIM_MILLISECONDS = {1000: 0.3, 5000: 2.0}
ROUNDS, HEAP_ROUNDS = 200, 3
ZONES, SUBSETS = 20, 3
DOMAINS = {1000: 20, 5000: 256}


def bare(size: int) -> Problem:
    dice = np.random.default_rng(size)
    free = np.full(size, UNBOUNDED, dtype=np.int64)
    none = np.zeros(size, dtype=np.int64)
    weight = dice.integers(1, 100, size)
    return Problem(10 * size, weight, none, free, free, free, none, dice.permutation(size))


def bounded(size: int) -> Problem:
    dice = np.random.default_rng(size + 1)
    zone = dice.integers(0, ZONES, size)
    subset = zone * SUBSETS + dice.integers(0, SUBSETS, size)
    learnt = np.where(dice.random(size) < 0.1, dice.integers(0, 20, size), UNBOUNDED)
    zones = _group(BoundKind.DOMAIN_QUOTA, zone, ZONES, size, dice)
    subsets = _group(BoundKind.SUBSET_CAP, subset, ZONES * SUBSETS, size, dice)
    return replace(
        bare(size),
        lower=dice.integers(0, 3, size),
        upper=dice.integers(5, 60, size),
        room=dice.integers(0, 80, size),
        learnt=learnt,
        groups=(zones, subsets),
    )


def _group(
    kind: BoundKind, group: Ints, groups: int, size: int, dice: np.random.Generator
) -> GroupBound:
    """Return caps of which about a third bind."""
    mean = 10 * size // groups
    upper = dice.integers(mean * 3 // 4, mean * 2, groups)
    names = [f"g{number}" for number in range(groups)]
    return GroupBound(kind, names, group, upper, np.zeros(groups, dtype=np.int64))


def moved(problem: Problem, quarters: int) -> Problem:
    """Return the problem with shares that were planned for so many quarters of the total."""
    before = apportion(replace(problem, total=problem.total * quarters // 4)).shares
    return replace(problem, present=before)


def policy(size: int) -> Problem:
    """Return a problem with quotas of as many domains as a policy may list, half of which bind."""
    dice, domains = np.random.default_rng(size + 2), DOMAINS[size]
    domain = dice.integers(OUTSIDE, domains, size)
    held = dice.integers(0, 5, size)
    place = np.where(domain == OUTSIDE, domains, domain)
    count = np.bincount(place, weights=held, minlength=domains + 1).astype(np.int64)[:-1]
    desired = count + dice.integers(0, 16 * size // domains, domains)
    quota = DomainQuota(desired, count, Method.BALANCE, required=False)
    nobody = np.zeros(size, dtype=np.bool_)
    names = [f"d{number}" for number in range(domains)]
    return replace(
        bare(size),
        weight=np.ones(size, dtype=np.int64),
        room=dice.integers(0, 80, size),
        inside=WithinDomain.RANK,
        domains=DomainOrder(names, domain, quota, held, nobody),
        score=50 * dice.integers(0, 3, size),
    )


def fewer(problem: Problem) -> Problem:
    """Return the problem of shrinking a plan to its half."""
    plan = apportion(problem)
    half = int(plan.shares.sum()) // 2
    return replace(problem, present=plan.shares, domains=plan.order, total=half)


def all_rules(size: int) -> Problem:
    """Return a Required policy, static weights with bounds, learnt limits, a bound on clusters."""
    ruled = policy(size)
    assert ruled.domains is not None
    quota = replace(ruled.domains.quota, required=True)
    return replace(
        bounded(size),
        groups=(),
        domains=replace(ruled.domains, quota=quota),
        counts=(DomainCount("cluster", np.arange(1, size + 1), 1, size // 2),),
        score=ruled.score,
    )


def by_heap(problem: Problem) -> list[int]:
    """Divide one unit after another, the lower bounds first; growing only."""
    held: list[int] = problem.settled().tolist()
    weight, order = problem.weight.tolist(), problem.order.tolist()
    top = np.maximum(problem.cap(), problem.settled()).tolist()
    groups = [(b.group.tolist(), b.upper.tolist(), [0] * len(b.upper)) for b in problem.groups]
    for group, _, inside in groups:
        for row, units in enumerate(held):
            inside[group[row]] += units
    left = problem.total - sum(held)
    for ceiling in (np.minimum(problem.lower, top).tolist(), top):
        line = [(-weight[r] / (2 * held[r] + 1), order[r], r) for r in range(len(held))]
        line = [entry for entry in line if weight[entry[2]] and held[entry[2]] < ceiling[entry[2]]]
        heapq.heapify(line)
        while left and line:
            _, place, row = line[0]
            if any(inside[group[row]] >= upper[group[row]] for group, upper, inside in groups):
                heapq.heappop(line)
                continue
            held[row] += 1
            left -= 1
            for group, _, inside in groups:
                inside[group[row]] += 1
            if held[row] < ceiling[row]:
                heapq.heapreplace(line, (-weight[row] / (2 * held[row] + 1), place, row))
            else:
                heapq.heappop(line)
    return held


def with_why(problem: Problem) -> Apportionment:
    plan = apportion(problem)
    plan.account  # noqa: B018 - both are computed when they are asked for
    plan.binding  # noqa: B018 - as above
    return plan


def timed(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return least and median milliseconds of a call, without garbage collection."""
    taken = []
    gc.disable()
    for _ in range(rounds):
        begun = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - begun)
    gc.enable()
    return min(taken) / 1e6, statistics.median(taken) / 1e6


def line(size: int, name: str, problem: Problem) -> None:
    grows = problem.total >= problem.settled().sum() and problem.domains is None
    if grows and by_heap(problem) != apportion(problem).shares.tolist():
        raise SystemExit(f"{name}: the heap gives other shares")
    least, median = timed(lambda: apportion(problem), ROUNDS)
    told, told_median = timed(lambda: with_why(problem), ROUNDS)
    heap = timed(lambda: by_heap(problem), HEAP_ROUNDS)[0] if grows else None
    beside = f"{heap:8.1f} {heap / least:6.0f}x" if heap else f"{'':>8} {'':>7}"
    cost = 1e6 * least / size
    print(
        f"{size:6} {name:12} {least:8.3f} {median:8.3f} {told:8.3f} {told_median:8.3f} "
        f"{beside} {cost:8.0f}"
    )


def main() -> None:
    print(f"{'':6} {'':12} {'apportion':>17} {'+ why':>17} {'heap':>8} {'':>7} {'ns for':>8}")
    print(
        f"{'size':>6} {'':12} {'least':>8} {'median':>8} {'least':>8} {'median':>8} "
        f"{'least':>8} {'':>7} {'each':>8}"
    )
    for size, aim in AIM_MILLISECONDS.items():
        full = bounded(size)
        for name, problem in (
            ("weights", bare(size)),
            ("own bounds", replace(full, groups=())),
            ("and quotas", replace(full, groups=full.groups[:1])),
            ("all bounds", full),
            ("growing", moved(full, 3)),
            ("shrinking", moved(full, 5)),
            ("policy", policy(size)),
            ("policy, less", fewer(policy(size))),
            ("all rules", all_rules(size)),
        ):
            line(size, name, problem)
        print(f"{size:6} {'aim':12} {aim:8.3f}")


if __name__ == "__main__":
    main()
