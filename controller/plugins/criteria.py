"""Cost, latency and reliability as criteria, for profiles that enable them.

Cost is the administrator's (annotation `stowage.dev/cost`, any number); latency and
reliability are measured by the propagator's probes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.columns import Ints, Mask
from controller.framework.points import CycleState
from controller.index import Index
from controller.snapshot import Fleet
from controller.unit import Unit


class ClusterCost:
    """The cheaper, the better; a cluster without a price scores 0."""

    name = "ClusterCost"

    def score(self, _state: CycleState, _unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """0..100 between the dearest and the cheapest cluster of the fleet."""
        return _smaller_is_better(fleet.cost, ~np.isnan(fleet.cost))


class ClusterLatency:
    """The faster the probe is answered, the better; a cluster never measured scores 0."""

    name = "ClusterLatency"

    def score(self, _state: CycleState, _unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """0..100 between the slowest and the fastest cluster of the fleet."""
        return _smaller_is_better(fleet.latency.astype(np.float64), fleet.latency >= 0)


class ClusterReliability:
    """The share of probes that were answered; a cluster never measured scores 0."""

    name = "ClusterReliability"

    def score(self, _state: CycleState, _unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """The percentage itself."""
        return np.clip(fleet.reliability, 0, 100)


def _smaller_is_better(values: NDArray[np.float64], known: Mask) -> Ints:
    scores = np.zeros(len(values), dtype=np.int64)
    if not known.any():
        return scores
    low, high = values[known].min(), values[known].max()
    span = high - low
    scores[known] = 100 if span == 0 else ((high - values[known]) * 100 / span).astype(np.int64)
    return scores
