"""The cost of a decision when more and more Workloads are placed already.

    uv run python -m benchmarks.placed

All Workloads of the namespace carry the same label, and have an anti-affinity to Workloads that do
not exist; the decided one has required and preferred rules about all of them. There are 1,000
clusters. The ratio is the median divided by that of the first line: near 1, as the cost must not
grow with the placements. The last column is the cost of counting a change of one Workload.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks.decide import times
from benchmarks.fleets import clusters, info
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.snapshot.builder import SnapshotBuilder

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACED = (1_000, 3_000, 10_000, 30_000)
CLUSTERS = 1_000


def _rules(app: str, key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "workloadAffinityTerm": term}
        ],
    }


def move(index: PlacementIndex, info: WorkloadInfo, turn: Iterator[int]) -> None:
    """Place the Workload on the next cluster."""
    index.put(info, {f"member-{next(turn) % 9:05}": 1})


def main() -> None:
    builder = SnapshotBuilder()
    for member in clusters(CLUSTERS):
        builder.upsert(member)
    snapshot, profile, index = builder.snapshot(), default_profile(), PlacementIndex()
    asked = info("front", workloadAffinity=_rules("back", "region"))
    other = info("back", workloadAntiAffinity=_rules("noisy", "region"))
    moved = replace(other, name="moving")
    index.put(asked, {})
    made, first = 0, 0.0
    for total in PLACED:
        while made < total:
            named = replace(other, name=f"back-{made}")
            index.put(named, {f"member-{made % CLUSTERS:05}": 1})
            made += 1
        p50, p99 = times(lambda: decide(snapshot, asked, index, profile, NOW), 300)
        put, _ = times(partial(move, index, moved, itertools.count()), 300)
        first = first or p50
        print(
            f"{total:6} placed  decide p50 {p50:5.2f} ms  p99 {p99:5.2f} ms"
            f"  ratio {p50 / first:4.2f}  a change {put * 1000:5.0f} µs"
        )


if __name__ == "__main__":
    main()
