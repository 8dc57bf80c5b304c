"""Assigns deletion costs to the pods of a share. Pure.

The controller says how many replicas of a cluster have which cost; which pods these are is decided
here: the highest costs go to pods that are ready, the lowest to pods that still wait for a node.
Among pods alike those with the higher cost already come first, then the older ones. So nothing is
written while nothing happens, and a pod that was unready for a while does not take its cost back
from the one that got it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from propagator.members.capacity.kept import Pod
from propagator.types.overrides import MOST_COST, Costs


class CostChange(NamedTuple):
    """A pod and its new deletion cost; None: without one of ours."""

    pod: Pod
    cost: int | None


def changes(pods: Collection[Pod], costs: Costs) -> list[CostChange]:
    """Return the changes to write, the lowest cost first: those pods are the next to go.

    `pods` are those of the share, `costs` are (cost, replicas), the highest first. Without any,
    costs that we wrote before are removed.
    """
    there = [pod for pod in pods if not pod.metadata.deleting]
    if not costs:
        return [CostChange(pod, None) for pod in there if pod.marked]
    lowest = min(cost for cost, _ in costs)
    wanted = zip(sorted(there, key=_order), _each(costs, len(there)), strict=True)
    found = [CostChange(pod, _leaving(pod, lowest) if c is None else c) for pod, c in wanted]
    news = [change for change in found if change.cost != change.pod.cost]
    return sorted(news, key=lambda change: change.cost or 0)


def _order(pod: Pod) -> tuple[int, int, str, str]:
    """Sort the pods to keep first."""
    fares = 0 if pod.ready else 1 if pod.node else 2
    before = -MOST_COST if pod.cost is None else pod.cost
    return fares, -before, pod.metadata.creation_timestamp, pod.metadata.name


def _each(costs: Costs, pods: int) -> Iterator[int | None]:
    """Yield one cost for each pod; None for pods beyond the replicas, which are about to go."""
    for cost, replicas in costs:
        taken = min(replicas, pods)
        pods -= taken
        yield from [cost] * taken
    yield from [None] * pods


def _leaving(pod: Pod, lowest: int) -> int:
    # A share that shrinks loses the pods that were the cheapest when it began to.
    return lowest if pod.cost is None else min(pod.cost, lowest)
