"""Words for shares, changes, numbers, reasons, causes and times in what the commands print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controller.planner.reasons import worded
from crds.names import short_revision
from machinery.types.api import PlacementChange, PlacementReasons, PlacementRule, PlacementStep

SHOWN = 6
"""Entries that one cell names."""


def shares(placements: Mapping[str, int]) -> str:
    """Return `member-a=1,host=3`; a dash for none."""
    return _cut([f"{cluster}={units}" for cluster, units in placements.items()], ",") or "-"


def listed(placements: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return shares as the API lists them: `cluster` and `replicas`, in the order given."""
    return [{"cluster": cluster, "replicas": units} for cluster, units in placements.items()]


def some(names: Sequence[str]) -> str:
    """Return `a, b, c, d, e …`: the first five."""
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def change(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return `member-a 3 → 2, member-c +1, member-d -4`; empty when nothing moves.

    A plus marks a new cluster, a minus one that is left.
    """
    moved = []
    for cluster in sorted({*before, *after}):
        old, new = before.get(cluster), after.get(cluster)
        if old is None:
            moved.append(f"{cluster} +{new}")
        elif new is None:
            moved.append(f"{cluster} -{old}")
        elif old != new:
            moved.append(f"{cluster} {old} → {new}")
    return _cut(moved, ", ")


def inside(shares: Iterable[Mapping[str, Any]], namespace: str) -> str:
    """Return `2 replicas inside rsv/launch, 1 replica inside shop/rsv/pool`; empty for none.

    `shares` is `status.reservations` of a Workload in `namespace`.
    """
    units: dict[str, int] = {}
    for share in shares:
        where = "" if share["namespace"] == namespace else f"{share['namespace']}/"
        name = f"{where}rsv/{share['name']}"
        units[name] = units.get(name, 0) + share["replicas"]
    return _cut([f"{count(n, 'replica')} inside {name}" for name, n in units.items()], ", ")


def completions(parts: Mapping[str, int]) -> str:
    """Return `completions: m1=6,m2=4`; empty for none."""
    return f"completions: {shares(parts)}" if parts else ""


def ordinals(ranges: Iterable[Mapping[str, Any]]) -> str:
    """Return `ordinals: m1 db-0 to db-2, m2 db-1000`; empty for none."""
    text = _cut([f"{each['cluster']} {each['pods']}" for each in ranges], ", ")
    return f"ordinals: {text}" if text else ""


def pods(profile: Mapping[str, Any]) -> str:
    """Return `runs whole: head 1 x cpu 2 · tpu 8 x cpu 8`; empty where a replica is one pod."""
    sorts = profile.get("pods") or ()
    if sum(each["count"] for each in sorts) < 2:
        return ""
    told = []
    for each in sorts:
        amounts = ", ".join(f"{name} {amount}" for name, amount in each["requests"].items())
        told.append(f"{each['name']} {each['count']}" + (f" x {amounts}" if amounts else ""))
    head = "runs whole" if profile["whole"] else "a replica"
    return f"{head}: {_cut(told, ' · ')}"


def transition(stable: str, revision: str) -> str:
    """Return `91ab → 6f2c`, or `6f2c` without another stable revision."""
    new = short_revision(revision)
    return f"{short_revision(stable)} → {new}" if stable and stable != revision else new


def count(number: int, what: str) -> str:
    """Return `1 replica`, `2 replicas`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def hooks(told: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a line for each change by a hook: `hook Anywhere took clusterSelector away`."""
    return [f"hook {each['plugin']} {each['text']}" for each in told]


def time(text: str) -> datetime | None:
    """Return the time in a status; None for a text that is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def seconds(number: float) -> str:
    """Return `42s`, `5m`, `3h` or `12d`."""
    left = max(int(number), 0)
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if left >= 2 * size:
            return f"{left // size}{letter}"
    return f"{left}s"


def _cut(parts: Sequence[str], joint: str) -> str:
    if len(parts) <= SHOWN:
        return joint.join(parts)
    return joint.join((*parts[: SHOWN - 1], f"… {len(parts) - SHOWN + 1} more"))


ELSEWHERE = "by somebody else"

_CAUSES = {
    "Placed": "placed",
    "Imported": "taken over where it ran",
    "Scaled": "scaled",
    "Edited": "spec edited",
    "ClusterGone": "cluster {name} gone",
    "ClusterRenamed": "cluster {name} renamed",
    "ClusterAdded": "cluster {name} added",
    "QuotaGrown": "the quota let more in",
    "RoomGained": "room came free",
    "LimitLearnt": "{name} was seen to run fewer",
    "Rescheduled": "{name} left replicas without a node",
    "NoNode": "no node of {name} can hold it",
    "Unhealthy": "it was unhealthy on {name}",
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
    """Return the words for the cause of a change; an unknown one by its own name."""
    known = _CAUSES.get(word)
    return known.format(name=name) if known else f"{word} {name}".strip()


def departure(cluster: str, word: str, name: str) -> str:
    """Return the words for why a share leaves: a taint that drives it away is its cluster's."""
    return cause(word, cluster if name.endswith(":NoExecute") else name)


def leave_later(shares: Iterable[Mapping[str, Any]], now: datetime) -> list[str]:
    """Return `m1: 2 replicas leave at 10:02 (cluster m1 lost), unless it is back` for each."""
    return [
        f"{each['cluster']}: {count(each['replicas'], 'replica')} "
        f"{'leaves' if each['replicas'] == 1 else 'leave'} at {moment(each['time'], now)} "
        f"({departure(each['cluster'], each['cause'], each['name'])})"
        f"{', unless it is back' if each['cause'] == 'ClusterLost' else ''}"
        for each in shares
    ]


def rules(because: Sequence[PlacementRule]) -> str:
    """Return the rules behind a number as one line; empty for none."""
    return ", ".join(worded(each.rule, each.numbers, each.name) for each in because)


def steps(share: PlacementReasons, now: datetime) -> list[str]:
    """Return the steps of a share: `5 at 10:02, placed: …`, `2 more at 11:40, scaled: …`."""
    return [_step(each, not at, now) for at, each in enumerate(share.steps)]


def _step(step: PlacementStep, first: bool, now: datetime) -> str:
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
    """Return the local time, with the day unless it is today; a text that is no time as it is."""
    at = time(text)
    if at is None:
        return text
    try:
        here, today = at.astimezone(), now.astimezone()
    except OverflowError:  # at an end of the calendar there is no such time here
        return text
    return here.strftime("%H:%M" if here.date() == today.date() else "%Y-%m-%d %H:%M")


def age(text: str, now: datetime) -> str:
    """Return the age as kubectl prints it: `5m`; `?` if unknown."""
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
