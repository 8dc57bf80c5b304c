"""How far a Workload as a whole is, in the words of kstatus, which tools read that know no kinds.

The controller says in `observed.controller` which generation it has decided on, the propagator in
`observed.propagator` which one its report is about, and `observedGeneration` is the lower of both:
no tool takes what is said of an older generation for the present one. Ready, Reconciling and
Stalled are the propagator's alone. It learns from the stored status what the controller has
decided, so a decision stays one write, and a Workload that has no cluster gets a second one.
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
    """Return the fields of the status that say which generation has been seen."""
    now = workload.metadata.generation
    decided = workload.status.observed.controller
    if decided is None:
        return {"observedGeneration": now, "observed": {"propagator": now}}
    # The controller's as it was read: a JSON patch replaces the whole.
    seen = {"controller": decided, "propagator": now}
    return {"observedGeneration": min(seen.values()), "observed": seen}


def behind(status: Mapping[str, Any]) -> bool:
    """Whether the decision on the generation that a report is about is still to come."""
    return bool(status["observedGeneration"] != status["observed"]["propagator"])


def news(workload: Workload, status: Mapping[str, Any]) -> bool:
    """Whether the stored status does not say yet which generation has been seen."""
    old = workload.status
    before = (old.observed_generation, old.observed.propagator)
    return (status["observedGeneration"], status["observed"]["propagator"]) != before


def placed(workload: Workload) -> bool:
    """Whether every unit that the present generation asks for has a cluster, and its template.

    A scheduler that says neither what it read nor what is pending is believed to have placed all.
    """
    if workload.status.observed.controller not in (None, workload.metadata.generation):
        return False
    refused = (conditions.among(workload.conditions, each).get("status") for each in _DECIDED)
    return "False" not in refused and not workload.status.pending


def seconds_to_ready(workload: Workload, status: Mapping[str, Any], now: datetime) -> float | None:
    """Return how long a Workload was not Ready that the status calls Ready; None for any other.

    A Workload whose first report says so was not Ready since it was scheduled.
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
    """Return the conditions, with Reconciling or Stalled unless Ready is True.

    The cause is the refusal of the present generation, by the controller or on a member; without
    one, units are on their way.
    """
    refusals = (listed.get(each, {}) for each in (*_DECIDED, WorkloadCondition.PROPAGATED.value))
    cause = next((each for each in refusals if _refuses(each, workload)), None)
    return conditions.with_progress(listed.values(), waits=WAITING, cause=cause, now=now)


def _refuses(condition: conditions.Condition, workload: Workload) -> bool:
    now = workload.metadata.generation
    return condition.get("status") == "False" and condition.get("observedGeneration", now) == now
