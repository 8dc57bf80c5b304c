"""Bases for plugins that handle one cluster at a time, at the price of a loop."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from controller.cache.placements import PlacementIndex
from controller.framework.interface import CycleState, FilterMask
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.snapshot.builder import with_clusters
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot


class PerClusterFilter(ABC):
    name = ""
    ignored_during_execution = True

    @abstractmethod
    def fits(self, info: WorkloadInfo, cluster: MemberCluster) -> str:
        """Return the reason to refuse the cluster; empty if it fits."""

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        said: dict[str, NDArray[np.bool_]] = {}
        for row, cluster in enumerate(snapshot.clusters):
            reason = self.fits(info, cluster)
            if reason:
                said.setdefault(reason, np.zeros(len(snapshot), dtype=np.bool_))[row] = True
        return FilterMask([(mask, reason) for reason, mask in said.items()])


class PerClusterFilterHook(ABC):
    name = ""

    @abstractmethod
    def before_filter_one(
        self, info: WorkloadInfo, cluster: MemberCluster
    ) -> MemberCluster | str | None:
        """Return a changed copy of the cluster, why new replicas may not go there, or None."""

    def before_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> tuple[WorkloadInfo, Snapshot, bool]:
        """Call `before_filter_one` for each cluster.

        Raises TypeError or ValueError for a wrong answer.
        """
        changed: list[MemberCluster] = []
        for name, cluster in zip(snapshot.names, snapshot.clusters, strict=True):
            answer = self.before_filter_one(info, cluster)
            if answer is None or answer is cluster:
                continue
            if isinstance(answer, str):
                state.refuse(self.name, name, answer)
                continue
            if not isinstance(answer, MemberCluster):
                raise TypeError(
                    f"a copy of {name}, a reason or None is wanted, found {answer!r:.60}"
                )
            if answer.metadata.name != name:
                raise ValueError(f"the copy of {name} is named {answer.metadata.name}")
            changed.append(answer)
        return info, with_clusters(snapshot, changed), bool(changed)


class PerClusterScoreHook(ABC):
    name = ""

    @abstractmethod
    def leaves_out(self, info: WorkloadInfo, cluster: MemberCluster) -> bool:
        """Whether the cluster takes no new replica. Called for feasible clusters only."""

    def before_score(
        self,
        _state: CycleState,
        info: WorkloadInfo,
        snapshot: Snapshot,
        _bound: PlacementIndex,
        feasible: Mask,
    ) -> tuple[WorkloadInfo, Mask, bool]:
        rows = np.flatnonzero(feasible).tolist()
        out = [row for row in rows if self.leaves_out(info, snapshot.clusters[row])]
        left = feasible.copy()
        left[out] = False
        return info, left, bool(out)


class PerClusterScore(ABC):
    name = ""

    @abstractmethod
    def score_one(self, info: WorkloadInfo, cluster: MemberCluster) -> int:
        """Return 0..100, higher is better."""

    def score(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        values = [self.score_one(info, cluster) for cluster in snapshot.clusters]
        return np.array(values, dtype=np.int64)
