"""The node groups of all clusters: what a unit of a template finds free on a node of each.

Clusters publish groups of like nodes instead of nodes, so that ten thousand nodes are a few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.cache.columns import Codes, Column, Ints, Mask
from controller.model.objects import Taint, Toleration

UNLIMITED = 2**36
"""Units that fit where nothing is checked, and the most that are told of any cluster.

More than any Workload can ask for, and little enough that the sum over a hundred thousand clusters
is exact even where it is added up as float64.
"""

HARD = frozenset({"NoSchedule", "NoExecute"})
SOFT = frozenset({"PreferNoSchedule"})


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """All node groups of all clusters, flat: one entry a group, in the order of the rows.

    Args:
        cluster: the row of the fleet that the group belongs to.
        count: its nodes.
        free: the room of each of its nodes, by resource.
        labels: a column for each label that node groups carry.
        taints: an index into `taint_sets`.
        taint_sets: each distinct set of taints once.
    """

    cluster: Ints
    count: Ints
    free: Mapping[str, Ints]
    labels: Mapping[str, Column]
    taints: Codes
    taint_sets: Sequence[tuple[Taint, ...]]

    def units(
        self,
        request: Mapping[str, int],
        node_selector: Mapping[str, str],
        tolerations: Sequence[Toleration],
    ) -> Ints:
        """How many units fit on one node of each group."""
        units = np.full(len(self.count), UNLIMITED, dtype=np.int64)
        for resource, amount in request.items():
            free = self.free.get(resource)
            if free is None:
                units[:] = 0
            else:
                np.minimum(units, free // amount, out=units)
        units[~self.open_to(node_selector, tolerations)] = 0
        return units

    def open_to(self, node_selector: Mapping[str, str], tolerations: Sequence[Toleration]) -> Mask:
        """The groups whose taints and labels, as far as they are told, let the pod in."""
        sets = self.taint_sets
        borne = np.fromiter(
            (_bears(taints, tolerations) for taints in sets), dtype=np.bool_, count=len(sets)
        )
        mask: Mask = borne[self.taints]
        for key, value in node_selector.items():
            column = self.labels.get(key)
            if column is not None:  # a group tells few of its nodes' labels: unknown is no refusal
                mask &= column.equals(value) | column.missing()
        return mask


def _bears(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    return all(
        taint.effect not in HARD or any(t.tolerates(taint) for t in tolerations) for taint in taints
    )
