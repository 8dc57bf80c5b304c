"""One decision: `decide` beside the plain loop, on 1,000 and 5,000 clusters.

    uv run python -m benchmarks.decide

Each line is one kind of Workload. Times are of one decision with filter, score, ranking, shares and
record, in milliseconds; the ratio is the plain loop's median divided by that of `decide`. The
benchmark first checks that both give the same verdicts, totals and shares. The last lines are the
cost of bringing a change of one cluster, and one decision in flight, into the next snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from benchmarks.fleets import clusters, info
from benchmarks.plainloop import Answer, plain
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework.profile import Profile
from controller.model.load import Load
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import FITS, Decision
from controller.snapshot.builder import SnapshotBuilder
from controller.snapshot.snapshot import Snapshot

SMALL = Load.of({"cpu": 500, "memory": 2**30, "pods": 1})
NOW = datetime(2026, 1, 1, tzinfo=UTC)
AIM_MILLISECONDS = {1000: 1.0, 5000: 4.0}
ROUNDS, PLAIN_ROUNDS = 500, 5

PREFERRED = [
    {
        "weight": 10,
        "preference": {
            "matchExpressions": [{"key": "region", "operator": "In", "values": ["region-1"]}]
        },
    }
]
REQUIRED = {
    "clusterSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "env", "operator": "In", "values": ["prod"]},
                {"key": "tier", "operator": "NotIn", "values": ["bronze"]},
            ]
        }
    ]
}
AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": REQUIRED,
    "preferredDuringSchedulingIgnoredDuringExecution": PREFERRED,
}
WORKLOADS: dict[str, dict[str, Any]] = {
    "no rules": {},
    "cluster affinity": {"clusterAffinity": AFFINITY},
    "selector, duplicated": {"clusterSelector": {"env": "prod"}, "distribution": "Duplicated"},
    "full everywhere": {"replicas": 100_000},
}


def times(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of a call, in milliseconds."""
    call()
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) * 1000)
    taken.sort()
    return taken[rounds // 2], taken[rounds * 99 // 100]


def same(decision: Decision, answer: Answer) -> bool:
    """Return whether both give the same verdicts, totals, ranking and shares."""
    names = decision.snapshot.names
    refused = {
        names[row]: decision.refusals[verdict - 1].text
        for row, verdict in enumerate(decision.verdicts.tolist())
        if verdict != FITS
    }
    totals = {names[row]: int(decision.totals[row]) for row in decision.ranking}
    return (
        refused == answer.refused
        and totals == answer.totals
        and [names[row] for row in decision.ranking] == answer.ranking
        and dict(decision.placements) == answer.placements
    )


def _anew(
    snapshot: Snapshot, asked: WorkloadInfo, index: PlacementIndex, profile: Profile
) -> Decision:
    """Return a decision on a snapshot without any computed columns."""
    return decide(replace(snapshot), asked, index, profile, NOW)


def measure(size: int) -> None:
    members = clusters(size)
    builder = SnapshotBuilder()
    for member in members:
        builder.upsert(member)
    snapshot, index, profile = builder.snapshot(), PlacementIndex(), default_profile()
    for title, spec in WORKLOADS.items():
        asked = info(**spec)
        decision = decide(snapshot, asked, index, profile, NOW)
        if not same(decision, plain(members, asked)):
            raise SystemExit(f"{size} {title}: decide and the plain loop differ")
        p50, p99 = times(partial(_anew, snapshot, asked, index, profile), ROUNDS)
        slow, _ = times(partial(plain, members, asked), PLAIN_ROUNDS)
        aim = AIM_MILLISECONDS[size]
        print(
            f"{size:5} clusters  {title:22}  decide p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"
            f"  plain loop {slow:8.2f} ms  ratio {slow / p50:6.1f}"
            f"  aim {aim:.0f} ms {'met' if p50 <= aim else 'MISSED'}"
        )
    _snapshots(builder, members)


def _snapshots(builder: SnapshotBuilder, members: Sequence[MemberCluster]) -> None:
    turn = iter(range(10**9))

    def relabel() -> None:
        number = next(turn)
        meta = members[number % len(members)].metadata
        labels = {**meta.labels, "turn": str(number % 7)}
        changed = msgspec.structs.replace(
            members[number % len(members)], metadata=msgspec.structs.replace(meta, labels=labels)
        )
        builder.upsert(changed)
        builder.snapshot()

    def assume() -> None:
        name = members[next(turn) % len(members)].metadata.name
        builder.assume(name, SMALL, 10)
        builder.snapshot()

    for title, call in (("one cluster changed", relabel), ("one decision in flight", assume)):
        p50, p99 = times(call, 200)
        print(
            f"{len(members):5} clusters  snapshot, {title:22}  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"
        )


if __name__ == "__main__":
    for count in AIM_MILLISECONDS:
        measure(count)
