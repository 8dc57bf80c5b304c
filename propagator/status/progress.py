"""The progress of a whole Workload in terms of kstatus, for tools that know no kinds.

`observedGeneration` is the lower of `observed.controller`, the generation decided on, and
`observed.propagator`, the one reported on. Only the propagator writes Ready, Reconciling and
Stalled. It reads the decision from the stored status, so a decision stays one write.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crds.workload import WAITING, WorkloadCondition
from machinery.clock import parse_timestamp
from machinery.types import conditions
from propagator.types.workload import Workload

_DECIDED = (WorkloadCondition.SCHEDULED.value, WorkloadCondition.ROLLED_OUT.value)


def generations(workload: Workload) -> dict[str, Any]:
    now = workload.metadata.generation
    decided = workload.status.observed.controller
    if decided is None:
        return {"observedGeneration": now, "observed": {"propagator": now}}
    # Repeat the controller's value: a JSON patch replaces the whole mapping.
    seen = {"controller": decided, "propagator": now}
    return {"observedGeneration": min(seen.values()), "observed": seen}


def behind(status: Mapping[str, Any]) -> bool:
    return bool(status["observedGeneration"] != status["observed"]["propagator"])


def news(workload: Workload, status: Mapping[str, Any]) -> bool:
    old = workload.status
    before = (old.observed_generation, old.observed.propagator)
    return (status["observedGeneration"], status["observed"]["propagator"]) != before


def placed(workload: Workload) -> bool:
    """Whether every unit of the present generation has a cluster, and its template.

    True for a scheduler that writes neither `observed` nor `pending`.
    """
    if workload.status.observed.controller not in (None, workload.metadata.generation):
        return False
    refused = (conditions.among(workload.conditions, each).get("status") for each in _DECIDED)
    return "False" not in refused and not workload.status.pending


def seconds_to_ready(workload: Workload, status: Mapping[str, Any], now: datetime) -> float | None:
    """Return how long a Workload was not Ready that becomes so; None for any other.

    Without an earlier report the time counts since it was scheduled.
    """
    was = conditions.among(workload.conditions, WorkloadCondition.READY.value)
    if was.get("status") == "True" or not conditions.holds(status, WorkloadCondition.READY):
        return None
    before = was or conditions.among(workload.conditions, WorkloadCondition.SCHEDULED.value)
    try:
        since = parse_timestamp(str(before.get("lastTransitionTime")))
    except (ValueError, OverflowError):
        return None
    return max((now - since).total_seconds(), 0.0)


def told(
    workload: Workload, listed: Mapping[str, conditions.Condition], now: datetime
) -> list[conditions.Condition]:
    """Add Reconciling or Stalled to the conditions unless Ready is True.

    The cause is a refusal of the present generation; without one, units are on their way.
    """
    refusals = (listed.get(each, {}) for each in (*_DECIDED, WorkloadCondition.PROPAGATED.value))
    cause = next((each for each in refusals if _refuses(each, workload)), None)
    return conditions.with_progress(listed.values(), waits=WAITING, cause=cause, now=now)


def _refuses(condition: conditions.Condition, workload: Workload) -> bool:
    now = workload.metadata.generation
    return condition.get("status") == "False" and condition.get("observedGeneration", now) == now
