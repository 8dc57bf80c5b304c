"""What a decision for one member sees of another: its session, its teller's report, or nothing.

The teller is the shard that serves the member, or its agent in mode Pull. A report counts only if
the teller's Lease is held, it has compared everything in this term, and the member is Ready. While
replicas leave, the entry has to name the present decision too. Unknown stands in for nothing, and
may run all that leaves it. An agent may lie, so no share of its counts more replicas ready than are
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from crds.assignment import AssignmentOrder
from crds.fields.shares import ShareHealth, ShareState
from crds.membercluster import MemberClusterCondition, ReadyReason
from crds.names import ANNOTATION_SWEEP
from machinery.runtime.informer import Informer
from machinery.types import conditions
from machinery.types.bounds import WORD
from propagator.members.health import Contact
from propagator.members.pulled import PullSession
from propagator.members.registry import MemberRegistry
from propagator.members.sanitize import load_balancer
from propagator.members.session import MemberSession
from propagator.shards.membership import OneShard
from propagator.types.assignment import Assignment
from propagator.types.cluster import MemberCluster
from propagator.types.workload import Workload

AGENT_LOOKS_SECONDS = 60.0
"""Within so long an agent that is not silent tells what stands without an Assignment."""
_COUNTS = ("scheduled", "current", "ready", "unschedulable", "updated", "finished")
_OTHERS = ("completed", "succeeded", "failed", "available", "refused", "outdated")
_GONE = ("Kept", "Removed")
"""States of a removal; nothing of the share counts any more."""


def entry_of(session: PullSession, workload: Workload) -> dict[str, Any] | None:
    """Return the entry as far as the agent tells it; None without an Assignment.

    Its state, reason and message are those of the last order carried out
    (`Assignment.carried_out`).
    """
    found = session.assignment(workload.uid)
    if found is None:
        return None
    entry = told_in(found, session.name, workload.shares.get(session.name, 0))
    counted = session.counted_by(found.status.reported) if "asked" in entry else None
    return entry | ({"capacityVersion": counted} if counted is not None else {})


def told_in(found: Assignment, name: str, replicas: int) -> dict[str, Any]:
    status, counts = found.status, found.status.counts
    entry: dict[str, Any] = {
        "name": name,
        "replicas": replicas,
        **dict.fromkeys(_COUNTS, 0),
        "state": status.state if status.state not in ("", *_GONE) else ShareState.PENDING.value,
        "message": status.message,
    }
    if counts is not None:
        entry |= {name: getattr(counts, name) for name in _COUNTS}
        told = ((name, getattr(counts, name)) for name in _OTHERS)
        entry |= {name: value for name, value in told if value is not None}
        entry["ready"] = min(entry["ready"], counts.asked)
        entry["asked"] = counts.asked
        if counts.unschedulable_since:
            entry["unschedulableSince"] = counts.unschedulable_since
    plain = {name: getattr(status, name) for name in ("reason", "health", "holds", "start")}
    fields = {n: value for n, value in (status.fields or {}).items() if len(n) <= WORD}
    plain |= {"fields": fields or None, "loadBalancer": load_balancer(status.load_balancer)}
    entry |= {name: value for name, value in plain.items() if value not in (None, "")}
    if status.ended is not None:
        entry["ended"] = msgspec.to_builtins(status.ended)
    if status.blocked is not None:
        entry["blocked"] = {"message": "", **msgspec.to_builtins(status.blocked)}
    if _written(found):
        entry["observedGeneration"] = found.spec.workload.generation
        if found.spec.share_rules.revision:
            entry["revision"] = found.spec.share_rules.revision
    return entry


def _written(found: Assignment) -> bool:
    applied = found.spec.order == AssignmentOrder.APPLY
    return applied and found.carried_out and not found.status.reason


@dataclass(frozen=True, slots=True)
class Live:
    """This process serves the member."""

    session: MemberSession

    @property
    def serves(self) -> bool:
        return self.session.contact is Contact.SERVING


@dataclass(frozen=True, slots=True)
class Told:
    """The entry in status.clusters that another shard has written; empty if it holds nothing."""

    entry: Mapping[str, Any]

    @property
    def replicas(self) -> int:
        return int(self.entry.get("replicas", 0))

    @property
    def asked(self) -> int:
        """The replicas that the objects there ask for."""
        return int(self.entry.get("asked", self.replicas))

    @property
    def current(self) -> int:
        """The pods that are there, those that end included."""
        entry = self.entry
        counted = entry.get("scheduled", 0) + entry.get("unschedulable", 0)
        return int(entry.get("current") or counted)

    @property
    def ready(self) -> int:
        return int(self.entry.get("ready", 0))

    @property
    def available(self) -> int:
        return int(self.entry.get("available") or 0)

    @property
    def lasting(self) -> int:
        """The ready replicas that no rollout replaces."""
        outdated = int(self.entry.get("outdated") or 0)
        replaces = self.entry.get("health") == ShareHealth.PROGRESSING and not outdated
        if replaces and self.ready >= max(self.replicas, 1):
            return 0  # it progresses, and not for want of ready ones
        return max(self.ready - outdated, 0)


class Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
ShareView: TypeAlias = Live | Told | Unknown


class ShareViews:
    def __init__(
        self,
        registry: MemberRegistry,
        clusters: Informer[MemberCluster],
        membership: OneShard,
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._membership = membership
        self._indexed: tuple[Workload | None, dict[str, Mapping[str, Any]]] = None, {}

    def of(self, workload: Workload, member: str) -> ShareView:
        session = self._registry.get(member)
        if isinstance(session, PullSession):
            return _of_agent(session, workload)
        if session is not None:
            return Live(session)
        if not self.told_of(member):
            return UNKNOWN
        return self._told(workload, member)

    def own(self, workload: Workload, member: str) -> ShareView:
        """As `of`, of a member that is decided for now: its agent may act on an earlier order."""
        session = self.pulled(member)
        if session is None or session.contact is not Contact.SERVING:
            return self.of(workload, member)
        entry = entry_of(session, workload) if session.tells(workload) else None
        return Told(entry or {}) if session.tells(workload) else UNKNOWN

    def start_told(self, workload: Workload, member: str) -> int | None:
        session = self.pulled(member)
        entry = entry_of(session, workload) if session is not None else None
        return entry.get("start") if entry is not None else None

    def looked(self, workload: Workload, member: str) -> bool:
        """Whether another shard has told what stands there, be the share written yet or not."""
        if isinstance(self.of(workload, member), Told):
            return True
        entry = self._entries(workload).get(member, {})
        return (
            self.told_of(member) and "reason" in entry and not {"asked", "start"}.isdisjoint(entry)
        )

    def told_of(self, member: str) -> bool:
        shards = self._membership
        if not shards.several or (teller := shards.owner(member)) == shards.shard:
            return False
        return self.answers(member) and shards.tells(teller)

    def answers(self, member: str) -> bool:
        """Whether its MemberCluster is Ready, as last written."""
        cluster = self._clusters.get(("", member))
        if cluster is None:
            return False
        return conditions.holds(cluster.status, MemberClusterCondition.READY)

    def elsewhere(self, member: str) -> bool:
        return self._registry.get(member) is None and not self._membership.serves(member)

    def unseen(self, member: str) -> bool:
        """Whether nobody tells yet what runs there that a hub which was set back has forgotten.

        A member that does not answer does not count: it may be away for long.
        """
        cluster, shards = self._clusters.get(("", member)), self._membership
        if cluster is None:
            return False
        if ANNOTATION_SWEEP in cluster.metadata.annotations:
            return True  # a person lets some of it go, which is named no more
        session = self._registry.get(member)
        if session is None or session.contact is not Contact.SERVING:
            ready = conditions.find(cluster.status, MemberClusterCondition.READY)
            if ready.get("reason") == ReadyReason.HELD_BY_ANOTHER_HUB:
                return True
        if not shards.set_back:
            return False
        if cluster.pulls and shards.since_set_back < AGENT_LOOKS_SECONDS:
            return True
        if session is not None:
            return session.contact is Contact.CONNECTING
        return shards.owner(member) == shards.shard or not shards.looked(shards.owner(member))

    def forgotten(self, workload: Workload, member: str) -> bool:
        """Whether something is told to be there of another Workload of that name."""
        key, session = workload.metadata.key, self.pulled(member)
        if session is not None and session.uids_of(key) - {workload.uid}:
            return True
        cluster = self._clusters.get(("", member))
        return cluster is not None and _names(cluster.status.get("sweepHeld") or {}, workload)

    def told(self, member: str) -> bool:
        """Whether another process tells what is on the member: its shard, or its agent."""
        return self.elsewhere(member) or self.pulled(member) is not None

    @property
    def pulls(self) -> bool:
        """Whether any member is in mode Pull."""
        return self._registry.pulls

    def pulled(self, member: str) -> PullSession | None:
        session = self._registry.get(member)
        return session if isinstance(session, PullSession) else None

    def names(self) -> Iterable[str]:
        if not self._membership.several:
            return self._registry.names()
        return {*self._registry.names(), *(cluster.name for cluster in self._clusters.values())}

    def divided(self, workload: Workload) -> bool:
        """Whether others tell a part of it: of a cluster that it is on, was reported on or sent to.

        The sum of what is seen here is not its status then.
        """
        if not (self._membership.several or self.pulls):
            return False
        names = workload.clusters | workload.sent.names(self.names)
        return any(self.told(name) for name in names | self._registry.holders(workload.uid))

    def _told(self, workload: Workload, member: str) -> ShareView:
        entry = self._entries(workload).get(member)
        if entry is None:
            # The member has confirmed that it runs nothing, or may not have been asked yet.
            if member not in workload.sent:
                return Told({})
            leaves = member in workload.causes
            return UNKNOWN if leaves or not workload.only_kept(member) else Told({})
        if entry.get("state") == ShareState.UNREACHABLE.value:
            return UNKNOWN
        if entry.get("replicas", 0) != workload.shares.get(member, 0):
            return UNKNOWN
        if workload.leaves:
            return Told(entry) if entry.get("decision") == workload.decided_by else UNKNOWN
        written = entry.get("observedGeneration") == workload.metadata.generation
        return Told(entry) if written else UNKNOWN

    def _entries(self, workload: Workload) -> Mapping[str, Mapping[str, Any]]:
        of, entries = self._indexed
        if of is not workload:  # a Workload may be on ten thousand members
            entries = {each["name"]: each for each in workload.status.clusters}
            self._indexed = workload, entries
        return entries


def _names(held: Mapping[str, Any], workload: Workload) -> bool:
    """Whether a held sweep names another Workload of that name, or may: not all are listed."""
    listed = [(each["namespace"], each["name"], each["uid"]) for each in held.get("workloads", ())]
    key, uid = workload.metadata.key, workload.uid
    if any((namespace, name) == key and of != uid for namespace, name, of in listed):
        return True
    return held.get("count", 0) > len(listed) and (not listed or key > max(listed)[:2])


def _of_agent(session: PullSession, workload: Workload) -> ShareView:
    if session.contact is not Contact.SERVING:
        return UNKNOWN
    found = session.assignment(workload.uid)
    if found is None:
        return UNKNOWN if session.holds(workload) else Told({})
    entry = entry_of(session, workload)
    if entry is None or not found.carried_out or found.status.counts is None:
        return UNKNOWN
    return Told(entry)
