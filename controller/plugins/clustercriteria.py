"""Cost, latency and reliability as criteria. Not enabled by default: they are a matter of taste.

Cost is the administrator's (annotation `stowage.dev/cost`, any number); latency and reliability are
measured by the propagator's probes. A cluster of which nothing is known is never preferred: it
scores 0, as the worst of the known ones does.
"""

from __future__ import annotations

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.interface import CycleState
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot

_UNKNOWN = 2**62
_SCALE = 2**40
"""Prices become integers on this scale, fine enough to tell apart any two that people write."""


class _SmallerIsBetter:
    """100 for the smallest of the feasible clusters, 0 for the greatest, in proportion between."""

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """0..100; equals all get 100."""
        known = feasible & (scores != _UNKNOWN)
        normal = np.zeros_like(scores)
        if known.any():
            low, high = int(scores[known].min()), int(scores[known].max())
            normal[known] = 100 * (high - scores[known]) // max(high - low, 1)
            if low == high:
                normal[known] = 100
        return normal


class ClusterCost(_SmallerIsBetter):
    """The cheaper, the better."""

    name = "ClusterCost"

    def score(
        self, _state: CycleState, _unit: WorkloadInfo, fleet: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """The price, as an integer on the scale of the dearest cluster."""
        known = ~np.isnan(fleet.cost)
        prices = np.full(len(fleet), _UNKNOWN, dtype=np.int64)
        dearest = np.abs(fleet.cost[known]).max(initial=0.0)
        if dearest > 0:
            prices[known] = np.rint(fleet.cost[known] / dearest * _SCALE).astype(np.int64)
        else:
            prices[known] = 0
        return prices


class ClusterLatency(_SmallerIsBetter):
    """The faster the probe is answered, the better."""

    name = "ClusterLatency"

    def score(
        self, _state: CycleState, _unit: WorkloadInfo, fleet: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Milliseconds."""
        return np.where(fleet.latency >= 0, fleet.latency, _UNKNOWN)


class ClusterReliability:
    """The more of its probes were answered, the better."""

    name = "ClusterReliability"

    def score(
        self, _state: CycleState, _unit: WorkloadInfo, fleet: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """The percentage itself, 0 where it was never measured."""
        return np.maximum(fleet.reliability, 0)
