"""The condition RolledOut and the message of status.rollout, in words."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from controller.features.rollout.machine import RolloutStep, failure
from controller.model.rollout import Rollout, RolloutStatus, RolloutWave
from crds.fields.rollout import RolledOutReason, RolloutPhase
from crds.names import short_revision
from machinery.clock import timestamp

MESSAGE_LIMIT = 4096
_REASONS = {
    RolloutPhase.FAILED: RolledOutReason.HEALTH_CHECK_FAILED,
    RolloutPhase.ROLLING_BACK: RolledOutReason.ROLLED_BACK,
}


class RolledOutCondition(NamedTuple):
    """The condition RolledOut, as far as a rollout decides it."""

    true: bool
    reason: RolledOutReason
    message: str


def condition_of(step: RolloutStep, spec: Rollout) -> RolledOutCondition:
    """Return the condition after a step."""
    phase = RolloutPhase(step.status.phase)
    reason = _REASONS.get(phase) or RolledOutReason(phase.value)
    if step.lost:
        reason = RolledOutReason.REVISION_LOST
    text = message_of(step, spec)[:MESSAGE_LIMIT]
    return RolledOutCondition(phase is RolloutPhase.COMPLETE, reason, text)


def message_of(step: RolloutStep, spec: Rollout) -> str:
    """Return what the rollout waits for."""
    status = step.status
    new, old = short_revision(status.revision), short_revision(status.stable)
    match status.phase:
        case RolloutPhase.COMPLETE:
            return f"{new} is the revision of all clusters"
        case RolloutPhase.PROGRESSING:
            return _progress(step)
        case RolloutPhase.SOAKING:
            return f"wave {status.wave} soaks{_until(step, spec)}"
        case RolloutPhase.AWAITING_APPROVAL:
            done = "is complete" if _clusters(status) else f"has no cluster that shows {new}"
            return f"wave {status.wave} {done}, the next one waits for an approval of {new}"
        case RolloutPhase.PAUSED:
            return "no further cluster is started: spec.rollout.paused"
        case RolloutPhase.ROLLING_BACK:
            return f"all clusters get {old} again{_because(step, spec)}"
        case RolloutPhase.ROLLED_BACK:
            return f"all clusters have {old} until the Workload is edited{_because(step, spec)}"
        case _:
            return _failure(step, spec)


def _progress(step: RolloutStep) -> str:
    status, new = step.status, short_revision(step.status.revision)
    if not status.stable:
        return f"{new} goes to all clusters at once, as there is no earlier revision"
    if step.updating:
        first, more = step.updating[0], len(step.updating) - 1
        ready = first.ready if first.revision == status.revision else 0
        text = f"{first.name}: {ready} of {first.units} units of {new} are Ready"
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
    """Return how many clusters the present wave has."""
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
