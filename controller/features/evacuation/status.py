"""MemberCluster.status.evacuation and the condition Evacuating. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controller.features.evacuation import taints
from controller.framework.statuswriter import StatusEvent
from controller.model.moving import NEVER, MovementConfiguration
from controller.model.objects import MemberCluster
from crds.membercluster import MOST_BLOCKED, EvacuatingReason, MemberClusterEventReason
from crds.names import TAINT_DRAIN, TAINT_OUT_OF_SERVICE
from machinery.clock import stored_time, timestamp
from machinery.types.api import BlockedWorkload, Evacuation, EvacuationCause

LONGEST_DWELL = 7200
"""Seconds. Each loss doubles the dwell of a cluster up to this."""
_NOT_READY = taints.NOT_READY.text


@dataclass(frozen=True, slots=True)
class Standing:
    units: int = 0
    workloads: int = 0
    stay: int = 0
    """Replicas of Workloads that tolerate all causes."""
    blocked: Sequence[BlockedWorkload] = ()


NOTHING = Standing()


@dataclass(frozen=True, slots=True)
class EvacuationStatus:
    """`look` is when time alone may change it."""

    evacuation: Evacuation | None
    reason: EvacuatingReason
    message: str
    look: datetime | None = None
    events: tuple[StatusEvent, ...] = ()

    @property
    def true(self) -> bool:
        return self.reason in _TRUE


_TRUE = frozenset(
    {
        EvacuatingReason.DRAINING,
        EvacuatingReason.TAINTED,
        EvacuatingReason.LOST,
        EvacuatingReason.OUT_OF_SERVICE,
    }
)


def evacuation_of(
    cluster: MemberCluster,
    standing: Standing,
    configuration: MovementConfiguration,
    now: datetime,
    *,
    blind: bool,
    doubted: bool,
    brake: str,
    before: str,
) -> EvacuationStatus:
    """Return the evacuation of a cluster.

    `blind`: no propagator is watching. `doubted`: another one saw the loss, so its time restarts.
    `brake` is why losses move nothing. `before` is the condition's stored reason.
    """
    old = cluster.status.evacuation or Evacuation()
    causes = _causes(cluster, old, now, blind=blind, doubted=doubted)
    lost = next((each for each in causes if each.name == _NOT_READY), None)
    dwell, until = _dwell(cluster, old, lost, configuration, now, blind=blind)
    left = standing.units if causes else 0
    units = max(left, old.units if causes and old.causes else 0)
    evacuation = Evacuation(
        causes,
        timestamp(until) if until is not None else "",
        dwell,
        units,
        left,
        standing.workloads if causes else 0,
        list(standing.blocked)[:MOST_BLOCKED] if causes else [],
    )
    empty = not (causes or until or dwell)
    said = _said(cluster, causes, standing, configuration, now, until, blind=blind, brake=brake)
    reason, message, look = said
    events = tuple(_events(cluster, reason, message, before))
    return EvacuationStatus(None if empty else evacuation, reason, message, look, events)


def _causes(
    cluster: MemberCluster, old: Evacuation, now: datetime, *, blind: bool, doubted: bool
) -> list[EvacuationCause]:
    known = {each.name: each for each in old.causes if stored_time(each.since) is not None}
    if doubted:
        known.pop(_NOT_READY, None)
    names = sorted(taints.in_force(cluster))
    if blind and _NOT_READY in names and _NOT_READY not in known:
        names.remove(_NOT_READY)
    since = timestamp(now + _ROUNDED_UP)  # no toleration ends early
    return [known.get(name) or EvacuationCause(name, since) for name in names]


_ROUNDED_UP = timedelta(microseconds=999_999)


def _dwell(
    cluster: MemberCluster,
    old: Evacuation,
    lost: EvacuationCause | None,
    configuration: MovementConfiguration,
    now: datetime,
    *,
    blind: bool,
) -> tuple[int, datetime | None]:
    """Return its seconds and its end. A loss within one doubles the next."""
    until = stored_time(old.dwells_until) if old.dwells_until else None
    was = next((each for each in old.causes if each.name == _NOT_READY), None)
    if was is not None and lost is None and not blind and cluster.ready:
        seconds = configuration.not_ready_toleration_seconds
        since = stored_time(was.since)
        # An outage that moved nothing needs no dwell.
        if seconds != NEVER and since is not None and now - since >= timedelta(seconds=seconds):
            doubled = 2 * old.dwell_seconds or configuration.dwell_seconds
            dwell = min(doubled, max(LONGEST_DWELL, configuration.dwell_seconds))
            return dwell, now + timedelta(seconds=dwell) if dwell else None
    if lost is None and cluster.ready and until is not None and now >= until:
        return 0, None
    return old.dwell_seconds, until


def _said(
    cluster: MemberCluster,
    causes: Sequence[EvacuationCause],
    standing: Standing,
    configuration: MovementConfiguration,
    now: datetime,
    until: datetime | None,
    *,
    blind: bool,
    brake: str,
) -> tuple[EvacuatingReason, str, datetime | None]:
    keys = {each.name.partition(":")[0].partition("=")[0] for each in causes}
    lost = next((each for each in causes if each.name == _NOT_READY), None)
    left = _left(standing)
    drained = EvacuatingReason.DRAINED, f"everything that had to leave has left{_stay(standing)}"
    if TAINT_OUT_OF_SERVICE in keys:
        warn = (
            "; the cluster answers, so this is a drain: replicas that run at most once are made "
            "elsewhere only after they are seen gone here"
            if cluster.ready
            else ""
        )
        said = EvacuatingReason.OUT_OF_SERVICE, left + warn
        return (*(said if standing.units else drained), None)
    if TAINT_DRAIN in keys:
        return (*((EvacuatingReason.DRAINING, left) if standing.units else drained), None)
    if keys - {taints.NOT_READY.key}:
        named = ", ".join(each.name for each in causes if each is not lost)
        said = EvacuatingReason.TAINTED, f"{named}: {left}"
        return (*(said if standing.units else drained), None)
    if taints.unreachable(cluster) and blind:
        text = (
            "the cluster does not answer, but no propagator is seen to look, as its Lease is not "
            "renewed: nothing leaves because of that"
        )
        return EvacuatingReason.BLIND, text, None
    if lost is not None:
        if brake:
            return EvacuatingReason.BRAKED, brake, None
        seconds, since = configuration.not_ready_toleration_seconds, stored_time(lost.since) or now
        if seconds == NEVER:
            text = (
                "the cluster does not answer; Workloads stay, but for those whose toleration of "
                f"{taints.NOT_READY.key} ends (movement.notReadyTolerationSeconds is -1)"
            )
            return EvacuatingReason.TOLERATING, text, None
        due = since + timedelta(seconds=seconds)
        if now < due:
            text = (
                f"the cluster does not answer; Workloads leave it at {timestamp(due)}, unless it "
                "is back"
            )
            return EvacuatingReason.TOLERATING, text, due
        return (*((EvacuatingReason.LOST, left) if standing.units else drained), None)
    if until is not None:
        text = f"the cluster was lost and is back; nothing new goes there until {timestamp(until)}"
        return EvacuatingReason.DWELLING, text, until
    return EvacuatingReason.NONE, "nothing has to leave", None


def _left(standing: Standing) -> str:
    units, workloads = standing.units, standing.workloads
    text = f"{units} {_s(units, 'replica')} of {workloads} {_s(workloads, 'Workload')} still here"
    if standing.blocked:
        more = len(standing.blocked)
        text += f", {more} {_s(more, 'Workload')} blocked"
    return text + _stay(standing)


def _stay(standing: Standing) -> str:
    stay = standing.stay
    return (
        f"; {stay} {_s(stay, 'replica')} {'stays' if stay == 1 else 'stay'} (tolerated)"
        if stay
        else ""
    )


def _s(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"


def _events(
    cluster: MemberCluster, reason: EvacuatingReason, message: str, before: str
) -> list[StatusEvent]:
    if reason.value == before:
        return []
    events = []
    if before == EvacuatingReason.BRAKED.value:
        text = "the brake is released"
        events.append(StatusEvent(MemberClusterEventReason.BRAKE_RELEASED, text))
    told = _TOLD.get(reason)
    if told is not None:
        warning = reason in (EvacuatingReason.LOST, EvacuatingReason.BRAKED)
        events.append(StatusEvent(told, message, warning=warning))
    away = (EvacuatingReason.LOST.value, EvacuatingReason.BRAKED.value)
    if cluster.ready and before in away:
        events.append(StatusEvent(MemberClusterEventReason.RETURNED, message))
    return events


_TOLD: Mapping[EvacuatingReason, MemberClusterEventReason] = {
    EvacuatingReason.DRAINING: MemberClusterEventReason.DRAINING,
    EvacuatingReason.DRAINED: MemberClusterEventReason.DRAINED,
    EvacuatingReason.LOST: MemberClusterEventReason.LOST,
    EvacuatingReason.BRAKED: MemberClusterEventReason.FAILOVER_BRAKED,
}


def fields_of(said: EvacuationStatus) -> Mapping[str, Any]:
    found = said.evacuation
    if found is None:
        return {"evacuation": None}
    # Empty fields are null, because a merge patch keeps what it does not name.
    given = {**dict.fromkeys(_FIELDS), **msgspec.to_builtins(found)}
    return {"evacuation": given}


_FIELDS = Evacuation.__struct_encode_fields__
