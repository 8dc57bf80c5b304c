"""The forms of a Workload's pods: sets of clusters on which its overrides give the same pods.

Each form is evaluated on the whole template.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from controller.model.overridden import MOST_FORMS_BYTES, Overridden, OverriddenPods
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from machinery.overrides.variables import ClusterFacts
from machinery.types.selectors import label_selector


class Forms:
    """The forms of one Workload: `of` has the form of each cluster, shape (n,)."""

    def __init__(self, overridden: Overridden, snapshot: Snapshot) -> None:
        self._overridden = overridden
        self.of: Ints = np.zeros(len(snapshot), dtype=np.int64)
        self.fault = ""
        """Why they are not evaluated, or empty."""
        self._asked: list[tuple[list[int], ClusterFacts]] = [([], ClusterFacts("", {}))]
        overrides = overridden.overrides
        if not (overrides and len(snapshot)):
            return
        holds = [snapshot.labelled(label_selector(each.cluster_selector)) for each in overrides]
        matched = np.array(holds, dtype=np.int64).reshape(len(overrides), len(snapshot))
        keys = sorted(frozenset[str]().union(*overridden.labels))
        values = np.array([snapshot.column(key).codes for key in keys], dtype=np.int64)
        read = [
            np.any(matched[[key in each for each in overridden.labels]], axis=0) for key in keys
        ]
        # A label counts only on clusters with an override that reads it.
        told = [np.where(here, codes, -1) for here, codes in zip(read, values, strict=True)]
        alike = np.vstack([matched, *told])
        _, first, of = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        if len(first) * overridden.size > MOST_FORMS_BYTES:
            self.fault = (
                f"spec.overrides make {len(first)} forms of a template of {overridden.size} bytes "
                f"with its overrides, together more than {MOST_FORMS_BYTES}: let them read fewer "
                "labels of clusters, or make the template smaller"
            )
            return
        self.of = of.reshape(-1).astype(np.int64)
        self._asked = [
            (np.flatnonzero(matched[:, row]).tolist(), _facts(keys, row, snapshot))
            for row in first.tolist()
        ]

    def evaluated(self) -> Iterator[OverriddenPods]:
        for chosen, facts in self._asked:
            yield self._overridden.on(chosen, facts)


def _facts(keys: list[str], row: int, snapshot: Snapshot) -> ClusterFacts:
    labels = {}
    for key in keys:
        column = snapshot.column(key)
        value = column.vocabulary.values[column.codes[row]]
        if value is not None:
            labels[key] = value
    return ClusterFacts(snapshot.names[row], labels)
