"""A rollout in a Workload's status: fields as a patch, condition, and message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from controller.features.rollout.machine import RolloutCluster, RolloutStep, failure
from controller.framework.statuswriter import MESSAGE_LIMIT
from controller.model.objects import RolloutState
from crds.fields.rollout import MOST_NAMES, MOST_WAVES, RolledOutReason, RolloutPhase
from crds.names import short_revision
from machinery.clock import timestamp
from machinery.types.workload_api import RevisionException, Rollout, RolloutStatus, RolloutWave

_REASONS = {
    RolloutPhase.FAILED: RolledOutReason.HEALTH_CHECK_FAILED,
    RolloutPhase.ROLLING_BACK: RolledOutReason.ROLLED_BACK,
}


class RolledOutCondition(NamedTuple):
    true: bool
    reason: RolledOutReason
    message: str


def condition_of(step: RolloutStep, spec: Rollout) -> RolledOutCondition:
    phase = RolloutPhase(step.status.phase)
    reason = _REASONS.get(phase) or RolledOutReason(phase.value)
    if step.lost:
        reason = RolledOutReason.REVISION_LOST
    text = message_of(step, spec)[:MESSAGE_LIMIT]
    return RolledOutCondition(phase is RolloutPhase.COMPLETE, reason, text)


def message_of(step: RolloutStep, spec: Rollout) -> str:
    status = step.status
    new, old = short_revision(status.revision), short_revision(status.stable)
    match status.phase:
        case RolloutPhase.COMPLETE:
            return f"{new} is the revision of all clusters{_but(step.away)}"
        case RolloutPhase.PROGRESSING:
            return _progress(step)
        case RolloutPhase.SOAKING:
            return f"wave {status.wave} soaks{_until(step, spec)}"
        case RolloutPhase.AWAITING_APPROVAL:
            done = "is complete" if _clusters(status) else f"has no cluster that shows {new}"
            if late := ", ".join(each.name for each in step.updating[:MOST_NAMES]):
                done += f" but for {late}, which came later"
            return f"wave {status.wave} {done}, the next one waits for an approval of {new}"
        case RolloutPhase.PAUSED:
            return "no further cluster is started: spec.rollout.paused"
        case RolloutPhase.ROLLING_BACK:
            return f"all clusters get {old} again{_because(step, spec)}"
        case RolloutPhase.ROLLED_BACK:
            return f"all clusters have {old} until the Workload is edited{_because(step, spec)}"
        case _:
            return _failure(step, spec)


def _but(away: Sequence[RolloutCluster]) -> str:
    if not away:
        return ""
    names = ", ".join(each.name for each in away[:MOST_NAMES])
    more = f" and {len(away) - MOST_NAMES} more" if len(away) > MOST_NAMES else ""
    get = "gets it once it answers" if len(away) == 1 else "get it once they answer"
    return f" that answer; {names}{more} {get}"


def _progress(step: RolloutStep) -> str:
    status, new = step.status, short_revision(step.status.revision)
    if not status.stable:
        return f"{new} goes to all clusters at once, as there is no earlier revision"
    if step.updating:
        first, more = step.updating[0], len(step.updating) - 1
        ready = first.ready if first.revision == status.revision else 0
        text = f"{first.name}: {ready} of {first.units} replicas of {new} are Ready"
        text += ", as spec.suspend selects it" * first.suspended
        return text + (f"; and {more} more {'cluster' if more == 1 else 'clusters'}" * bool(more))
    if not any(each.clusters for each in status.waves):
        return f"no cluster has a share yet for {new}"
    if not _clusters(status):
        return (
            f"wave {status.wave} has no cluster that could soak with {new}: the next one waits "
            "until it has one, or until its soakSeconds are taken off"
        )
    return f"no cluster of wave {status.wave} answers"


def _clusters(status: RolloutStatus) -> int:
    return sum(each.clusters for each in status.waves if each.name == status.wave)


def _until(step: RolloutStep, spec: Rollout) -> str:
    waves: dict[str, RolloutWave] = {each.name: each for each in spec.waves}
    for each in step.status.waves:
        if each.name == step.status.wave and each.end_time is not None and each.name in waves:
            end = each.end_time + timedelta(seconds=waves[each.name].soak_seconds)
            return f" until {timestamp(end)}"
    return ""


def _because(step: RolloutStep, spec: Rollout) -> str:
    if spec.aborted == step.status.revision:
        return f": {short_revision(spec.aborted)} was aborted"
    return f": {failure(step.failed, spec)}" if step.failed else ""


def _failure(step: RolloutStep, spec: Rollout) -> str:
    text = failure(step.failed, spec) if step.failed else "the revision was aborted"
    if step.lost:
        return f"{text}; it cannot be rolled back: {step.lost}"
    return f"{text}; no further cluster is started before a retry, an abort or an edit"


_NAMES = RolloutStatus.__struct_encode_fields__


def revisions_of(exceptions: Mapping[str, str], otherwise: str) -> list[RevisionException]:
    """Return exceptions as status.revisions.

    Clusters of rare revisions get `otherwise`, because the schema bounds their number.
    """
    named: dict[str, list[str]] = {}
    for cluster, revision in sorted(exceptions.items()):
        named.setdefault(revision, []).append(cluster)
    if len(named) > MOST_WAVES:
        named.setdefault(otherwise, [])
        order = sorted(named, key=lambda each: (each == otherwise, len(named[each]), each))
        for rare in order[:-MOST_WAVES]:
            named[otherwise] += named.pop(rare)
    return [RevisionException(each, sorted(named[each])) for each in sorted(named)]


def changes_of(
    state: RolloutState, status: RolloutStatus, exceptions: Mapping[str, str]
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if rollout := _changed(state.stored, status):
        fields["rollout"] = rollout
    revisions = revisions_of(exceptions, status.stable or status.revision)
    if revisions != state.listed:
        fields["revisions"] = msgspec.to_builtins(revisions)
    return fields


def _changed(stored: RolloutStatus | None, status: RolloutStatus) -> dict[str, Any]:
    if stored == status:
        return {}
    before = {} if stored is None else msgspec.to_builtins(stored)
    after = msgspec.to_builtins(status)
    return {n: after.get(n) for n in _NAMES if before.get(n) != after.get(n)}


def named_by(status: RolloutStatus | None, exceptions: Iterable[str]) -> frozenset[str]:
    """Return the revisions whose ControllerRevisions are kept."""
    known: Sequence[str] = () if status is None else (status.revision, status.stable)
    return frozenset({*known, *exceptions} - {""})
