"""A Workload's status from its shares: their sums, and the propagator's conditions. Pure.

A condition names its generation: while the present one is in flight, nothing of the one before is
reported for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from crds.fields.drift import DriftedReason, DriftState
from crds.fields.shares import ShareHealth, ShareState
from crds.workload import PropagatedReason, WorkloadCondition, WorkloadReadyReason, WorkloadState
from machinery.types import conditions
from propagator.drift.records import STANDING, Drifted
from propagator.members.noted_kinds import first_kinds
from propagator.outcome import Outcome
from propagator.status import progress
from propagator.status.cluster_share import MESSAGE_LIMIT, ReportedShare, Word
from propagator.types.workload import Workload

_WELL = frozenset({ShareState.RUNNING.value, ShareState.COMPLETE.value})
_AGAIN = "it runs once: an object of another name, in spec.template.metadata.name, runs again"
_SEEN = (WorkloadReadyReason.SUSPENDED, WorkloadReadyReason.READINESS_UNKNOWN)
"""Reasons read from the members' objects. They stay until these are observed again."""
_SENTENCES = 20


def status_of(
    workload: Workload,
    shares: Sequence[ReportedShare],
    now: datetime,
    kept: Sequence[Mapping[str, Any]] = (),
    drift: Sequence[Mapping[str, Any]] = (),
    *,
    remark: str = "",
) -> dict[str, Any]:
    """`kept` is that of `Survey.kept`, `drift` that of `DriftRecords.told`.

    `remark` precedes the message of a True Propagated.
    """
    entries = [share.entry for share in shares]
    placed = [entry for entry in entries if entry["state"] != ShareState.LEAVING.value]
    ready = sum(min(_ready(entry), entry["replicas"]) for entry in placed)
    if workload.profile.whole:
        ready = sum(_ready(entry) for entry in placed)
    desired = workload.status.desired
    if desired is None:
        desired = sum(workload.placements.values())
    state = _overall(placed, workload.metadata.generation)
    status: dict[str, Any] = {
        **progress.generations(workload),
        "clusters": entries,
        "kept": [*kept],
        "ready": ready,
        "readySummary": f"{ready}/{desired}",
        "serviceExternalIP": _addresses(entries) or None,
        "conditions": _conditions(workload, placed, shares, state, drift, now, remark),
    }
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


def condition(workload: Workload, kind: WorkloadCondition) -> Mapping[str, Any]:
    """Empty without one."""
    return conditions.among(workload.conditions, kind.value)


def propagated(
    placed: Sequence[Mapping[str, Any]],
    shares: Sequence[ReportedShare],
    before: Mapping[str, Any],
    *,
    wanted: bool = True,
) -> tuple[PropagatedReason, str] | None:
    """Return the worst known reason for the condition Propagated, and its message.

    None keeps `before`: nothing new is known, or nothing `wanted` has ever been placed.
    """
    if wanted and not (shares or before):
        return None
    waits = bool(before) and any(share.waits or _was_held(share, before) for share in shares)
    trouble = _trouble(shares)
    if trouble is not None:
        reason, sentences, news = trouble
        if waits and before["reason"] == reason.value and not news:
            return None
        return reason, _joined(sentences)
    if any(share.under_way for share in shares):
        return PropagatedReason.PROPAGATING, "objects are on their way"
    if waits:
        return None
    if stays := [f"{each.seen.name}: {each.entry['message']}" for each in shares if each.stays]:
        return PropagatedReason.PROPAGATING, _joined(stays)
    names = ", ".join(entry["name"] for entry in placed[:MESSAGE_LIMIT])
    return PropagatedReason.PROPAGATED, f"all objects are on {names}" if names else "nothing to do"


def _was_held(share: ReportedShare, before: Mapping[str, Any]) -> bool:
    return share.word is Word.STANDS and before["reason"] == PropagatedReason.WAITING_FOR_GROUP


def _trouble(shares: Sequence[ReportedShare]) -> tuple[PropagatedReason, list[str], bool] | None:
    """Return the worst known reason, its messages, and whether any is new."""
    told = [(share, o) for share in shares if (o := share.outcome) is not None]
    known = [_problem(share, o) for share, o in told if o.reason is not None]
    held = [each for each in known if each[0] is PropagatedReason.WAITING_FOR_GROUP]
    keeping = [_problem(share, o) for share, o in told if o.moves]
    away = [
        (PropagatedReason.CLUSTER_UNREACHABLE, share.seen.trouble, share.news)
        for share in shares
        if share.word is Word.AWAY
    ]
    # A group, or a share that keeps replicas, may wait for the very cluster that is in trouble: its
    # own message is more specific.
    problems = [each for each in known if each not in (*held, *keeping)] or away or held or keeping
    if not problems:
        return None
    order = list(PropagatedReason)
    worst = min({reason for reason, *_ in problems}, key=order.index)
    those = [each for each in problems if each[0] is worst]
    return worst, sorted({text for _, text, _ in those}), any(news for *_, news in those)


def _problem(share: ReportedShare, outcome: Outcome) -> tuple[PropagatedReason, str, bool]:
    return outcome.reason or PropagatedReason.PROPAGATED, outcome.message, share.news


def _joined(sentences: Sequence[str]) -> str:
    more = len(sentences) - _SENTENCES
    shown = [*sentences[:_SENTENCES], *([f"and {more} more like these"] if more > 0 else [])]
    return "; ".join(shown)


def _overall(placed: Sequence[Mapping[str, Any]], generation: int) -> WorkloadState:
    """Return the least state of the shares, failures first."""
    states = {entry["state"] for entry in placed}
    if ShareState.FAILED.value in states:
        return WorkloadState.FAILED
    if states == {ShareState.COMPLETE.value}:
        return WorkloadState.COMPLETE
    if placed and all(_runs(entry, generation) for entry in placed):
        return WorkloadState.RUNNING
    begun = states & {ShareState.CREATING.value, *_WELL}
    reachable = states - {ShareState.UNREACHABLE.value}
    return WorkloadState.CREATING if begun or not reachable else WorkloadState.SCHEDULED


def _runs(entry: Mapping[str, Any], generation: int) -> bool:
    """Whether a share runs; on an unreachable cluster only what has ended is known to."""
    if entry["state"] == ShareState.UNREACHABLE.value:
        written = entry.get("observedGeneration") == generation
        return bool(written and _ready(entry) >= entry["replicas"] > 0)
    return entry["state"] in _WELL


def _ready(entry: Mapping[str, Any]) -> int:
    """Return the ready replicas of a share; on an unreachable cluster those that ended.

    The others are Unknown, like pods of a lost Node. The entry keeps their last number.
    """
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
    placed: Sequence[Mapping[str, Any]],
    shares: Sequence[ReportedShare],
    state: WorkloadState,
    drift: Sequence[Mapping[str, Any]],
    now: datetime,
    remark: str,
) -> list[conditions.Condition]:
    after = {each["type"]: each for each in workload.conditions}
    before = condition(workload, WorkloadCondition.PROPAGATED)
    # Scaled to 0 before the first write: nothing will ever be placed.
    wanted = workload.status.desired != 0 or not progress.placed(workload)
    verdict = propagated(placed, shares, before, wanted=wanted)
    if verdict is not None:
        reason, message = verdict
        good = reason is PropagatedReason.PROPAGATED
        if good and remark:
            message = f"{remark}; {message}"
        _renew(after, workload, WorkloadCondition.PROPAGATED, good, reason.value, message, now)
    ready = progress.placed(workload) and _all_ready(workload, placed, shares, state)
    why, text = WorkloadReadyReason.ALL_READY, ""
    if ready and state is WorkloadState.COMPLETE:
        why, text = WorkloadReadyReason.COMPLETED, _AGAIN
    elif not ready:
        why, text = _not_ready(workload, shares)
    _renew(after, workload, WorkloadCondition.READY, ready, why.value, text, now)
    stands = [each for each in drift if each["state"] in STANDING]
    if stands or WorkloadCondition.DRIFTED.value in after:
        cause = min((each["state"] for each in stands), default=DriftedReason.NONE.value)
        message = _joined([_drifted(each) for each in stands])
        _renew(after, workload, WorkloadCondition.DRIFTED, bool(stands), cause, message, now)
    return progress.told(workload, after, now)


def _all_ready(
    workload: Workload,
    placed: Sequence[Mapping[str, Any]],
    shares: Sequence[ReportedShare],
    state: WorkloadState,
) -> bool:
    """Whether every unit of the present generation is ready, without any of an older one."""
    if not placed:
        return workload.status.desired == 0 and not shares
    if state not in (WorkloadState.RUNNING, WorkloadState.COMPLETE) or _outdated(workload, shares):
        return False
    # Whether the ready units include old ones is unknown until the member is observed again.
    known = all(share.word is not Word.STANDS for share in shares)
    return known or condition(workload, WorkloadCondition.READY).get("status") == "True"


def _not_ready(
    workload: Workload, shares: Sequence[ReportedShare]
) -> tuple[WorkloadReadyReason, str]:
    profile = workload.profile
    if failed := [each for each in shares if each.failed]:
        told = (f"{each.seen.name}: {each.entry['message'] or 'it failed'}" for each in failed)
        return WorkloadReadyReason.FAILED, f"{_joined([*told])}; {_AGAIN}"
    said = condition(workload, WorkloadCondition.READY)
    if said.get("reason") in _SEEN and any(share.word is Word.STANDS for share in shares):
        return WorkloadReadyReason(said["reason"]), said["message"]
    suspended = [
        f"{each.seen.name}: {profile.kind} {each.seen.main.metadata.name} is suspended"
        for each in shares
        if each.seen.main is not None
        and not each.seen.leaving
        and each.seen.main.judged.health is ShareHealth.SUSPENDED
    ]
    if suspended:
        return WorkloadReadyReason.SUSPENDED, _joined(suspended)
    silent = [
        f"{share.seen.name}: {profile.kind} {main.metadata.name} says nothing"
        for share in shares
        if (main := share.seen.main) is not None
        and not share.seen.leaving
        and main.judged.health is ShareHealth.UNKNOWN
    ]
    if not silent:
        return WorkloadReadyReason.REPLICAS_NOT_READY, ""
    advice = "a condition Ready in its status, by its own controller, says when it is ready"
    return WorkloadReadyReason.READINESS_UNKNOWN, f"{_joined(silent)}; {advice}"


def _outdated(workload: Workload, shares: Iterable[ReportedShare]) -> bool:
    """Whether a share has units of an older template that should be replaced."""
    most = max((share.outdated for share in shares if not share.seen.leaving), default=0)
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
