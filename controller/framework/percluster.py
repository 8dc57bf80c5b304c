"""Plugins that are written for one cluster at a time; only they pay for the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from controller.cache.columns import Ints
from controller.cache.placements import Index
from controller.cache.snapshot import Fleet
from controller.framework.interface import CycleState, Refused
from controller.model.objects import MemberCluster
from controller.model.unit import Unit


class PerClusterFilter(ABC):
    """A filter written for one cluster at a time."""

    name = ""
    ignored_during_execution = True

    @abstractmethod
    def fits(self, unit: Unit, cluster: MemberCluster) -> str:
        """Empty when the cluster will do, else the reason."""

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """The loop over `fits`."""
        said: dict[str, NDArray[np.bool_]] = {}
        for row, cluster in enumerate(fleet.clusters):
            reason = self.fits(unit, cluster)
            if reason:
                said.setdefault(reason, np.zeros(len(fleet), dtype=np.bool_))[row] = True
        return Refused([(mask, reason) for reason, mask in said.items()])


class PerClusterScore(ABC):
    """A score written for one cluster at a time."""

    name = ""

    @abstractmethod
    def score_one(self, unit: Unit, cluster: MemberCluster) -> int:
        """0..100, the greater the better."""

    def score(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """The loop over `score_one`."""
        values = [self.score_one(unit, cluster) for cluster in fleet.clusters]
        return np.array(values, dtype=np.int64)
