"""MemberCluster.status and labels, from a session and the last status, and their writes.

The controller's fields and conditions stay. Unknown fields keep their last value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from crds.membercluster import (
    WAITING,
    EvacuatingReason,
    MemberClusterCondition,
    MemberClusterEventReason,
    ReadyReason,
)
from crds.names import LABEL_CLUSTER, LABEL_PROVIDER, LABEL_VERSION
from machinery import logs, metrics
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.release import older, release
from machinery.runtime.store import number
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types import conditions
from machinery.types.bounds import clean
from machinery.types.merge_patch import merging
from machinery.types.selectors import label_value
from propagator.hub.agent_accounts import oldest_served
from propagator.hub.events import tell_of
from propagator.members.connection import Link
from propagator.members.context import ControllerContext
from propagator.members.health import Contact, HealthProbe, MemberHealth, settled
from propagator.members.pod_index import Placed
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.types.cluster import MemberCluster

ANOTHERS = (ReadyReason.CLUSTER_CHANGED, ReadyReason.ALREADY_REGISTERED)
"""With these reasons, facts read through a MemberCluster are another cluster's."""
_READ = ("kinds", "quotas")
"""Facts that go once they may be read no more, or say nothing."""
_IDENTITY = ("clusterID", "clusterUID", "clusterSet")
_EVENTS = {
    (ReadyReason.CONNECTED.value, False): MemberClusterEventReason.CONNECTED,
    (ReadyReason.CONNECTED.value, True): MemberClusterEventReason.AGENT_CONNECTED,
    (ReadyReason.AGENT_SILENT.value, True): MemberClusterEventReason.AGENT_SILENT,
    (ReadyReason.AGENT_REVOKED.value, True): MemberClusterEventReason.AGENT_REVOKED,
}
"""By the reason of Ready, and whether the member is in mode Pull."""
_TOLD = (
    "version",
    "provider",
    "nodeGroups",
    "capacity",
    "namespaces",
    "kinds",
    "quotas",
)
"""Fields of a MemberReport that are those of the MemberCluster."""
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
    differs = list[str]()
    if not cluster.pulls:
        status.pop("pull", None)
    if isinstance(session, PullSession):
        status["pull"] = _pull(session)
        if session.told.started and verdict.reason not in ANOTHERS:
            known, differs = session.believe(cluster, _reported(session))
            _take(status, known, narrow="namespaces" in known)
            if verdict.ready and (identity := session.note(cluster)):
                _note(status, identity)
    status["conditions"] = _conditions(cluster, session, verdict, now, differs)
    status["state"] = _state(cluster, status)
    if session.link is not None and verdict.reason not in ANOTHERS:
        known = learnt(session.link, session.allows)
        _take(status, known, narrow=session.link.tenants is not None)
        if verdict.ready and session.link.cluster_id:
            _note(status, session.link.note(cluster))
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


def _conditions(
    cluster: MemberCluster,
    session: MemberSession,
    verdict: MemberHealth,
    now: datetime,
    differs: Sequence[str],
) -> list[conditions.Condition]:
    """Renew our conditions, and keep others in their order."""
    after = {each["type"]: each for each in cluster.status.get("conditions", ())}
    message, link = verdict.sentence(cluster.name), session.link
    if verdict.ready and link is not None and link.obstacle:
        message += f"; its capacity is not known: {link.obstacle}"
    said = [(MemberClusterCondition.READY, verdict.reason.value, message)]
    if (held := session.held) is not None:
        reason = held.reason.value if held.reason is not None else ""
        said.append((MemberClusterCondition.SWEEP_HELD, reason, held.message))
    if isinstance(session, PullSession):
        said += _of_agent(session, differs)
    elif not cluster.pulls:
        said += ((kind, "", "") for kind in _OF_AGENTS)
    for kind, reason, message in said:
        ready = kind is MemberClusterCondition.READY
        # All but Ready stand only while there is something to say.
        before = after.get(kind.value, {}) if ready else after.pop(kind.value, {})
        if ready or message:
            after[kind.value] = conditions.renewed(
                before,
                type_=kind.value,
                true=verdict.ready or not ready,
                reason=reason,
                message=message[:_MESSAGE_LIMIT],
                now=now,
                generation=session.generation,
            )
    strangers = [kind for kind in after if kind not in _KNOWN]
    for kind in strangers[_CONDITIONS_LIMIT - len(_KNOWN) :]:
        del after[kind]  # else the hub would refuse the whole status
    return conditions.with_progress(after.values(), waits=WAITING, now=now)


def too_old(session: PullSession) -> str:
    """Return why the member gets nothing new, or "": what it runs stays."""
    least, has = oldest_served(release()), session.told.release
    if not older(has, least):
        return ""
    return f"{session.name}: its agent is of release {has}, and this hub serves {least} and younger"


def _forgotten(session: PullSession) -> str:
    left = session.told.unassigned
    if left is None or not left.count:
        return ""
    names = ", ".join(f"{each.namespace}/{each.name}" for each in left.workloads)
    named = clean(names, _MESSAGE_LIMIT)
    more = left.count - len(left.workloads)
    message = f"objects of Workloads without an Assignment stay there: {named}"
    return message + (f" and {more} more" if more > 0 else "")


_OF_AGENTS = (
    MemberClusterCondition.HUB_FORGOT,
    MemberClusterCondition.AGENT_OLD,
    MemberClusterCondition.REPORT_DIFFERS,
)


def _of_agent(
    session: PullSession, differs: Sequence[str]
) -> Iterator[tuple[MemberClusterCondition, str, str]]:
    said = (_forgotten(session), too_old(session), "; ".join(differs))
    for kind, message in zip(_OF_AGENTS, said, strict=True):
        yield kind, kind.value, message


def _state(cluster: MemberCluster, status: Mapping[str, Any]) -> str:
    """Return the STATUS column, as kubectl has it of a Node."""
    words = ["Ready" if conditions.holds(status, MemberClusterCondition.READY) else "NotReady"]
    if cluster.drains:
        said = conditions.find(status, MemberClusterCondition.EVACUATING).get("reason")
        words.append("Drained" if said == EvacuatingReason.DRAINED else "Draining")
    elif cluster.spec.unschedulable:
        words.append("SchedulingDisabled")
    return ",".join(words)


def _tell_held(status: dict[str, Any], session: MemberSession) -> None:
    if session.held is None:
        return
    status.pop("sweepHeld", None)
    if (entry := session.held.entry()) is not None:
        status["sweepHeld"] = entry


def _pull(session: PullSession) -> dict[str, Any]:
    told = session.told
    said = {
        "release": told.release,
        "started": told.started,
        "tokenEnds": session.token_ends,
        "skewSeconds": session.skew_seconds,
        "upgrade": clean(told.upgrade, _MESSAGE_LIMIT),
    }
    return {"namespace": session.source.namespace} | {k: v for k, v in said.items() if v}


def _reported(session: PullSession) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(session.told)
    known = {name: told[name] for name in _TOLD if told.get(name)}
    if "capacity" in known:
        known.setdefault("nodeGroups", [])  # there may be no node left
    known["kindsOmitted"] = told.get("kindsOmitted", 0)
    return known | {field: told.get(field) for field in _READ}


def _take(status: dict[str, Any], known: Mapping[str, Any], *, narrow: bool) -> None:
    if not narrow:
        status.pop("namespaces", None)
    status |= known
    for field in _READ:
        if status.get(field) in (None, []):
            status.pop(field, None)


def _note(status: dict[str, Any], identity: Mapping[str, str]) -> None:
    for field in _IDENTITY:
        status.pop(field, None)
    status |= identity


def learnt(link: Link, allows: Callable[[str], bool]) -> dict[str, Any]:
    learnt: dict[str, Any] = {"version": link.probe.version, "provider": link.provider}
    if link.measured:
        learnt["nodeGroups"] = link.capacity.groups()
        learnt["capacity"] = link.capacity.capacity()
    if link.tenants is not None and (namespaces := link.tenants.facts()) is not None:
        learnt["namespaces"] = namespaces
    if link.kinds.asked:
        learnt |= link.kinds.facts
    if link.quotas.known:
        tenants = link.tenants
        learnt["quotas"] = link.quotas.facts(
            lambda namespace: allows(namespace) and (tenants is None or namespace in tenants)
        )
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


class Cause(StrEnum):
    """What sets a report of a MemberCluster off; all but the last are written at once."""

    READY = "Ready"
    IDENTITY = "Identity"
    SWEEP_HELD = "SweepHeld"
    CAPACITY = "Capacity"
    """Or anything else that changes with what runs there."""


def _cause(cluster: MemberCluster, session: MemberSession, verdict: MemberHealth) -> Cause:
    ready, status = ready_condition(cluster.status), cluster.status
    told = (ready.get("status"), ready.get("reason"), ready.get("observedGeneration"))
    if told != (str(verdict.ready), verdict.reason.value, session.generation):
        return Cause.READY
    link = session.link
    if link is not None and verdict.ready and link.cluster_id:
        identity = link.note(cluster)
        if any(status.get(field) != identity.get(field) for field in _IDENTITY):
            return Cause.IDENTITY
    if session.held is None:
        return Cause.CAPACITY
    held = conditions.find(status, MemberClusterCondition.SWEEP_HELD).get("reason")
    same = held == (session.held.reason and session.held.reason.value)
    return Cause.CAPACITY if same else Cause.SWEEP_HELD


REPORTS = metrics.counter(
    "stowage_capacity_reports",
    "Writes of the status of MemberClusters, by what set them off",
    ("cause",),
    zero=[(each.value,) for each in Cause],
)
AGENT_OLD = metrics.GaugeFunc(
    "stowage_agent_old",
    "1 while the agent of a member in mode Pull is older than this hub serves, 0 otherwise",
    ("member_cluster",),
)


LOG = logs.get(__name__)

PERIOD = 1.0
"""Seconds between two computations for one member, which are costly even without a write."""
WRITES_PER_SECOND = 50
"""The writes of all MemberClusters together: what changes with each pod waits for its turn.

Meanwhile the controller's assumed placements count, so room is never overstated.
"""
_WORKERS = 8


class ClusterStatusWriter:
    """Writes Ready, the cluster's identity and a held sweep at once.

    Anything else waits: at most once a second for each cluster, `WRITES_PER_SECOND` for all.

    A write names the version that was read: the controller writes the status too.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._membership = context.membership
        self._hub = context.hub
        self._clusters = context.clusters
        self._registry = context.registry
        self._recorder = context.recorder
        self._clock = context.clock
        self._next_turn = -math.inf
        self._queue: WorkQueue[str] = WorkQueue(name="clusterstatus", clock=context.clock)
        self._membership.on_change(self._members_changed)
        self._registry.on_facts(self._queue.add)
        self._clusters.add_handler(self._cluster_changed)
        AGENT_OLD.set_function(self._old)

    async def run(self) -> None:
        await work(self._queue, self._publish, workers=_WORKERS, log=LOG)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None:
            self._queue.add(new.name)

    def _members_changed(self) -> None:
        for name in self._registry.names():
            self._queue.add(name)

    def _old(self) -> metrics.Samples:
        sessions = map(self._registry.get, self._registry.names())
        pulled = (each for each in sessions if isinstance(each, PullSession))
        return {(each.name,): float(bool(too_old(each))) for each in pulled}

    async def _publish(self, name: str) -> float | None:
        cluster = self._clusters.get(("", name))
        session = self._registry.get(name)
        if cluster is None or session is None or session.verdict is None:
            return None
        if session.contact is Contact.CONNECTING:
            return None  # the last status stands; the session's verdict queues the key again
        stored = conditions.holds(cluster.status, MemberClusterCondition.READY)
        compared = not self._membership.several or session.uncompared == set()
        if session.verdict.ready and not stored and not compared:
            return None  # first what other shards are told of its shares; that queues the key again
        now = self._clock.monotonic()
        cause = _cause(cluster, session, session.verdict)
        if cause is Cause.CAPACITY and (wait := self._wait(session, now)) > 0:
            return wait
        session.next_status = now + PERIOD
        link = session.link
        if link is not None and link.tenants is not None:
            reported = cluster.status.get("namespaces") or {}
            link.tenants.recall(reported.get("refused") or ())
        report = session.report_version if isinstance(session, PullSession) else ""
        status = status_of(cluster, session, session.verdict, now=self._clock.now())
        status.pop("shard", None)
        if self._membership.shards > 1:
            status["shard"] = self._membership.shard
        # No await between these and the status: pods and capacity must agree.
        placed = link.pod_index.placed() if link is not None and link.counted else None
        labels = labels_of(cluster, status)
        # Labels before the status: an observer that sees the cluster ready can select it.
        if labels:
            cluster = await self._label(cluster, labels)
        if changed := merging(cluster.status, status):
            cluster = await self._patch(cluster, changed)
            REPORTS.labels(cause.value).inc()
            session.next_status = now + max(PERIOD, len(self._clusters) / WRITES_PER_SECOND)
        self._counts(session, cluster.metadata.resource_version, placed, report)
        return None

    def _counts(
        self, session: MemberSession, version: str, placed: Placed | None, report: str
    ) -> None:
        if isinstance(session, PullSession):
            session.published(report, version)
        elif session.link is not None and placed is not None:
            session.link.published(placed, number(version))

    def _wait(self, session: MemberSession, now: float) -> float:
        """Return the seconds until the member's turn, which this gives it; 0 if that is now."""
        if session.next_status > now:
            return session.next_status - now
        if session.has_turn:
            session.has_turn = False
            return 0.0
        turn = max(self._next_turn, now)
        self._next_turn = turn + 1 / WRITES_PER_SECOND
        if turn > now:
            session.has_turn, session.next_status = True, turn
        return turn - now

    async def _label(self, cluster: MemberCluster, labels: Mapping[str, str]) -> MemberCluster:
        metadata = {"resourceVersion": cluster.metadata.resource_version, "labels": labels}
        answer = await self._hub.merge_patch(MEMBER_CLUSTERS, cluster.name, {"metadata": metadata})
        return self._held(answer)

    async def _patch(self, cluster: MemberCluster, changed: Mapping[str, Any]) -> MemberCluster:
        metadata = {"resourceVersion": cluster.metadata.resource_version}
        patch = {"metadata": metadata, "status": changed}
        answer = await self._hub.merge_patch(
            MEMBER_CLUSTERS, cluster.name, patch, subresource="status"
        )
        if "conditions" in changed:
            self._tell(cluster, ready_condition(changed))
            forgot = conditions.find(changed, MemberClusterCondition.HUB_FORGOT)
            if forgot and not conditions.find(cluster.status, MemberClusterCondition.HUB_FORGOT):
                event, note = MemberClusterEventReason.HUB_FORGOT, forgot["message"]
                tell_of(self._recorder, cluster, event, note, "Compare", warns=True)
        if "shard" in changed and ready_condition(cluster.status):
            self._tell_shard(cluster)
        return self._held(answer)

    def _held(self, answer: Mapping[str, Any]) -> MemberCluster:
        cluster = msgspec.convert(answer, MemberCluster)
        self._clusters.upsert(cluster)
        return cluster

    def _tell(self, cluster: MemberCluster, now: Mapping[str, Any]) -> None:
        before = ready_condition(cluster.status)
        pulled = bool(cluster.status.get("pull"))
        if (before.get("status"), before.get("reason"), pulled) == (
            now["status"],
            now["reason"],
            cluster.pulls,
        ):
            return
        told = _EVENTS.get((now["reason"], cluster.pulls), MemberClusterEventReason.DISCONNECTED)
        warns = now["status"] != "True"
        note = f"{now['reason']}: {now['message']}" if warns else now["message"]
        tell_of(self._recorder, cluster, told, note, "Probe", warns=warns)

    def _tell_shard(self, cluster: MemberCluster) -> None:
        of, before = self._membership.shards, cluster.status.get("shard", 0)
        note = f"served by shard {self._membership.shard} of {of}, before by shard {before}"
        if before != self._membership.shard:
            reason = MemberClusterEventReason.SHARD_CHANGED
            tell_of(self._recorder, cluster, reason, note, "Serve")
