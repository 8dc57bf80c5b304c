"""Words for reasons, causes and times that the status keeps as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.model.why import PlacementChange, RuleNote, ShareStep, ShareSteps
from controller.planner.reasons import worded
from stowage.planning.words import seconds, time, transition

ELSEWHERE = "by somebody else"

_CAUSES = {
    "Placed": "placed",
    "Scaled": "scaled",
    "Edited": "spec edited",
    "ClusterGone": "cluster {name} gone",
    "ClusterRenamed": "cluster {name} renamed",
    "ClusterAdded": "cluster {name} added",
    "QuotaGrown": "the quota let more in",
    "RoomGained": "room came free",
    "LimitLearnt": "{name} was seen to run fewer",
    "Rescheduled": "{name} left units without a node",
    "NoNode": "no node of {name} can hold it",
    "LimitLifted": "{name} may run more again",
    "Drained": "cluster {name} drained",
    "Tainted": "a taint of cluster {name}",
    "ClusterLost": "cluster {name} lost",
    "OutOfService": "cluster {name} out of service",
    "Rebalanced": "planned anew, as asked for",
    "Returned": "cluster {name} is back",
    "MoveCancelled": "nothing leaves cluster {name} any more",
    "GroupWithdrawn": "wg/{name} did not start, so all of it was taken back",
    "FleetChanged": "the fleet changed",
}


def cause(word: str, name: str) -> str:
    """Return the words for the cause of a change; one of a later release by its own name."""
    known = _CAUSES.get(word)
    return known.format(name=name) if known else f"{word} {name}".strip()


def rules(because: Sequence[RuleNote]) -> str:
    """Return the rules behind a number as one line; empty where none is recorded."""
    return ", ".join(worded(each.rule, each.numbers, each.name) for each in because)


def steps(share: ShareSteps, now: datetime) -> list[str]:
    """Return the steps of a share: `5 at 10:02, placed: …`, `2 more at 11:40, scaled: …`."""
    return [_step(each, not at, now) for at, each in enumerate(share.steps)]


def _step(step: ShareStep, first: bool, now: datetime) -> str:
    units = (
        f"{step.units}" if first else f"{abs(step.units)} {'more' if step.units > 0 else 'fewer'}"
    )
    if not step.time:
        return f"{units} {ELSEWHERE}"
    head = f"{units} at {moment(step.time, now)}, {cause(step.cause, step.name)}"
    made = rules(step.because)
    return f"{head}: {made}" if made else head


def counts(change: PlacementChange) -> str:
    return f"{change.assigned} of {change.desired}"


def moment(text: str, now: datetime) -> str:
    """Return the local time, with the day where that is not today; a text that is no time as is."""
    at = time(text)
    if at is None:
        return text
    try:
        here, today = at.astimezone(), now.astimezone()
    except OverflowError:  # at an end of the calendar there is no such time here
        return text
    return here.strftime("%H:%M" if here.date() == today.date() else "%Y-%m-%d %H:%M")


def age(text: str, now: datetime) -> str:
    """Return the age as kubectl prints it: `5m`; `?` where it is not known."""
    at = time(text)
    return "?" if at is None else seconds((now - at).total_seconds())


def rollout(status: Mapping[str, Any]) -> str:
    """Return `rollout 91ab → 6f2c: Soaking, wave eu` and what it waits for; empty at rest."""
    told = status.get("rollout") or {}
    if told.get("phase", "Complete") == "Complete":
        return ""
    said = f"rollout {transition(told.get('stable') or '', told['revision'])}: {told['phase']}"
    wave, message = told.get("wave"), told.get("message")
    return said + (f", wave {wave}" if wave else "") + (f": {message}" if message else "")


def units(shares: Mapping[str, int]) -> int:
    return sum(shares.values())
