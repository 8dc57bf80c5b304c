"""How the units of a share fare, from the object that runs them: ready, ended well, failed. Pure.

Each kind tells it in its own way, and a custom kind as it likes: by the counts of a Deployment, by
a condition or a phase that says how it ended, or not at all. What ended is told apart from what
waits to be tried again: a Job makes new pods for those that failed until it gives up as a whole.
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
_MOST = 2**31 - 1
"""The hub takes no larger count."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Ready units, units of the newest template, and how many ended, well or not.

    Those that ended well count as ready. `observed`: the numbers are of what is asked.
    """

    ready: int
    updated: int
    observed: bool = True
    succeeded: int = 0
    failed: int = 0

    @property
    def finished(self) -> int:
        """Units that ended, however that was."""
        return self.succeeded + self.failed


def readiness_of(
    kind: str, main: ManagedObject | None, asked: int, completions: int | None = None
) -> Readiness:
    """What the object that runs the units tells. What a kind without numbers counts is one.

    `completions`: how many pods of a Job have to end well, where its template says so.
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
        return Readiness(whole, whole)
    if kind == "CronJob":
        return Readiness(1, 1)
    if kind == "Job":
        return _of_a_job(status, asked, completions)
    if kind in REPLICAS_PATHS:
        return _counted(status)
    return _of_a_custom_kind(status, asked)


def completions_of(workload: Workload) -> int | None:
    """How many pods of its Job have to end well, where its template says so."""
    if workload.template_kind != "Job":
        return None
    spec = workload.template.get("spec")
    said = spec.get("completions") if isinstance(spec, dict) else None
    return said if type(said) is int else None


def _counted(status: Mapping[str, Any]) -> Readiness:
    ready = _number(status, "readyReplicas")
    return Readiness(ready, _number(status, "updatedReplicas", ready))


def _of_a_job(status: Mapping[str, Any], asked: int, completions: int | None) -> Readiness:
    """Where more pods have to end well than run at once, each that does makes room for the next."""
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
    """One that tells nothing is there, and that is all that can be known of it."""
    if _ended(status, _WELL):
        return Readiness(asked, asked, succeeded=asked)
    succeeded = min(_number(status, "succeeded"), asked)
    if _ended(status, _BADLY):
        return Readiness(succeeded, succeeded, succeeded=succeeded, failed=asked - succeeded)
    if "readyReplicas" in status:
        counted = _counted(status)
        ready = min(counted.ready + succeeded, _MOST)
        return Readiness(ready, max(counted.updated, succeeded), succeeded=succeeded)
    return Readiness(asked, asked, succeeded=succeeded)


def _ended(status: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return status.get("phase") in names or any(conditions.holds(status, each) for each in names)


def _number(status: Mapping[str, Any], field: str, otherwise: int = 0) -> int:
    """A count of a member's status; a custom kind may write anything there."""
    value = status.get(field)
    return min(max(value, 0), _MOST) if type(value) is int else otherwise
