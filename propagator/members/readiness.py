"""How many replicas of a share are ready, succeeded or failed, from their object. Pure.

Each kind reports that in its own way, and a custom kind as it likes: by the counts of a Deployment,
by a condition or a phase at its end, or not at all. Replicas that ended are kept apart from
replicas that wait to be tried again: a Job makes new pods for failed ones until it fails as a
whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds.fields.template import REPLICAS_PATHS
from machinery.types import conditions
from propagator.members.objects import ManagedObject
from propagator.types.workload import Workload

_WELL = ("Complete", "Completed", "Succeeded")
_BADLY = ("Failed",)
"""Conditions, or phases, of kinds that come to an end."""
_REPLACING = ("Deployment", "StatefulSet")
"""Kinds that count the replicas of their newest template."""
_AT_REST = ("DeploymentPaused", "ProgressDeadlineExceeded")
"""Why a Deployment with replicas of an older template goes on with them."""
_MOST = 2**31 - 1
"""The largest count that the hub accepts."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Ready replicas, replicas of the newest template, and how many succeeded or failed.

    Those that succeeded count as ready. `observed`: the numbers are of the present generation.
    `outdated`: replicas of an older template, which may be among the ready ones.
    """

    ready: int
    updated: int
    observed: bool = True
    succeeded: int = 0
    failed: int = 0
    outdated: int = 0

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed


def readiness_of(
    kind: str, main: ManagedObject | None, asked: int, completions: int | None = None
) -> Readiness:
    """Return the counts of the object that runs the replicas; a kind without numbers counts as one.

    `completions`: how many pods of a Job have to succeed, where its template says so.
    """
    if main is None:
        return Readiness(0, 0)
    status = main.status
    if main.metadata.generation > _number(status, "observedGeneration", main.metadata.generation):
        return Readiness(min(_number(status, "readyReplicas"), asked), 0, observed=False)
    if kind == "DaemonSet":
        wanted = _number(status, "desiredNumberScheduled")
        seen = "observedGeneration" in status
        whole = int(seen and _number(status, "numberReady") >= wanted)
        old = max(wanted - _number(status, "updatedNumberScheduled"), 0)
        return Readiness(whole, whole, outdated=old)
    if kind == "CronJob":
        return Readiness(1, 1)
    if kind == "Job":
        return _of_a_job(status, asked, completions)
    if kind in REPLICAS_PATHS:
        # Kubernetes leaves out a count of 0; a ReplicaSet has none, as it replaces no replica.
        return _counted(status, 0 if kind in _REPLACING else None)
    return _of_a_custom_kind(status, asked)


def available_of(
    kind: str, main: ManagedObject | None, readiness: Readiness, *, pods: int, seen: int
) -> int:
    """Return the ready replicas that have been so for long enough.

    Args:
        kind: that of the object that runs the replicas.
        main: the object itself.
        readiness: its counts.
        pods: its pods that have been ready for long enough.
        seen: all its pods. Those of a custom kind may not be known as its own: its word counts.
    """
    if main is None:
        return 0
    if kind == "DaemonSet":
        whole = pods >= _number(main.status, "desiredNumberScheduled")
        return min(readiness.ready, int(whole))
    if kind == "CronJob" or (kind not in REPLICAS_PATHS and not seen):
        return readiness.ready
    return min(readiness.ready, pods + readiness.succeeded)


def lasting_of(kind: str, main: ManagedObject, readiness: Readiness) -> int:
    """Return the ready replicas that the object does not replace now.

    A Deployment in the middle of a rollout removes an old replica for each new one that is ready,
    and goes on counting it until it is gone, also where it is asked for more replicas meanwhile.
    Old ones last in a rollout that is paused, or that its controller has given up.
    """
    progress = conditions.find(main.status, "Progressing")
    if kind != "Deployment" or progress.get("reason") in _AT_REST:
        return readiness.ready
    counted = _counted(main.status, 0)
    return min(max(counted.ready - counted.outdated, 0), readiness.ready)


def completions_of(workload: Workload) -> int | None:
    """Return how many pods of a Job have to succeed, where its template says so."""
    if workload.template_kind != "Job":
        return None
    spec = workload.template.get("spec")
    said = spec.get("completions") if isinstance(spec, dict) else None
    return said if type(said) is int else None


def _counted(status: Mapping[str, Any], unsaid: int | None = None) -> Readiness:
    """Return the counts; without one of the updated replicas they are `unsaid`, or all of them."""
    ready, replicas = _number(status, "readyReplicas"), _number(status, "replicas")
    updated = _number(status, "updatedReplicas", ready if unsaid is None else unsaid)
    said = unsaid is not None or "updatedReplicas" in status
    return Readiness(ready, updated, outdated=max(replicas - updated, 0) if said else 0)


def _of_a_job(status: Mapping[str, Any], asked: int, completions: int | None) -> Readiness:
    # With more completions than pods at once, each pod that succeeds makes room for the next.
    done = _number(status, "succeeded")
    if conditions.holds(status, "Complete"):
        return Readiness(asked, asked, succeeded=asked)
    ready = min(_number(status, "ready") + done, asked)
    missing = (
        completions - done if completions is not None and completions > asked else asked - done
    )
    succeeded = asked - min(max(missing, 0), asked)
    failed = asked - succeeded if conditions.holds(status, "Failed") else 0
    return Readiness(ready, ready, succeeded=succeeded, failed=failed)


def _of_a_custom_kind(status: Mapping[str, Any], asked: int) -> Readiness:
    """Return the counts of a custom kind; one without any counts as ready, as it exists."""
    if _ended(status, _WELL):
        return Readiness(asked, asked, succeeded=asked)
    succeeded = min(_number(status, "succeeded"), asked)
    if _ended(status, _BADLY):
        return Readiness(succeeded, succeeded, succeeded=succeeded, failed=asked - succeeded)
    if "readyReplicas" in status:
        counted = _counted(status)
        ready = min(counted.ready + succeeded, _MOST)
        updated = max(counted.updated, succeeded)
        return Readiness(ready, updated, succeeded=succeeded, outdated=counted.outdated)
    return Readiness(asked, asked, succeeded=succeeded)


def _ended(status: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return status.get("phase") in names or any(conditions.holds(status, each) for each in names)


def _number(status: Mapping[str, Any], field: str, otherwise: int = 0) -> int:
    """Return a count of a member's status; a custom kind may have any value there."""
    value = status.get(field)
    return min(max(value, 0), _MOST) if type(value) is int else otherwise
