"""MemberCluster.status and labels, from a session and the last status. Pure.

The controller's fields and conditions stay. Unknown fields keep their last value. Noisy numbers
change only by a relevant step.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crds.membercluster import WAITING, MemberClusterCondition, ReadyReason
from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION
from machinery.types import conditions
from machinery.types.selectors import label_value
from propagator.members.connection import Link
from propagator.members.health import HealthProbe, MemberHealth, settled
from propagator.members.session import MemberSession
from propagator.types.cluster import MemberCluster

ANOTHERS = (ReadyReason.CLUSTER_CHANGED, ReadyReason.ALREADY_REGISTERED)
"""With these reasons, facts read through a MemberCluster are another cluster's."""
_IDENTITY = ("clusterID", "clusterUID", "clusterSet")
_LATENCY_STEP = 10
_LATENCY_SHARE = 0.3
_RELIABILITY_STEP = 5
_MESSAGE_LIMIT = 1024
_CONDITIONS_LIMIT = 32
_KNOWN = frozenset(condition.value for condition in MemberClusterCondition)


def status_of(
    cluster: MemberCluster, session: MemberSession, verdict: MemberHealth, *, now: datetime
) -> dict[str, Any]:
    """Return the wanted status; equal to the present one without a change.

    Its observedGeneration is the one that the session has taken in.
    """
    status = dict(cluster.status)
    status["observedGeneration"] = session.generation
    _tell_held(status, session)
    status["conditions"] = _conditions(cluster, session, verdict, now)
    if session.link is not None and verdict.reason not in ANOTHERS:
        if session.link.tenants is None:
            status.pop("namespaces", None)
        status |= _learnt(session.link)
        if verdict.ready and session.link.cluster_id:
            for field in _IDENTITY:
                status.pop(field, None)
            status |= session.link.note(cluster)
    return status | _measured(cluster.status, session.health)


def reported_health(status: Mapping[str, Any]) -> dict[str, int | None]:
    reliability = status.get("reliability") or {}
    return {
        "latency_milliseconds": status.get("latencyMilliseconds"),
        "ready_percent": reliability.get("readyPercent"),
    }


def labels_of(cluster: MemberCluster, status: Mapping[str, Any]) -> dict[str, str]:
    """Return the changed labels of ours. The spec overrides the member's values."""
    wanted = {
        LABEL_CLUSTER: cluster.name,
        LABEL_PROVIDER: label_value(cluster.spec.provider or status.get("provider", "")),
        LABEL_VERSION: label_value(cluster.spec.version or status.get("version", "")),
    }
    have = cluster.metadata.labels
    return {key: value for key, value in wanted.items() if value and have.get(key) != value}


def ready_condition(status: Mapping[str, Any]) -> conditions.Condition:
    """Empty without one."""
    return conditions.find(status, MemberClusterCondition.READY)


def _ready(
    cluster: MemberCluster, session: MemberSession, verdict: MemberHealth, now: datetime
) -> dict[str, Any]:
    link = session.link
    message = verdict.sentence(cluster.name)
    if verdict.ready and link is not None and link.obstacle:
        message += f"; its capacity is not known: {link.obstacle}"
    return conditions.renewed(
        ready_condition(cluster.status),
        type_=MemberClusterCondition.READY.value,
        true=verdict.ready,
        reason=verdict.reason.value,
        message=message[:_MESSAGE_LIMIT],
        now=now,
        generation=session.generation,
    )


def _conditions(
    cluster: MemberCluster, session: MemberSession, verdict: MemberHealth, now: datetime
) -> list[conditions.Condition]:
    """Renew our conditions, and keep others in their order.

    SweepHeld exists only while a sweep is held. Until the brake has decided, the last report stays.
    """
    after = {each["type"]: each for each in cluster.status.get("conditions", ())}
    after[MemberClusterCondition.READY.value] = _ready(cluster, session, verdict, now)
    held = session.held
    if held is not None:
        before = after.pop(MemberClusterCondition.SWEEP_HELD.value, {})
        if held.reason is not None:
            after[MemberClusterCondition.SWEEP_HELD.value] = conditions.renewed(
                before,
                type_=MemberClusterCondition.SWEEP_HELD.value,
                true=True,
                reason=held.reason.value,
                message=held.message[:_MESSAGE_LIMIT],
                now=now,
                generation=session.generation,
            )
    strangers = [kind for kind in after if kind not in _KNOWN]
    for kind in strangers[_CONDITIONS_LIMIT - len(_KNOWN) :]:
        del after[kind]  # else the hub would refuse the whole status
    return conditions.with_progress(after.values(), waits=WAITING, now=now)


def _tell_held(status: dict[str, Any], session: MemberSession) -> None:
    held = session.held
    if held is None:
        return
    status.pop("sweepHeld", None)
    if held.reason is not None:
        status["sweepHeld"] = {
            "count": held.count,
            "workloads": [each.entry() for each in held.workloads],
        }


def _learnt(link: Link) -> dict[str, Any]:
    learnt: dict[str, Any] = {"version": link.probe.version, "provider": link.provider}
    if link.measured:
        learnt["nodeGroups"] = link.capacity.groups()
        learnt["capacity"] = link.capacity.capacity()
    if link.tenants is not None and (namespaces := link.tenants.facts()) is not None:
        learnt["namespaces"] = namespaces
    return {field: value for field, value in learnt.items() if value != ""}


def _measured(before: Mapping[str, Any], health: HealthProbe) -> dict[str, Any]:
    reported = reported_health(before)
    latency, before_latency = health.latency_milliseconds, reported["latency_milliseconds"]
    measured: dict[str, Any] = {}
    if (percent := health.ready_percent) is not None:
        percent = settled(reported["ready_percent"], percent, step=_RELIABILITY_STEP)
        measured["reliability"] = {"readyPercent": percent}
    if latency is not None:
        step = max(_LATENCY_STEP, (before_latency or 0) * _LATENCY_SHARE)
        measured["latencyMilliseconds"] = settled(before_latency, latency, step=step)
    return measured
