"""What is known of a member, as MemberCluster.status and its labels say it.

Pure: what a session knows and the status as it was go in, the whole new status comes out. What is
not known now is kept as it was: an unreachable cluster keeps its last version and capacity. Numbers
that jitter are changed only when they differ enough to matter, so that noise makes no writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crds.membercluster import MemberClusterCondition
from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION
from machinery.clock import timestamp
from propagator.hubmodel import MemberCluster
from propagator.link import Link
from propagator.observe import Verdict, settled

_LATENCY_STEP = 10
_LATENCY_SHARE = 0.3
_RELIABILITY_STEP = 5
_MESSAGE_LIMIT = 1024
_LABEL_LIMIT = 63


def status_of(
    cluster: MemberCluster, verdict: Verdict, link: Link | None, *, now: datetime
) -> dict[str, Any]:
    """The status that `cluster` should have; equal to the one it has when nothing changed."""
    status = dict(cluster.status)
    status["observedGeneration"] = cluster.metadata.generation
    status["conditions"] = [_ready(cluster, verdict, link, now)]
    if link is not None:
        status |= _learnt(cluster.status, link)
    return status


def labels_of(cluster: MemberCluster, status: Mapping[str, Any]) -> dict[str, str]:
    """Those of our three labels whose value on the MemberCluster is not what the status says."""
    wanted = {
        LABEL_CLUSTER: cluster.name,
        LABEL_PROVIDER: label_value(status.get("provider", "")),
        LABEL_VERSION: label_value(status.get("version", "")),
    }
    have = cluster.metadata.labels
    return {key: value for key, value in wanted.items() if value and have.get(key) != value}


def label_value(text: str) -> str:
    """The text as a label can hold it: `v1.33.1+k3s1` becomes `v1.33.1-k3s1`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:_LABEL_LIMIT].strip("-_.")


def ready_condition(status: Mapping[str, Any]) -> dict[str, Any]:
    """The Ready condition of a status, empty when it has none."""
    for condition in status.get("conditions", ()):
        if condition.get("type") == MemberClusterCondition.READY:
            return dict(condition)
    return {}


def _ready(
    cluster: MemberCluster, verdict: Verdict, link: Link | None, now: datetime
) -> dict[str, Any]:
    before = ready_condition(cluster.status)
    value = "True" if verdict.ready else "False"
    since = before.get("lastTransitionTime") if before.get("status") == value else None
    message = verdict.told(cluster.name)
    if verdict.ready and link is not None and link.obstacle:
        message += f"; its capacity is not known: {link.obstacle}"
    return {
        "type": MemberClusterCondition.READY.value,
        "status": value,
        "reason": verdict.reason.value,
        "message": message[:_MESSAGE_LIMIT],
        "lastTransitionTime": since or timestamp(now),
        "observedGeneration": cluster.metadata.generation,
    }


def _learnt(before: Mapping[str, Any], link: Link) -> dict[str, Any]:
    """What the link knows; without the fields that it knows nothing of."""
    health = link.probe.health
    learnt: dict[str, Any] = {"version": link.probe.version, "provider": link.provider}
    if link.measured:
        learnt["nodeGroups"] = link.capacity.groups()
        learnt["capacity"] = link.capacity.capacity()
    latency = health.latency_milliseconds
    if latency is not None:
        told = before.get("latencyMilliseconds")
        step = max(_LATENCY_STEP, (told or 0) * _LATENCY_SHARE)
        learnt["latencyMilliseconds"] = settled(told, latency, step=step)
    told = before.get("reliability", {}).get("readyPercent")
    percent = settled(told, health.ready_percent, step=_RELIABILITY_STEP)
    learnt["reliability"] = {"readyPercent": percent}
    return {field: value for field, value in learnt.items() if value != ""}
