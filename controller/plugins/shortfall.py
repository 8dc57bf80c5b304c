"""Why units of a divided Workload have no cluster, where rules and not only room keep them out.

The clusters that nothing refuses are counted by what stops them from taking more. FailedToSchedule
means that no cluster may take any unit; where some have, the others lack capacity, whatever it is
that bounds it: the message says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.apportion.divisor import Ints
from controller.apportion.planner import Problem
from controller.columns import Mask
from controller.framework.points import Candidates
from controller.plugins.spread import Choice
from controller.unit import Unit
from crds.workload import ScheduledReason


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What was asked and what came of it; `asked` is the problem before the choice of domains."""

    unit: Unit
    field: Candidates
    asked: Problem
    choice: Choice
    shares: Ints

    @property
    def pending(self) -> int:
        """Units without a cluster."""
        return self.asked.total - int(self.shares.sum())

    def reason(self) -> ScheduledReason:
        """FailedToSchedule where no cluster may take any unit, InsufficientCapacity elsewhere."""
        without = self.field.feasible.any() and not (self.asked.weight.any() or self.shares.any())
        if self.choice.lacks or without:
            return ScheduledReason.FAILED_TO_SCHEDULE
        return ScheduledReason.INSUFFICIENT_CAPACITY

    def notes(self) -> tuple[str, ...]:
        """What the rules keep out; empty where none of them does."""
        if self.pending <= 0:
            return ()
        found = [*self.choice.lacks, *self._unweighted(), *self._bounds()]
        full = self._full()
        if found and full.any():
            found.append(f"{_clusters(full, 'has', 'have')} no room for more")
        return tuple(found)

    def _unweighted(self) -> Iterator[str]:
        """Clusters that would do, and static rules that give them no weight."""
        without = self.field.feasible & (self.asked.weight == 0)
        if not self.unit.weights or not without.any():
            return
        ruled = np.zeros_like(without)
        for rule in self.unit.weights:
            ruled |= self.field.fleet.selected(rule.cluster_selector)
        if not (ruled & self.field.feasible).any():
            yield "no rule of distributionWeights matches a cluster that would do"
        elif (without & ~ruled).any():
            yield f"no rule of distributionWeights matches {_clusters(without & ~ruled)}"
        if (without & ruled).any():
            yield f"distributionWeights give weight 0 to {_clusters(without & ruled)}"

    def _bounds(self) -> Iterator[str]:
        """Clusters with room: at a rule's bound, at a learnt one, outside the chosen domains."""
        spare = self.field.feasible & (self.asked.weight > 0) & ~self._full()
        bound = spare & (self.shares >= self.asked.upper)
        if bound.any():
            yield f"{_clusters(bound, 'is', 'are')} at the maxReplicas of distributionWeights"
        learnt = spare & ~bound & (self.shares >= self.asked.learnt)
        if learnt.any():
            yield f"{_clusters(learnt, 'was', 'were')} seen to run no more, though with room"
        bound |= learnt
        out = spare & ~bound & ~self.choice.open
        if out.any() and not self.choice.lacks:
            yield f"spreadConstraints leave out {_clusters(out)} with room"

    def _full(self) -> Mask:
        mask: Mask = self.field.feasible & (self.shares >= self.asked.room)
        return mask


def _clusters(mask: Mask, one: str = "", many: str = "") -> str:
    number = int(mask.sum())
    return f"1 cluster {one}".rstrip() if number == 1 else f"{number} clusters {many}".rstrip()
