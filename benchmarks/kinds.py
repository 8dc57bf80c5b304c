"""Judging 10,000 Deployments by the table of kinds, beside the function that did it before.

    uv run python -m benchmarks.kinds

"by the table" is all that is done with an object when it arrives and when its share is told: its
conditions, its generation and its counts are read by the paths of its kind's profile, and the share
is counted. "before" is `readiness_of` as it was before there was a table, on a status that had been
cut down already, and without what it left to others: "with its cut" has that cut, and the replicas
that a rollout replaces. All take turns in one run, the least time of the processor counts, and both
give the same counts. Below stand a thousand small expressions beside as many paths, and a decision
over 1,000 clusters of a kind with three sorts of pods beside that of a Deployment.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework.profile import Profile
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, workload_info
from controller.scheduling.cycle import decide
from machinery.kinds.builtin import DEPLOYMENT
from machinery.kinds.expressions import Scope, value
from machinery.kinds.readiness import counts_of, judge
from machinery.types import conditions
from machinery.types.bounds import CONDITIONS, WORD, clean
from tests.controller.make import NOW, cluster, snapshot
from tests.kindsof import RAY, pods

DEPLOYMENTS, ROUNDS = 10_000, 15
AIM = 1.5
ASKED = 5
_MOST = 2**31 - 1
_AT_REST = ("DeploymentPaused", "ProgressDeadlineExceeded")
_COUNTS = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
_REPLACING = ("Deployment", "StatefulSet")
_PATHS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "Job"})


def deployments() -> list[dict[str, Any]]:
    """Return Deployments as their members show them: most are well, some roll, some are new."""
    dice = random.Random(7)
    return [_deployment(dice) for _ in range(DEPLOYMENTS)]


def _deployment(dice: random.Random) -> dict[str, Any]:
    status: dict[str, Any] = {
        "observedGeneration": 3,
        "replicas": ASKED,
        "updatedReplicas": ASKED,
        "readyReplicas": ASKED,
        "availableReplicas": ASKED,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": "ReplicaSet has progressed.",
                "lastUpdateTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, reason in (
                ("Available", "MinimumReplicasAvailable"),
                ("Progressing", "NewReplicaSetAvailable"),
            )
        ],
    }
    if dice.random() < 0.1:
        status |= {"updatedReplicas": dice.randrange(ASKED), "unavailableReplicas": 1}
    if dice.random() < 0.02:
        status |= {"observedGeneration": 2}
    return {"spec": {"replicas": ASKED, "template": {}}, "status": status}


# --- as it was ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Before:
    ready: int
    updated: int
    observed: bool = True
    succeeded: int = 0
    failed: int = 0
    outdated: int = 0


def readiness_before(
    kind: str,
    status: Mapping[str, Any],
    generation: int,
    asked: int,
    completions: int | None = None,
) -> Before:
    if generation > _number(status, "observedGeneration", generation):
        return Before(min(_number(status, "readyReplicas"), asked), 0, observed=False)
    if kind == "DaemonSet":
        raise NotImplementedError
    if kind == "CronJob":
        return Before(1, 1)
    if kind == "Job":
        raise NotImplementedError(completions)
    if kind in _PATHS:
        return _counted(status, 0 if kind in _REPLACING else None)
    raise NotImplementedError


def lasting_before(status: Mapping[str, Any], readiness: Before) -> int:
    progress = conditions.find(status, "Progressing")
    if progress.get("reason") in _AT_REST:
        return readiness.ready
    counted = _counted(status, 0)
    return min(max(counted.ready - counted.outdated, 0), readiness.ready)


def cut_before(said: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: min(max(said[key], 0), _MOST) for key in _COUNTS if key in said}
    if "observedGeneration" in said:
        kept["observedGeneration"] = min(max(said["observedGeneration"], 0), 2**63 - 1)
    kept["conditions"] = [
        {key: clean(each[key], WORD) for key in ("type", "status", "reason") if key in each}
        for each in said["conditions"][:CONDITIONS]
    ]
    return kept


def _counted(status: Mapping[str, Any], unsaid: int | None = None) -> Before:
    ready, replicas = _number(status, "readyReplicas"), _number(status, "replicas")
    updated = _number(status, "updatedReplicas", ready if unsaid is None else unsaid)
    said = unsaid is not None or "updatedReplicas" in status
    return Before(ready, updated, outdated=max(replicas - updated, 0) if said else 0)


def _number(status: Mapping[str, Any], field: str, otherwise: int = 0) -> int:
    value = status.get(field)
    return min(max(value, 0), _MOST) if type(value) is int else otherwise


# --------------------------------------------------------------------------------------------------


def by_the_table(said: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    found = [counts_of(judge(DEPLOYMENT, each, generation=3), ASKED) for each in said]
    return [(each.ready, each.updated, each.outdated) for each in found]


def before(cut: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    found = [readiness_before("Deployment", each, 3, ASKED) for each in cut]
    return [(each.ready, each.updated, each.outdated) for each in found]


def with_its_cut(said: list[dict[str, Any]]) -> list[int]:
    cut = [cut_before(each["status"]) for each in said]
    return [lasting_before(each, readiness_before("Deployment", each, 3, ASKED)) for each in cut]


def main() -> None:
    said = deployments()
    cut = [cut_before(each["status"]) for each in said]
    assert by_the_table(said) == before(cut)
    ways: dict[str, Callable[[], object]] = {
        "by the table": lambda: by_the_table(said),
        "before": lambda: before(cut),
        "with its cut": lambda: with_its_cut(said),
    }
    took = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time()
            way()
            took[name] = min(took[name], time.process_time() - began)
    for name, seconds in took.items():
        print(f"{name}: {seconds * 1000:.1f} ms, {seconds / DEPLOYMENTS * 1e6:.2f} µs a Deployment")
    table = took["by the table"]
    print(f"by the table / before: {table / took['before']:.2f} (aim: at most {AIM})")
    print(f"by the table / with its cut: {table / took['with its cut']:.2f}")
    expressions()
    components()


def expressions() -> None:
    scope = Scope({"metadata": {}, "spec": {"size": 3}, "status": {"phase": "Up", "n": 4}})
    path, program = value("status.n"), value("status.phase == 'Up' && status.n >= 4")
    read = _least(lambda: path.read(scope), 1000)
    asked = _least(lambda: program.read(scope), 1000)
    print(f"1,000 expressions / 1,000 paths: {asked / read:.0f} (aim: at most 100)")


def components() -> None:
    groups = [{"count": 20, "free": {"cpu": "16", "memory": "64Gi", "pods": "110"}}]
    members = [cluster(f"c{n:04}", groups=groups) for n in range(1000)]
    profile, index = default_profile(), PlacementIndex()

    def decided(template: Any) -> float:
        found = compiled(template)
        return min(_decided(members, found, index, profile) for _ in range(ROUNDS))

    took = [decided(each) for each in (RAY, plain("Deployment"))]
    print(f"three components / a Deployment: {took[0] / took[1]:.2f} (aim: at most 4)")


def _decided(
    members: list[MemberCluster], found: WorkloadInfo, index: PlacementIndex, profile: Profile
) -> float:
    there = snapshot(*members)
    return _least(lambda: decide(there, found, index, profile, NOW), 1)


def _least(act: Callable[[], object], number: int) -> float:
    began = time.process_time()
    for _ in range(number):
        act()
    return time.process_time() - began


def compiled(template: Mapping[str, Any]) -> WorkloadInfo:
    meta = {"name": "w", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    body = {"metadata": meta, "spec": {"template": template, "schedulerName": "stowage"}}
    return workload_info(msgspec.convert(body, Workload))


def plain(kind: str) -> dict[str, Any]:
    meta = {"name": "d"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": meta,
        "spec": {"template": pods(cpu="2")},
    }


if __name__ == "__main__":
    main()
