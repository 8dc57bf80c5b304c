"""What the ResourceQuotas of one namespace leave, on the clusters that have some there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.snapshot.columns import Ints, Mask

UNBOUNDED = 2**60
"""That of a resource that no quota of the cluster counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Quotas:
    """What is left on some clusters.

    Args:
        rows: the clusters' rows of the snapshot, sorted.
        left: for each of them, by the names of `controller.model.podcharges.charges`.
    """

    rows: Ints
    left: Mapping[str, Ints]

    def replaced(self, fresh: Sequence[tuple[int, Mapping[str, int]]]) -> Quotas:
        """Return them with these rows as given; a row that nothing bounds goes."""
        numbers = np.array([row for row, _ in fresh], dtype=np.int64)
        stay = ~np.isin(self.rows, numbers)
        bound = [(row, left) for row, left in fresh if left]
        rows = np.concatenate([self.rows[stay], np.array([r for r, _ in bound], dtype=np.int64)])
        order = np.argsort(rows, kind="stable")
        none, left = np.full(len(self.rows), UNBOUNDED, dtype=np.int64), {}
        for name in {*self.left, *(name for _, amounts in bound for name in amounts)}:
            told = np.array([amounts.get(name, UNBOUNDED) for _, amounts in bound], dtype=np.int64)
            column = np.concatenate([self.left.get(name, none)[stay], told])[order]
            if (column < UNBOUNDED).any():
                left[name] = column
        return Quotas(rows[order], left)

    def picked(self, stay: Mask, number: Ints) -> Quotas:
        """Return those that stay, under the new numbers of their rows."""
        return Quotas(number[self.rows[stay]], {name: n[stay] for name, n in self.left.items()})


_NONE = np.zeros(0, dtype=np.int64)
NO_QUOTAS = Quotas(_NONE, {})
