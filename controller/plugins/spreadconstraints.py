"""spec.spreadConstraints: over how many domains of a topology the units go.

It counts domains for the plan; which of them are used is chosen there, within the bounds of all
plugins (`controller.planner.choice`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controller.cache.snapshot import Fleet
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.interface import Candidates, CycleState
from controller.model.unit import Unit
from controller.planner.problem import DomainCount, Problem
from controller.planner.webster import Ints
from crds.names import LABEL_CLUSTER


class SpreadConstraints:
    """At least `minDomains` and at most `maxDomains` of each topology."""

    name = "SpreadConstraints"

    def events_to_register(self) -> Sequence[EventHint]:
        """A cluster of another domain, or a domain that nobody counts any more."""
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS | Action.DELETED),)

    def divides(self, _unit: Unit, _state: CycleState) -> bool:
        """It bounds what others divide."""
        return False

    def bound(self, unit: Unit, field: Candidates, problem: Problem) -> Problem:
        """The problem with the constraints, in their order."""
        if not unit.spread:
            return problem
        return replace(problem, counts=(*problem.counts, *counts(unit, field.fleet)))


def counts(unit: Unit, fleet: Fleet) -> tuple[DomainCount, ...]:
    """The constraints over the clusters of this fleet."""
    return tuple(
        DomainCount(
            each.topology_key,
            _domains(fleet, each.topology_key),
            each.min_domains or 1,
            each.max_domains,
        )
        for each in unit.spread
    )


def _domains(fleet: Fleet, key: str) -> Ints:
    """The domain of each cluster; each is its own for the label that holds its name."""
    if key == LABEL_CLUSTER:
        return np.arange(1, len(fleet) + 1, dtype=np.int64)
    return fleet.column(key).codes.astype(np.int64)
