"""Workloads that require each other: the sets that have to be decided together.

An edge goes from a Workload to each one that its required affinity selects. A strongly connected
set can only be placed together or not at all: each of its members waits for another one.

networkx takes most of a second to import and few Workloads need it, so `plan` and `explain` load it
with the first set; a controller has it before its loop runs (`controller.scheduler`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product

from controller.cache.assumed import PendingAffinity
from controller.model.unit import WorkloadInfo
from controller.scheduling.steps import Steps
from machinery.types.metadata import Key

MOST_TOGETHER = 200
"""The largest set. Where more Workloads reach each other they are decided one by one: such terms
must not keep all the others from being decided."""


def together(
    info: WorkloadInfo, *among: PendingAffinity, partner: Callable[[Key], bool] = lambda _: True
) -> Steps[list[WorkloadInfo]]:
    """Return the Workloads that require each other, `info` among them, by key; else `info` alone.

    Only Workloads that `info` reaches are looked at. `partner` says whether another one may be
    decided with it.
    """
    reached, front = {info.key: info}, [info]
    edges: list[tuple[Key, Key]] = []
    while front:
        by = front.pop()
        for other in _wanted(by, among):
            if other.key != info.key and not partner(other.key):
                continue
            edges.append((by.key, other.key))
            if other.key not in reached:
                reached[other.key] = other
                front.append(other)
        if len(reached) > MOST_TOGETHER:
            return [info]
        yield
    if len(reached) == 1:
        return [info]
    import networkx as nx  # noqa: PLC0415 - see above

    graph = nx.DiGraph(edges)
    graph.add_node(info.key)
    found = next(each for each in nx.strongly_connected_components(graph) if info.key in each)
    return [reached[key] for key in sorted(found)]


def _wanted(info: WorkloadInfo, among: Sequence[PendingAffinity]) -> Iterable[WorkloadInfo]:
    """Return the Workloads that the terms select, each once; a few beyond the limit are enough."""
    found: dict[Key, WorkloadInfo] = {}
    for term, seekers in product(info.affinity.required, among):
        chosen = islice(seekers.selected(info, term.label_selector), MOST_TOGETHER + 1)
        found |= {other.key: other for other in chosen}
    return found.values()
