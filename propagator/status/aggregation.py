"""A Workload's status from its entries: their sums, its progress, and our conditions. Pure.

Nothing but the entries and the stored Workload counts. A condition names its generation: while the
present one is in flight, nothing of the one before is reported for it.

`observedGeneration` is the lower of `observed.controller`, the generation decided on, and
`observed.propagator`, the one reported on. Only the propagator writes Ready, Reconciling and
Stalled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import msgspec

from crds.fields.drift import DriftedReason, DriftState
from crds.fields.shares import BlockedReason, ShareHealth, ShareState
from crds.workload import (
    WAITING,
    PropagatedReason,
    WorkloadCondition,
    WorkloadReadyReason,
    WorkloadState,
)
from machinery.clock import parse_timestamp, timestamp
from machinery.kinds.profile import Profile, kind_name, with_article
from machinery.kinds.readiness import Result
from machinery.types import conditions
from propagator.drift.records import STANDING, Drifted
from propagator.members.noted_kinds import first_kinds
from propagator.members.pod_index import PodCounts
from propagator.status.cluster_share import MESSAGE_LIMIT
from propagator.types.workload import Workload

_BAD = (ShareState.FAILED.value, ShareState.UNREACHABLE.value)
_WELL = frozenset({ShareState.RUNNING.value, ShareState.COMPLETE.value})
_AGAIN = "it runs once: an object of another name, in spec.template.metadata.name, runs again"
_BY_THE_AUTHOR = (PropagatedReason.WAITING_FOR_GROUP, PropagatedReason.SUSPENDED)
"""Reasons that a fault elsewhere comes before."""
_SENTENCES = 20
MOST_FIELD_BYTES = 64 * 1024
"""The bytes of all `fields` of a status, as JSON."""


Entry: TypeAlias = Mapping[str, Any]


def status_of(
    workload: Workload,
    entries: Sequence[Entry],
    now: datetime,
    kept: Sequence[Mapping[str, Any]] = (),
    drift: Sequence[Mapping[str, Any]] = (),
    *,
    remark: str = "",
) -> dict[str, Any]:
    """`kept` is that of `Survey.kept`, `drift` that of `DriftRecords.told`.

    `remark` precedes the message of a True Propagated.
    """
    entries, omitted = within_bytes(entries)
    placed = [entry for entry in entries if entry["state"] != ShareState.LEAVING.value]
    ready = sum(min(_ready(entry), entry["replicas"]) for entry in placed)
    if workload.profile.whole:
        ready = sum(_ready(entry) for entry in placed)
    desired = workload.status.desired
    if desired is None:
        desired = sum(workload.placements.values())
    # A lost cluster may still hold what left the placements: that is no part of the state.
    wanted = [entry for entry in placed if not _leaves(entry, workload)]
    state = _overall(wanted, workload.metadata.generation)
    missing = _missing(ready, desired)
    status: dict[str, Any] = {
        **_generations(workload),
        "clusters": [*entries],
        "kept": [*kept],
        "ready": ready,
        "readySummary": f"{ready}/{desired}",
        "serviceExternalIP": _addresses(entries) or None,
        "conditions": _conditions(workload, entries, state, drift, now, remark, missing=missing),
    }
    if omitted or workload.status.fields_omitted:
        status["fieldsOmitted"] = omitted or None
    if drift or workload.status.drift:
        status["drift"] = [*drift]
    if conditions.holds(status, WorkloadCondition.PROPAGATED):
        status |= first_kinds(workload)
    if workload.placements:
        status["state"] = state.value
        summary = _summary(workload.placements)
        if workload.status.cluster_summary != summary:
            status["clusterSummary"] = summary
    return status


def within_bytes(
    entries: Sequence[Mapping[str, Any]], *, shared: bool = False
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the entries with as many `fields` as there is room for, and how many lack theirs.

    `shared`: those have empty ones, by which other tellers count them.
    """
    left, omitted = MOST_FIELD_BYTES, 0
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        fields = entry.get("fields")
        size = len(msgspec.json.encode(fields)) if fields else 0
        if fields is None or 0 < size <= left:
            left -= size
            found.append(entry)
            continue
        omitted += 1
        bare = {key: value for key, value in entry.items() if key != "fields"}
        found.append({**bare, "fields": {}} if shared else bare)
    return found, omitted


def condition(workload: Workload, kind: WorkloadCondition) -> Mapping[str, Any]:
    """Empty without one."""
    return conditions.among(workload.conditions, kind.value)


def propagated(
    workload: Workload, entries: Sequence[Entry], before: Entry, *, wanted: bool = True
) -> tuple[PropagatedReason, str] | None:
    """Return the worst known reason for the condition Propagated, and its message.

    None keeps `before`: nothing new is known, or nothing `wanted` has ever been placed.
    """
    if wanted and not (entries or before):
        return None
    trouble = _trouble(workload, entries, before)
    if trouble is not None:
        return trouble
    if any(_under_way(entry, workload) for entry in entries):
        return PropagatedReason.PROPAGATING, "objects are on their way"
    if before and any(_unexplained(entry) for entry in entries):
        return None
    if stays := [f"{each['name']}: {each['message']}" for each in entries if _stays(each)]:
        return PropagatedReason.PROPAGATING, _joined(stays)
    placed = [each for each in entries if each["state"] != ShareState.LEAVING.value]
    names = ", ".join(entry["name"] for entry in placed[:MESSAGE_LIMIT])
    return PropagatedReason.PROPAGATED, f"all objects are on {names}" if names else "nothing to do"


def _trouble(
    workload: Workload, entries: Sequence[Entry], before: Entry
) -> tuple[PropagatedReason, str] | None:
    """Return the worst known reason, and its messages."""
    known, held, keeping, away = [], [], [], []
    for entry in entries:
        reason, text = _reason(entry), str(entry["message"])
        if entry["state"] == ShareState.UNREACHABLE.value:
            away.append((PropagatedReason.CLUSTER_UNREACHABLE, text))
        elif reason in _BY_THE_AUTHOR:
            # An entry of a share that runs meanwhile may have no words.
            held.append((reason, text or str(before.get("message", ""))))
        elif reason is not None and reason is not PropagatedReason.PROPAGATING:
            known.append((reason, text))
        elif reason is not None and text and (_blocked(entry) or not _leaves(entry, workload)):
            keeping.append((reason, text))
    # A group, or a share that keeps replicas, may wait for the very cluster that is in trouble: its
    # own message is more specific.
    problems = known or away or held or keeping
    if not problems:
        return None
    order = list(PropagatedReason)
    worst = min({reason for reason, _ in problems}, key=order.index)
    return worst, _joined(sorted({text for reason, text in problems if reason is worst}))


def _reason(entry: Entry) -> PropagatedReason | None:
    with suppress(ValueError):
        return PropagatedReason(entry.get("reason", ""))
    return None


def _leaves(entry: Entry, workload: Workload) -> bool:
    if entry["state"] == ShareState.LEAVING.value:
        return True
    return "ended" not in entry and entry["name"] not in workload.placements


def _blocked(entry: Entry) -> bool:
    """Whether a disruption budget keeps the share."""
    said = entry.get("blocked") or {}
    return bool(said.get("reason") == BlockedReason.DISRUPTION_BUDGET.value)


def _stays(entry: Entry) -> bool:
    left = entry["state"] == ShareState.LEAVING.value
    return left and _reason(entry) is PropagatedReason.PROPAGATING


def _under_way(entry: Entry, workload: Workload) -> bool:
    if "ended" in entry or _leaves(entry, workload):
        return False
    reason, state = _reason(entry), entry["state"]
    if reason is not None or state in _BAD:
        return reason is PropagatedReason.PROPAGATING and not entry["message"]
    old = entry.get("observedGeneration") != workload.metadata.generation
    return bool(state == ShareState.PENDING.value or old)


def _unexplained(entry: Entry) -> bool:
    """Whether an entry tells that something is wrong and not what: it was made by somebody else."""
    return entry["state"] in _BAD and "ended" not in entry and _reason(entry) is None


def _joined(sentences: Sequence[str]) -> str:
    more = len(sentences) - _SENTENCES
    shown = [*sentences[:_SENTENCES], *([f"and {more} more like these"] if more > 0 else [])]
    return "; ".join(shown)


def _overall(placed: Sequence[Mapping[str, Any]], generation: int) -> WorkloadState:
    """Return the least state of the shares, failures first."""
    states = {entry["state"] for entry in placed}
    if ShareState.FAILED.value in states:
        return WorkloadState.FAILED
    if ShareState.SUSPENDED.value in states:
        return WorkloadState.SUSPENDED
    if states == {ShareState.COMPLETE.value}:
        return WorkloadState.COMPLETE
    if placed and all(_runs(entry, generation) for entry in placed):
        return WorkloadState.RUNNING
    if ShareState.UNREACHABLE.value in states:
        return WorkloadState.UNREACHABLE
    begun = states & {ShareState.CREATING.value, *_WELL}
    return WorkloadState.CREATING if begun else WorkloadState.SCHEDULED


def _runs(entry: Mapping[str, Any], generation: int) -> bool:
    """Whether a share runs; on an unreachable cluster only what has ended is known to."""
    if entry["state"] == ShareState.UNREACHABLE.value:
        written = entry.get("observedGeneration") == generation
        return bool(written and _ready(entry) >= entry["replicas"] > 0)
    return entry["state"] in _WELL


def _ready(entry: Mapping[str, Any]) -> int:
    """Return the ready replicas of a share; on an unreachable cluster those that ended."""
    if entry["state"] == ShareState.UNREACHABLE.value:
        return int(entry.get("succeeded", 0))
    return int(entry["ready"])


def _addresses(entries: Iterable[Mapping[str, Any]]) -> str:
    found = [
        str(ingress.get("ip") or ingress.get("hostname"))
        for entry in entries
        for ingress in (entry.get("loadBalancer") or {}).get("ingress") or []
    ]
    return ",".join(found)[:MESSAGE_LIMIT]


def _summary(placements: Mapping[str, int]) -> str:
    shown = itertools.islice(placements.items(), MESSAGE_LIMIT)  # each is longer than a character
    text = ",".join(f"{cluster}={replicas}" for cluster, replicas in shown)
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def _conditions(
    workload: Workload,
    entries: Sequence[Entry],
    state: WorkloadState,
    drift: Sequence[Mapping[str, Any]],
    now: datetime,
    remark: str,
    *,
    missing: str,
) -> list[conditions.Condition]:
    after = {each["type"]: each for each in workload.conditions}
    before = condition(workload, WorkloadCondition.PROPAGATED)
    # Scaled to 0 before the first write: nothing will ever be placed.
    wanted = workload.status.desired != 0 or not _all_placed(workload)
    verdict = propagated(workload, entries, before, wanted=wanted)
    if verdict is not None:
        reason, message = verdict
        good = reason is PropagatedReason.PROPAGATED
        if good and remark:
            message = f"{remark}; {message}"
        _renew(after, workload, WorkloadCondition.PROPAGATED, good, reason.value, message, now)
    ready = _all_placed(workload) and _all_ready(workload, entries, state)
    why, text = WorkloadReadyReason.ALL_READY, "every replica is ready"
    if ready and state is WorkloadState.COMPLETE:
        why, text = WorkloadReadyReason.COMPLETED, _AGAIN
    elif not ready:
        why, text = _not_ready(workload, entries)
        text = text or _joined([missing, *_whys(workload, entries)])
    if more := [f"{each['name']}: {each['message']}" for each in entries if _remarks(each)]:
        text = f"{text}; {_joined(more)}"
    _renew(after, workload, WorkloadCondition.READY, ready, why.value, text, now)
    stands = [each for each in drift if each["state"] in STANDING]
    if stands or WorkloadCondition.DRIFTED.value in after:
        cause = min((each["state"] for each in stands), default=DriftedReason.NONE.value)
        message = (
            _joined([_drifted(each) for each in stands]) or "every object is as it was applied"
        )
        _renew(after, workload, WorkloadCondition.DRIFTED, bool(stands), cause, message, now)
    return _with_progress(workload, after, now)


def _remarks(entry: Entry) -> bool:
    """Whether a share that runs as it should says something all the same."""
    runs = entry["state"] == ShareState.RUNNING.value and not entry.get("outdated")
    return bool(runs and entry["message"] and _reason(entry) is None)


def _main(workload: Workload) -> str:
    outline = workload.outline
    return f"{outline.kind} {outline.name or workload.metadata.name}"


def _missing(ready: int, desired: int) -> str:
    if not desired:
        return "no replica is wanted, and what runs is not gone yet"
    found = f"{ready} of {desired} replicas are ready"
    if ready < desired:
        return found
    return f"{found}, but not all of them are known to run the present generation"


def _all_ready(workload: Workload, entries: Sequence[Entry], state: WorkloadState) -> bool:
    if all(entry["state"] == ShareState.LEAVING.value for entry in entries):
        return workload.status.desired == 0 and not entries
    well = state in (WorkloadState.RUNNING, WorkloadState.COMPLETE)
    return well and not _outdated(workload, entries)


def _not_ready(workload: Workload, entries: Sequence[Entry]) -> tuple[WorkloadReadyReason, str]:
    if failed := [each for each in entries if each.get("ended", {}).get("result") == Result.FAILED]:
        told = (f"{each['name']}: {each['ended'].get('message') or 'it failed'}" for each in failed)
        return WorkloadReadyReason.FAILED, f"{_joined([*told])}; {_AGAIN}"
    by_author = [e["message"] for e in entries if e["state"] == ShareState.SUSPENDED.value]
    if by_author:
        return WorkloadReadyReason.SUSPENDED, _joined(by_author)
    suspended, silent, main = list[str](), list[str](), _main(workload)
    for each in entries:
        if each["state"] == ShareState.UNREACHABLE.value or _leaves(each, workload):
            continue
        if each.get("health") == ShareHealth.SUSPENDED:
            suspended.append(f"{each['name']}: {main} is suspended")
        elif each.get("health") == ShareHealth.UNKNOWN:
            why = f": {each['message']}" if each["message"] else " says nothing"
            silent.append(f"{each['name']}: {main}{why}")
    if suspended:
        return WorkloadReadyReason.SUSPENDED, _joined(suspended)
    if not silent:
        return WorkloadReadyReason.REPLICAS_NOT_READY, ""
    profile = workload.profile
    advice = f"; {_advice(profile)}" if not (profile.known or profile.fault) else ""
    return WorkloadReadyReason.READINESS_UNKNOWN, f"{_joined(silent)}{advice}"


def _whys(workload: Workload, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield what an object that runs whole says of its readiness: no number tells it."""
    if not workload.profile.whole or workload.profile.everywhere:
        return
    for each in entries:
        waits = each.get("health") in (ShareHealth.PROGRESSING, ShareHealth.DEGRADED)
        if waits and each["message"] and not _leaves(each, workload):
            yield f"{each['name']}: {each['message']}"


def _advice(profile: Profile) -> str:
    if profile.versions:
        return f"known versions of {with_article(profile.kind)} are {', '.join(profile.versions)}"
    named = kind_name(profile.group, profile.kind)
    return f"ready of a WorkloadKind {named} says when it is ready"


def _outdated(workload: Workload, entries: Iterable[Entry]) -> bool:
    found = (each.get("outdated", 0) for each in entries if not _leaves(each, workload))
    most = max(found, default=0)
    return most > 0 and most > workload.kept_back


def _drifted(entry: Mapping[str, Any]) -> str:
    paths = ", ".join(each["path"] for each in entry["paths"])
    told = f"{Drifted.told(entry)}: {paths}"
    if entry["state"] == DriftState.DROPPED.value:
        told += f": {entry['paths'][0]['manager']} took it without a fault and kept nothing of it"
    return told


def _renew(
    after: dict[str, dict[str, Any]],
    workload: Workload,
    kind: WorkloadCondition,
    good: bool,
    reason: str,
    message: str,
    now: datetime,
) -> None:
    after[kind.value] = conditions.renewed(
        after.get(kind.value, {}),
        type_=kind.value,
        true=good,
        reason=reason,
        message=message[:MESSAGE_LIMIT],
        now=now,
        generation=workload.metadata.generation,
    )


_DECIDED = (WorkloadCondition.SCHEDULED.value, WorkloadCondition.ROLLED_OUT.value)


def _generations(workload: Workload) -> dict[str, Any]:
    now = workload.metadata.generation
    decided = workload.status.observed.controller
    if decided is None:
        return {"observedGeneration": now, "observed": {"propagator": now}}
    # Repeat the controller's value: a JSON patch replaces the whole mapping.
    seen = {"controller": decided, "propagator": now}
    return {"observedGeneration": min(seen.values()), "observed": seen}


def behind(status: Mapping[str, Any]) -> bool:
    return bool(status["observedGeneration"] != status["observed"]["propagator"])


def new_generation(workload: Workload, status: Mapping[str, Any]) -> bool:
    old = workload.status
    before = (old.observed_generation, old.observed.propagator)
    return (status["observedGeneration"], status["observed"]["propagator"]) != before


def _all_placed(workload: Workload) -> bool:
    """True for a scheduler that writes neither `observed` nor `pending`."""
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


def _with_progress(
    workload: Workload, listed: Mapping[str, conditions.Condition], now: datetime
) -> list[conditions.Condition]:
    """Add Reconciling or Stalled to the conditions unless Ready is True."""
    refusals = (listed.get(each, {}) for each in (*_DECIDED, WorkloadCondition.PROPAGATED.value))
    cause = next((each for each in refusals if _refuses(each, workload)), None)
    return conditions.with_progress(listed.values(), waits=WAITING, cause=cause, now=now)


def _refuses(condition: conditions.Condition, workload: Workload) -> bool:
    now = workload.metadata.generation
    return condition.get("status") == "False" and condition.get("observedGeneration", now) == now


BY_OTHERS = "another tool brings it, as spec.delivery is None"
_DELIVERY = (
    WorkloadCondition.PROPAGATED.value,
    WorkloadCondition.DRIFTED.value,
)


class OthersShare(NamedTuple):
    """`pods` is None while they are not observed; `trouble` says why."""

    name: str
    replicas: int
    pods: PodCounts | None
    trouble: str = ""


def undelivered_status(
    workload: Workload, seen: Sequence[OthersShare], now: datetime
) -> dict[str, Any]:
    """Return the status of a Workload that another tool delivers.

    Ready means that the decision is made.
    """
    before = {share["name"]: share for share in workload.status.clusters}
    entries = [_undelivered_entry(each, before.get(each.name, {})) for each in seen]
    ready = sum(min(each["ready"], each["replicas"]) for each in entries)
    desired = workload.status.desired
    status: dict[str, Any] = {
        **_generations(workload),
        "clusters": entries,
        "kept": [],
        "ready": ready,
        "readySummary": f"{ready}/{sum(workload.decided.values()) if desired is None else desired}",
        "serviceExternalIP": None,
        "conditions": _undelivered_conditions(workload, now),
    }
    if workload.status.drift:
        status["drift"] = []
    if workload.status.dependencies:
        status["dependencies"] = []
    if entries:
        runs = all(each["state"] == ShareState.RUNNING for each in entries)
        status["state"] = (WorkloadState.RUNNING if runs else WorkloadState.SCHEDULED).value
    return status


def _undelivered_entry(seen: OthersShare, before: Mapping[str, Any]) -> dict[str, Any]:
    if seen.pods is None:
        away = {"state": ShareState.UNREACHABLE.value, "message": seen.trouble}
        return {
            **dict.fromkeys(_COUNTS, 0),
            "state": ShareState.PENDING.value,
            "message": BY_OTHERS,
            **{name: before[name] for name in _KEPT if name in before},
            "name": seen.name,
            "replicas": seen.replicas,
            **(away if seen.trouble else {}),
        }
    pods = seen.pods
    runs = pods.ready >= seen.replicas
    begun = ShareState.CREATING if pods.current else ShareState.PENDING
    since = pods.oldest_unschedulable
    entry = {
        **dict.fromkeys(_COUNTS, 0),
        "name": seen.name,
        "replicas": seen.replicas,
        "ready": pods.ready,
        "unschedulable": pods.unschedulable,
        "unschedulableSince": timestamp(since) if since else None,
        # 0 if the other counts add up to it.
        "current": pods.current if pods.current > (pods.scheduled or 0) + pods.unschedulable else 0,
        "scheduled": pods.scheduled if pods.scheduled is not None else before.get("scheduled", 0),
        "capacityVersion": pods.capacity_version,
        "state": (ShareState.RUNNING if runs else begun).value,
        "message": "" if pods.current else BY_OTHERS,
    }
    return {name: value for name, value in entry.items() if value is not None}


_COUNTS = ("scheduled", "current", "ready", "unschedulable", "updated", "finished")
_KEPT = (*_COUNTS, "capacityVersion", "unschedulableSince", "state", "message")


_DECISIONS = {
    WorkloadReadyReason.DECIDED: "every replica has a cluster, and another tool brings it there",
    WorkloadReadyReason.NOT_DECIDED: "not every replica of this generation has a cluster yet",
}


def _undelivered_conditions(workload: Workload, now: datetime) -> list[conditions.Condition]:
    after = {each["type"]: each for each in workload.conditions if each["type"] not in _DELIVERY}
    decided = _all_placed(workload)
    why = WorkloadReadyReason.DECIDED if decided else WorkloadReadyReason.NOT_DECIDED
    ready = WorkloadCondition.READY.value
    after[ready] = conditions.renewed(
        after.get(ready, {}),
        type_=ready,
        true=decided,
        reason=why.value,
        message=_DECISIONS[why],
        now=now,
        generation=workload.metadata.generation,
    )
    return _with_progress(workload, after, now)
