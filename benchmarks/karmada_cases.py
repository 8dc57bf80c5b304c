"""Whole decisions with shares, for the placements that Karmada's own scheduler was timed on.

    uv run python -m benchmarks.karmada_cases

Seven placements on 1,000 synthetic clusters, expressed as ours: duplicated on half of the clusters,
static weights by region, free capacity, packed on the fewest clusters, three regions and 5 to 20
clusters, and free capacity again when a tenth more or nothing more is wanted. The third column is
the time of Karmada's scheduler for the same on a machine of the same kind (its own Go code, CPU
time of one decision, where it was measured). Then 1,000 Workloads are decided one after another,
each with the ones before it counted.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from benchmarks.decide import times
from benchmarks.fleets import clusters, info
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.snapshot.builder import SnapshotBuilder

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE, ROUNDS, MANY = 1000, 200, 1000
AIM_MILLISECONDS, AIM_SECONDS = 1.5, 2.0
HUNDRED = 100


def by_region(region: int, weight: int) -> dict[str, Any]:
    """Return one static weight."""
    return {
        "clusterSelector": {"matchLabels": {"region": f"region-{region}"}},
        "weight": weight,
    }


CASES: dict[str, tuple[dict[str, Any], float | None]] = {
    "duplicated on half": (
        {"replicas": 3, "distribution": "Duplicated", "clusterSelector": {"env": "prod"}},
        14,
    ),
    "static weights by region": (
        {
            "replicas": 1000,
            "distribution": "Divided",
            "distributionWeights": [by_region(n, n) for n in range(1, 6)],
        },
        30,
    ),
    "by free capacity": ({"replicas": 10_000, "distribution": "Divided"}, 24),
    "packed on the fewest": (
        {"replicas": 1000, "distribution": "Divided", "packing": "Fewest"},
        15,
    ),
    "3 regions, 5 to 20 clusters": (
        {
            "replicas": 1000,
            "distribution": "Divided",
            "spreadConstraints": [
                {"topologyKey": "region", "minDomains": 3, "maxDomains": 3},
                {"topologyKey": "stowage.dev/cluster", "minDomains": 5, "maxDomains": 20},
            ],
        },
        16,
    ),
}


def one_by_one(builder: SnapshotBuilder) -> None:
    """Decide many Workloads, each counted before the next; print the first and last hundred."""
    index, profile = PlacementIndex(), default_profile()
    units = [info(f"w{n}", replicas=20, distribution="Divided") for n in range(MANY)]
    taken = []
    for each in units:
        started = time.perf_counter()
        decision = decide(builder.snapshot(), each, index, profile, NOW)
        index.put(each, decision.placements)
        for cluster, n in decision.placements.items():
            builder.assume(cluster, each.load, n)
        taken.append(time.perf_counter() - started)
    first, last = sum(taken[:HUNDRED]) / HUNDRED, sum(taken[-HUNDRED:]) / HUNDRED
    print(f"{MANY} Workloads one after another: {sum(taken):.2f} s (aim {AIM_SECONDS:g})")
    print(f"  each of the first {HUNDRED} {first * 1e3:.2f} ms, of the last {last * 1e3:.2f} ms")


def main() -> None:
    builder = SnapshotBuilder()
    for each in clusters(SIZE):
        builder.upsert(each)
    snapshot, index, profile = builder.snapshot(), PlacementIndex(), default_profile()

    def report(name: str, asked: WorkloadInfo, theirs: float | None) -> dict[str, int]:
        decision = decide(snapshot, asked, index, profile, NOW)
        p50, p99 = times(lambda: decide(snapshot, asked, index, profile, NOW), ROUNDS)
        beside = f"{theirs:6.0f} {theirs / p50:6.0f}" if theirs else f"{'':13}"
        shown = f"{len(decision.placements):5} clusters {decision.assigned:6} units"
        print(f"{name:30}{p50:7.2f}{p99:7.2f} {beside}   {shown}")
        return dict(decision.placements)

    print(f"{SIZE} clusters, ms (aim {AIM_MILLISECONDS:g})    p50    p99 Karmada  ratio")
    for name, (spec, theirs) in CASES.items():
        placed = report(name, info(**spec), theirs)
        if name == "by free capacity":
            same = replace(info(**spec), present=placed)
            more = replace(info(**{**spec, "replicas": 11_000}), present=placed)
            settled = [replace(u, decided=(u.constraints, u.demand, u.shape)) for u in (same, more)]
            report("  nothing changed", settled[0], None)
            report("  a tenth more", settled[1], None)
    one_by_one(builder)


if __name__ == "__main__":
    main()
