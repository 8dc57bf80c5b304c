"""Cost, latency and reliability as criteria. None is enabled by default.

The administrator sets the cost (annotation `stowage.dev/cost`, any number); the propagator's probes
measure latency and reliability.
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
"""Prices become integers on this scale, which tells any two realistic prices apart."""


class _SmallerIsBetter:
    """Scores 100 for the smallest of the feasible clusters, 0 for the greatest."""

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Scale to 0..100; equal values all get 100."""
        known = feasible & (scores != _UNKNOWN)
        normal = np.zeros_like(scores)
        if known.any():
            low, high = int(scores[known].min()), int(scores[known].max())
            normal[known] = 100 * (high - scores[known]) // max(high - low, 1)
            if low == high:
                normal[known] = 100
        return normal


class ClusterCost(_SmallerIsBetter):
    name = "ClusterCost"

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the price, as an integer on the scale of the dearest cluster."""
        known = ~np.isnan(snapshot.cost)
        prices = np.full(len(snapshot), _UNKNOWN, dtype=np.int64)
        dearest = np.abs(snapshot.cost[known]).max(initial=0.0)
        if dearest > 0:
            prices[known] = np.rint(snapshot.cost[known] / dearest * _SCALE).astype(np.int64)
        else:
            prices[known] = 0
        return prices


class ClusterLatency(_SmallerIsBetter):
    name = "ClusterLatency"

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return milliseconds."""
        return np.where(snapshot.latency >= 0, snapshot.latency, _UNKNOWN)


class ClusterReliability:
    name = "ClusterReliability"

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the percentage of answered probes, 0 if none was measured."""
        return np.maximum(snapshot.reliability, 0)
