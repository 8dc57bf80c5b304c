"""A spread over two pools of clusters on a hub in memory, and the members' reports on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from machinery.api.resources import WORKLOAD_SPREADS, WORKLOADS
from machinery.clock import timestamp
from tests.controller.memory import Stage

PATH = "/workloadspreads/"


def subset(name: str, most: Any = None, pool: str = "", **more: Any) -> dict[str, Any]:
    """Of the clusters with the label `pool` of that value, or of the subset's name."""
    term = {"matchLabels": {"pool": pool or name}}
    bound = {} if most is None else {"maxReplicas": most}
    return {"name": name, "requiredNodeSelectorTerm": term, **bound, **more}


def adaptive(seconds: int = 30, *, blind: bool = False) -> dict[str, Any]:
    """A scheduleStrategy; `blind` looks at no room beforehand."""
    how: dict[str, Any] = {"rescheduleCriticalSeconds": seconds}
    if blind:
        how["disableSimulationSchedule"] = True
    return {"type": "Adaptive", "adaptive": how}


def spread(
    stage: Stage, *subsets: Mapping[str, Any], name: str = "ws", target: str = "demo", **spec: Any
) -> None:
    """A WorkloadSpread as a user makes one; normal up to 100 and elastic where none are given."""
    body = {
        "targetRef": {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "name": target},
        "subsets": list(subsets or (subset("normal", 100), subset("elastic"))),
        "scheduleStrategy": {"type": "Fixed"},
        **spec,
    }
    meta = {"name": name, "namespace": "shop"}
    stage.hub.put(WORKLOAD_SPREADS, {"metadata": meta, "spec": body})


def arranged(*subsets: Mapping[str, Any], cpu: str = "4000", **spec: Any) -> Stage:
    """A cluster of each pool, and a spread over them."""
    stage = Stage()
    for pool in ("normal", "elastic"):
        stage.cluster(pool[0], cpu=cpu, pods="9999", pool=pool)
    spread(stage, *subsets, **spec)
    return stage


def status(stage: Stage, name: str = "ws") -> dict[str, Any]:
    """The status as it is stored; empty before there is one."""
    found: dict[str, Any] = stage.hub.read(WORKLOAD_SPREADS, name).get("status", {})
    return found


def subsets(stage: Stage, name: str = "ws") -> dict[str, dict[str, Any]]:
    """The statuses of the subsets, by name."""
    return {each["name"]: each for each in status(stage, name).get("subsetStatuses", [])}


def numbers(stage: Stage, name: str = "ws") -> dict[str, tuple[int, int]]:
    """{subset: (replicas, missing)}."""
    found = subsets(stage, name)
    return {each: (said["replicas"], said["missingReplicas"]) for each, said in found.items()}


def ready(stage: Stage, name: str = "ws") -> tuple[str, str]:
    """(reason, message) of the spread's condition Ready; empty before there is one."""
    said = status(stage, name).get("conditions", [])
    if not said:
        return "", ""
    first = said[0]
    assert first["type"] == "Ready"
    assert (first["status"] == "True") is (first["reason"] == "Valid")
    progress = {"Valid": [], "TargetNotFound": ["Reconciling"]}
    assert [each["type"] for each in said[1:]] == progress.get(first["reason"], ["Stalled"])
    return first["reason"], first["message"]


def report(stage: Stage, name: str = "demo", **current: int) -> None:
    """Report as the propagator does: so many pods exist on each cluster."""
    placed = stage.placed(name)
    shares = [
        {"name": cluster, "replicas": placed.get(cluster, 0), "current": n, "state": "Creating"}
        for cluster, n in current.items()
    ]
    stage.hub.edit(WORKLOADS, name, {"status": {"clusters": shares}}, status=True)


def stuck(stage: Stage, cluster: str, units: int, name: str = "demo") -> None:
    """Report as the propagator does that pods find no node."""
    placed = stage.placed(name)
    shares = [
        {
            "name": each,
            "replicas": n,
            "current": n,
            "state": "Creating",
            **(
                {"unschedulable": units, "unschedulableSince": timestamp(stage.clock.now())}
                if each == cluster
                else {"scheduled": n}
            ),
        }
        for each, n in placed.items()
    ]
    stage.hub.edit(WORKLOADS, name, {"status": {"clusters": shares}}, status=True)


async def quiet(stage: Stage, seconds: float) -> None:
    """Let so much time pass while nothing happens and the hub says so."""
    end = stage.clock.monotonic() + seconds
    while (left := end - stage.clock.monotonic()) > 0:
        stage.hub.bookmark()
        await stage.calm(min(left, 50.0))


def scale(stage: Stage, replicas: int, name: str = "demo") -> None:
    """As `kubectl scale` does."""
    stage.hub.edit(WORKLOADS, name, {"spec": {"replicas": replicas}})


def writes(stage: Stage, name: str = "ws") -> int:
    """Writes of the spread's status that were asked for."""
    return len(stage.hub.writes(f"{PATH}{name}/status"))


def told(stage: Stage, reason: str, name: str = "ws") -> list[str]:
    """The notes of the Events of that reason on the spread, of a series the first one."""
    return [each["note"] for each in stage.hub.events(reason) if each["regarding"]["name"] == name]
