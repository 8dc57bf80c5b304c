"""The cost of further plugins for a decision on 1,000 clusters, and of one call of a plugin.

    uv run python -m benchmarks.plugins

Each line is the default profile with more plugins, measured in turns with the default profile
alone, so that both meet the same machine: medians in milliseconds, and the ratio. The last lines
are one call of a plugin, by `ask` and plain, and the section in which calls have a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import numpy as np

from benchmarks.fleets import clusters, info
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework.calling import answers
from controller.framework.calling.guard import ask, limited
from controller.framework.interface import CycleState, FilterMask
from controller.framework.percluster import (
    PerClusterFilter,
    PerClusterFilterHook,
    PerClusterScore,
    PerClusterScoreHook,
)
from controller.framework.profile import Profile
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.snapshot.builder import SnapshotBuilder, with_cluster
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE, ROUNDS, CALLS = 1000, 300, 100_000


class Columns:
    """A filter and a score over columns: refuses a label's value, and prefers another one."""

    ignored_during_execution = True

    def __init__(self, number: int) -> None:
        self.name = f"Columns{number}"
        self._zone = f"zone-{number % 3}"

    def filter(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        return FilterMask([(snapshot.column("env").equals(self.name), "not that one")])

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        return np.where(snapshot.column("zone").equals(self._zone), 100, 0)


class OneFilter(PerClusterFilter):
    """One cluster at a time: refuses a value of a label."""

    name = "OneFilter"

    def fits(self, _info: WorkloadInfo, cluster: MemberCluster) -> str:
        return "a test" if cluster.metadata.labels["env"] == "none" else ""


class OneScore(PerClusterScore):
    """One cluster at a time: prefers a value of a label."""

    name = "OneScore"

    def score_one(self, _info: WorkloadInfo, cluster: MemberCluster) -> int:
        return 100 if cluster.metadata.labels["tier"] == "gold" else 0


class OneListed(PerClusterScoreHook):
    """One cluster at a time: leaves no cluster out."""

    name = "OneListed"

    def leaves_out(self, _info: WorkloadInfo, cluster: MemberCluster) -> bool:
        return cluster.metadata.labels["tier"] == "none"


class Larger(PerClusterFilterHook):
    """One cluster at a time: more free cpu on every n-th, on none for 0."""

    def __init__(self, number: int, every: int) -> None:
        self.name = f"Larger{number}"
        self._number, self._every = number, every

    def before_filter_one(
        self, _info: WorkloadInfo, cluster: MemberCluster
    ) -> MemberCluster | None:
        """Return a copy with other node groups, or None."""
        if not self._every or hash(cluster.metadata.name) % self._every != self._number:
            return None
        groups = [
            msgspec.structs.replace(group, free={**group.free, "cpu": "64"})
            for group in cluster.status.node_groups
        ]
        status = msgspec.structs.replace(cluster.status, node_groups=groups)
        return msgspec.structs.replace(cluster, status=status)


class Hook:
    """A hook over columns in all three phases; changes the unit and one cluster, or nothing."""

    def __init__(self, number: int, *, changes: bool) -> None:
        self.name = f"Hook{number}"
        self._number, self._changes = number, changes
        self._larger = Larger(0, 1)

    def before_pre_filter(
        self, _state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex
    ) -> tuple[WorkloadInfo, bool]:
        """Add one replica."""
        return (replace(info, replicas=info.replicas + 1) if self._changes else info), self._changes

    def before_filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> tuple[WorkloadInfo, Snapshot, bool]:
        """Give one cluster more room."""
        if not self._changes:
            return info, snapshot, False
        larger = self._larger.before_filter_one(info, snapshot.clusters[self._number])
        assert larger is not None
        return info, with_cluster(snapshot, larger), True

    def before_score(
        self,
        _state: CycleState,
        info: WorkloadInfo,
        _snapshot: Snapshot,
        _bound: PlacementIndex,
        feasible: Any,
    ) -> tuple[WorkloadInfo, Any, bool]:
        """Leave one cluster out."""
        if not self._changes:
            return info, feasible, False
        left = feasible.copy()
        left[self._number] = False
        return info, left, True


def cases(bare: Profile) -> dict[str, Profile]:
    """Return the profiles to measure, by their difference to the default one."""
    columns = [Columns(number) for number in range(20)]
    one, listed, score = OneFilter(), OneListed(), OneScore()

    def hooked(*, changes: bool) -> Profile:
        hooks = [Hook(number, changes=changes) for number in range(5)]
        return replace(bare, before_pre_filter=hooks, before_filter=hooks, before_score=hooks)

    return {
        "20 plugins over columns": replace(
            bare,
            filter=[*bare.filter, *columns],
            score=[*bare.score, *columns],
            weights={**bare.weights, **{plugin.name: 1 for plugin in columns}},
        ),
        "3 plugins for one cluster": replace(
            bare,
            filter=[*bare.filter, one],
            before_score=[listed],
            score=[*bare.score, score],
            weights={**bare.weights, score.name: 1},
        ),
        "5 hooks that change something": hooked(changes=True),
        "5 hooks that change nothing": hooked(changes=False),
        "1 hook for one cluster, 1 in 100 changed": replace(bare, before_filter=[Larger(0, 100)]),
        "1 hook for one cluster, all changed": replace(bare, before_filter=[Larger(0, 1)]),
    }


def beside(bare: Callable[[], object], more: Callable[[], object]) -> tuple[float, float]:
    """Return the medians of two calls made in turns, in milliseconds."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for times, call in zip(taken, (bare, more), strict=True):
            started = time.perf_counter()
            call()
            times.append((time.perf_counter() - started) * 1000)
    first, second = (sorted(times)[ROUNDS // 2] for times in taken)
    return first, second


def nanoseconds(call: Callable[[], object]) -> float:
    """Return the mean time of one call, of many in a row."""
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - started) / CALLS * 1e9


def main() -> None:
    builder = SnapshotBuilder()
    for member in clusters(SIZE):
        builder.upsert(member)
    snapshot, index, bare, asked = builder.snapshot(), PlacementIndex(), default_profile(), info()
    alone = partial(decide, snapshot, asked, index, bare, NOW)
    for title, profile in cases(bare).items():
        decision = decide(snapshot, asked, index, profile, NOW)
        if not decision.scheduled:
            raise SystemExit(f"{title}: {decision.message}")
        first, second = beside(alone, partial(decide, snapshot, asked, index, profile, NOW))
        print(
            f"{SIZE} clusters  {title:40}  bare p50 {first:6.2f} ms  with them {second:6.2f} ms"
            f"  ratio {second / first:5.2f}"
        )
    plugin = Columns(0)
    called, plain = partial(ask, plugin, "Filter", answers.a_text, str), nanoseconds(str)
    with limited(2):
        print(f"one call of a plugin: plain {plain:.0f} ns, by ask {nanoseconds(called):.0f} ns")

    def section() -> None:
        with limited(2):
            pass

    print(f"a section with a limit: {nanoseconds(section):.0f} ns")


if __name__ == "__main__":
    main()
