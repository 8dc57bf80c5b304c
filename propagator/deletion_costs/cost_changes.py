"""Assigns deletion costs to the pods of a share. Pure.

The highest costs go to ready pods, the lowest to pods that wait for a node. Among equals, pods with
a higher present cost come first, then older ones. So nothing changes without an event, and a pod
that was briefly unready does not take its cost back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from propagator.members.capacity.kept import Pod
from propagator.types.overrides import MOST_COST, Costs


class CostChange(NamedTuple):
    """A pod and its new deletion cost; None removes ours."""

    pod: Pod
    cost: int | None


def changes(pods: Collection[Pod], costs: Costs) -> list[CostChange]:
    """Return the changes to write, the lowest cost first: those pods are the next to go.

    `costs` are (cost, replicas), the highest first. Without any, our costs are removed.
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
    """None for pods beyond the replicas."""
    for cost, replicas in costs:
        taken = min(replicas, pods)
        pods -= taken
        yield from [cost] * taken
    yield from [None] * pods


def _leaving(pod: Pod, lowest: int) -> int:
    # A share that shrinks loses the pods that were the cheapest when it began to.
    return lowest if pod.cost is None else min(pod.cost, lowest)
