"""A member in mode Pull: no connection to it, only what its agent writes into its namespace here.

Watches show the Assignments, the MemberReport and the Lease that the agent renews. The agent is
silent once the Lease was unchanged for SILENT_SECONDS of a view of the hub that a read has proven
to be fresh.

A thief of the agent's credential may draw replicas to a member by a lie. With `spec.reported:
Pinned` provider and version count as first reported. Room that more than doubles within
DWELL_SECONDS counts after that time. ReportDiffers tells what is held back.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from crds.assignment import AssignmentOrder
from crds.membercluster import ReadyReason, Reported
from crds.names import AGENT_ACCOUNT, AGENT_LEASE, ANNOTATION_TOKEN_ENDS, MEMBER_REPORT
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.lanes import LEASE, works_for
from machinery.api.resources import ASSIGNMENTS, LEASES, MEMBER_REPORTS, SERVICE_ACCOUNTS
from machinery.clock import stored_time
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.api import MemberReportStatus, UnassignedWorkload
from machinery.types.bounds import MOST_AMOUNT, NAME, clean
from machinery.types.metadata import Key, Object
from machinery.types.quantities import amount, render
from propagator.members.cluster_identity import ClusterIdentity
from propagator.members.health import MemberHealth
from propagator.members.objects import Mark, version_number
from propagator.members.session import MemberSession
from propagator.types.assignment import BY_WORKLOAD, Assignment, MemberReport
from propagator.types.cluster import MemberCluster
from propagator.types.workload import CLAIM, Workload

DWELL_SECONDS = 600.0
"""How long more than twice the room has to be told before it counts."""
MOST_GROWTH = 2
MOST_RESOURCES = 256
"""Resources whose last amount is remembered: their names are the agent's own."""
_PINNED = ("provider", "version")
_ROOM = ("nodeGroups", "capacity")


class Believed:
    """Of one member. `now` is a monotonic time."""

    def __init__(self) -> None:
        self._since = math.inf
        self._base: Mapping[str, int] = {}
        """The room before it last grew."""
        self._last: Mapping[str, int] = {}
        """What last counted of each resource, also of one that is told as none meanwhile."""
        self._grew = -math.inf

    @property
    def waits(self) -> bool:
        """Whether time alone may make more count."""
        return self._since < math.inf

    def of(
        self, cluster: MemberCluster, told: Mapping[str, Any], now: float
    ) -> tuple[dict[str, Any], list[str]]:
        """Return what counts of `told`, and a sentence for each field that is held back."""
        known, differs = dict(told), list[str]()
        stored = cluster.status
        for name in _PINNED if cluster.spec.reported == Reported.PINNED else ():
            if (old := stored.get(name)) and told.get(name) and told[name] != old:
                known[name] = old
                said = clean(str(told[name]), NAME)
                differs.append(f"{name} is told as {said} and counts as {old}")
        before, room = self._known(_room(stored)), _room(told)
        if held := self._held(before, room, now):
            for name in _ROOM:
                known.pop(name, None)
            known |= {name: stored[name] for name in _ROOM if name in stored}
            for name in held:
                old, new = (
                    render(name, min(found.get(name, 0), MOST_AMOUNT)) for found in (before, room)
                )
                differs.append(f"allocatable {name} is told as {new} and counts as {old}")
            differs.append(
                f"more than twice the room counts once it has been told for {DWELL_SECONDS:.0f} s"
            )
        return known, differs

    def _known(self, stored: Mapping[str, int]) -> Mapping[str, int]:
        """Return what counts, with what counted last of resources that are told as none."""
        now = {name: n for name, n in stored.items() if n > 0}
        former = {name: n for name, n in self._last.items() if name not in now}
        self._last = dict([*now.items(), *former.items()][:MOST_RESOURCES])
        return self._last

    def _held(self, before: Mapping[str, int], told: Mapping[str, int], now: float) -> list[str]:
        """Return the resources of which too much is told."""
        base = self._base if now - self._grew < DWELL_SECONDS else before
        if more := _more(told, base, MOST_GROWTH):
            self._since = min(self._since, now)
            if now - self._since < DWELL_SECONDS:
                return more
            base = told
        self._since = math.inf
        if _more(told, before):
            self._base, self._grew = base, now
        return []


def _more(room: Mapping[str, int], than: Mapping[str, int], times: int = 1) -> list[str]:
    return sorted(name for name, n in than.items() if 0 < n * times < room.get(name, 0))


def _room(status: Mapping[str, Any]) -> dict[str, int]:
    free: Counter[str] = Counter()
    for group in status.get("nodeGroups") or ():
        for name, value in (group.get("free") or {}).items():
            free[name] += group["count"] * amount(name, str(value))
    sums = (status.get("capacity") or {}).get("allocatable") or {}
    offered = {str(name): amount(str(name), str(value)) for name, value in sums.items()}
    return {name: max(offered.get(name, free[name]), free[name]) for name in {*offered, *free}}


LOG = logs.get(__name__)
SILENT_SECONDS = 60.0
CHECK_SECONDS = 5.0
"""Seconds between two looks at the agent's Lease: one that its watch has not shown is read."""
AWAY_CHECK_SECONDS = 30.0
QUIET_SECONDS = 25.0
"""How long the Lease may rest before it is read: the agent renews it each 20 s."""
_NOTHING_WRITTEN = (AssignmentOrder.OBSERVE, AssignmentOrder.REMOVE)
_SKEW_STEP = 30
"""Seconds by which the clock of an agent may differ untold."""

CONNECTED = MemberHealth(ReadyReason.CONNECTED, "its agent renews its Lease")


@dataclass(frozen=True, slots=True)
class PullSource:
    hub: ApiClient
    namespace: str
    """That of the member, on the hub."""


class _AgentLease(Object, frozen=True):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def state(self) -> tuple[str, str, int]:
        spec = self.spec
        return (
            str(spec.get("holderIdentity") or ""),
            str(spec.get("renewTime") or ""),
            int(spec.get("leaseTransitions") or 0),
        )


class PullSession(MemberSession):
    """`MemberSession` of a member that this process has no connection to."""

    def __init__(self, name: str, *, source: PullSource, **shared: Any) -> None:
        super().__init__(name, **shared)
        self.source = source
        self._hub = hub = source.hub
        clock, namespace = self._clock, source.namespace
        self.assignments: Informer[Assignment] = Informer(
            hub, ASSIGNMENTS, Assignment, namespace=namespace, clock=clock
        )
        self.reports: Informer[MemberReport] = Informer(
            hub,
            MEMBER_REPORTS,
            MemberReport,
            namespace=namespace,
            field_selector=f"metadata.name={MEMBER_REPORT}",
            clock=clock,
        )
        self._leases: Informer[_AgentLease] = Informer(
            hub,
            LEASES,
            _AgentLease,
            namespace=namespace,
            field_selector=f"metadata.name={AGENT_LEASE}",
            clock=clock,
        )
        for informer in (self.assignments, self.reports, self._leases):
            informer.crowded = lambda: True  # by the agents, and by sessions of other members
        self._lease: tuple[str, str, int] | None = None
        self._renewed = -math.inf
        self._looked = clock.monotonic()
        """Since when the present silence lasts, as far as the hub has shown it."""
        self._believed = Believed()
        self.token_ends = ""
        """When the agent's token ends, as it has noted."""
        self.skew_seconds = 0
        """By how much the agent's clock is ahead of the hub's, where that is much."""
        self.tidying, self.tidy = asyncio.Lock(), False
        """Held while copies that no Assignment names are removed, once before the first write."""
        self._ended = False
        """Whether an operator has ended the credential of the agent."""
        self._counted: tuple[int, str] = (0, "")
        """A version of the MemberReport, and that of the MemberCluster that has its capacity."""
        self.unassigned: Mapping[str, UnassignedWorkload] = {}
        """What its agent tells to stand there without an Assignment, by the Workload's UID."""
        self.assignments.add_index(BY_WORKLOAD, lambda each: ("/".join(each.workload),))
        self.assignments.add_handler(self._assignment_changed)
        self.reports.add_handler(self._report_changed)
        self._leases.add_handler(self._lease_changed)

    @property
    def ready(self) -> bool:
        listed = self.assignments.trusted and bool(self.told.started)
        return listed and self.verdict is not None and self.verdict.ready

    @property
    def silent_seconds(self) -> float:
        """Since the agent was last seen to renew its Lease, or since this process looks."""
        return self._clock.monotonic() - self._looked

    @property
    def answered(self) -> float:
        return self._renewed

    @property
    def mark(self) -> Mark:
        return Mark(self.registration, self.told.cluster_uid)

    @property
    def identity(self) -> ClusterIdentity:
        told = self.told
        set_id = told.cluster_id if told.cluster_id != told.cluster_uid else ""
        return ClusterIdentity(told.cluster_uid, set_id)

    @property
    def owners(self) -> Mapping[str, Key]:
        left = {uid: (each.namespace, each.name) for uid, each in self.unassigned.items()}
        return left | {each.uid: each.workload for each in self.assignments.values()}

    def uids_of(self, key: Key) -> set[str]:
        """Return the UIDs of `owners` under that key."""
        left = {u for u, each in self.unassigned.items() if (each.namespace, each.name) == key}
        return left | {e.uid for e in self.assignments.by_index(BY_WORKLOAD, "/".join(key))}

    @property
    def told(self) -> MemberReportStatus:
        """What the agent tells of the member; empty without a report."""
        found = self.reports.get((self.source.namespace, MEMBER_REPORT))
        return found.status if found is not None else MemberReportStatus()

    def assignment(self, uid: str) -> Assignment | None:
        return self.assignments.get((self.source.namespace, uid))

    def holds(self, workload: Workload) -> bool:
        """Whether something of the Workload may be there."""
        uid = workload.uid
        known = self.assignment(uid) is not None or uid in self.unassigned
        return known or self.name in workload.sent

    def tells(self, workload: Workload) -> bool:
        found = self.assignment(workload.uid)
        if found is None:
            return not self.holds(workload)
        return found.status.counts is not None

    def keeps_alone(self, workload: Workload) -> bool:
        """Whether its agent has confirmed the end of the share, and only tells what is kept."""
        found, uid = self.assignment(workload.uid), workload.uid
        tells = found is not None and found.spec.order in _NOTHING_WRITTEN
        ended = uid not in self.unassigned and self.name not in workload.sent
        return tells and ended and workload.only_kept(self.name)

    def ignores(self, workload: Workload, kept: Mapping[str, Any]) -> bool:
        """Whether an entry of status.kept is of a claim that its agent has not looked at."""
        found = self.assignment(workload.uid)
        if found is None or kept["kind"] != CLAIM or self.name in workload.placements:
            return False
        looked = found.carried_out and found.status.looked
        known = found.spec.share_rules.kept if looked else ()
        claim = kept.get("namespace", ""), kept["name"]
        return all((each.namespace, each.name) != claim for each in known)

    def believe(
        self, cluster: MemberCluster, told: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        """As `Believed.of`, now."""
        return self._believed.of(cluster, told, self._clock.monotonic())

    def note(self, cluster: MemberCluster) -> Mapping[str, str]:
        """Return the cluster's identity for the status; empty if it is not told."""
        found = self.identity
        return self._identities.note(cluster, found) if found.id else {}

    def published(self, report: str, cluster: str) -> None:
        seen, known = version_number(report), self._counted
        if seen is not None and known != (seen, cluster):
            self._counted = seen, cluster
            for each in self.assignments.values():
                self._changed(self.name, each.workload)

    def counted_by(self, report: str) -> int | None:
        version = version_number(report)
        if version is None or version > self._counted[0]:
            return None
        return version_number(self._counted[1])

    @property
    def report_version(self) -> str:
        found = self.reports.get((self.source.namespace, MEMBER_REPORT))
        return found.metadata.resource_version if found is not None else ""

    def take_in(self, cluster: MemberCluster) -> None:
        super().take_in(cluster)
        if cluster.revoked != self._ended:
            self._ended = cluster.revoked
            self._judge_agent(self._revoked() if self._ended else None)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._wakes.run())
                for informer in (self.assignments, self.reports, self._leases):
                    tasks.create_task(informer.run())
                tasks.create_task(self._watch_agent())
        finally:
            for uid in self.owners:
                self._holders.discard(uid, self.name)

    async def _watch_agent(self) -> None:
        await self.assignments.wait_synced()
        await self.reports.wait_synced()
        while True:
            self._judge_agent(await self._trouble())
            if self._believed.waits:
                self._facts(self.name)
            if self.ready and self._pending:
                self._queue_pending()  # a watch was behind when they came
            await self._clock.sleep(self._pause())

    def _pause(self) -> float:
        """Seconds until the next look. Its watch shows an agent that comes back."""
        if self.verdict is None:
            return 1.0
        return CHECK_SECONDS if self.verdict.ready else AWAY_CHECK_SECONDS

    async def _trouble(self) -> MemberHealth | None:
        """Return the verdict; None while nothing is known."""
        if self._ended:
            return self._revoked()
        if self.reports.trusted and not self.report_version:
            return self._revoked("its MemberReport is gone")
        now = self._clock.monotonic()
        quiet = now - self._looked
        if quiet > QUIET_SECONDS or self._lease is None:
            try:
                await self._read_lease()
            except NotFound:
                return self._revoked()
            except TransportError as fault:
                LOG.info("%s: the Lease of its agent cannot be read: %s", self.name, fault)
                # Of a hub that does not answer it is not known for how long the agent is silent.
                self._looked = max(self._looked, now - QUIET_SECONDS)
                return None
            quiet = self._clock.monotonic() - self._looked
        if self._renewed > -math.inf and quiet < SILENT_SECONDS:
            return CONNECTED
        if quiet < SILENT_SECONDS:
            return None  # a process that has just begun has not seen it renewed yet
        if not await self._has_account():
            return self._revoked()
        message = f"its agent has not renewed its Lease for {SILENT_SECONDS:.0f} s"
        return MemberHealth(ReadyReason.AGENT_SILENT, message)

    async def _read_lease(self) -> None:
        found = await self._hub.get(
            LEASES, AGENT_LEASE, namespace=self.source.namespace, errand=LEASE
        )
        spec = found.get("spec") or {}
        self._see(_AgentLease(spec=spec).state)

    async def _has_account(self) -> bool:
        where: dict[str, Any] = {"namespace": self.source.namespace}
        try:
            await self._hub.get(SERVICE_ACCOUNTS, AGENT_ACCOUNT, **where)
        except NotFound:
            return False
        except (Forbidden, TransportError):
            return True  # it is not known, and a silent agent needs no operator
        return True

    def _revoked(self, why: str = "its agent has no account any more") -> MemberHealth:
        message = f"{why}: run `stowage invite {self.name} --renew`"
        return MemberHealth(ReadyReason.AGENT_REVOKED, message)

    def _lease_changed(self, _old: _AgentLease | None, new: _AgentLease | None) -> None:
        if new is None:
            return
        ends = new.metadata.annotations.get(ANNOTATION_TOKEN_ENDS, "")
        if ends != self.token_ends:
            self.token_ends = ends
            self._facts(self.name)
        self._see(new.state)

    def _see(self, state: tuple[str, str, int]) -> None:
        before, self._lease = self._lease, state
        if before is None or state == before:
            return
        self._looked = self._clock.monotonic()
        self._tell_skew(state[1])
        if state[0] and not self._ended:  # not one that was let go of
            self._renewed = self._looked
            self._judge_agent(CONNECTED)

    def _tell_skew(self, renewed: str) -> None:
        """The watch shows a renewal within a second, so the rest is the difference of clocks."""
        moment = stored_time(renewed)
        if moment is None:
            return
        ahead = (moment - self._clock.now()).total_seconds()
        skew = round(ahead / _SKEW_STEP) * _SKEW_STEP if abs(ahead) > _SKEW_STEP else 0
        if skew != self.skew_seconds:
            self.skew_seconds = skew
            self._facts(self.name)

    def _judge_agent(self, verdict: MemberHealth | None) -> None:
        if verdict is not None and verdict.ready:
            if not (self.assignments.trusted and self.told.started):
                return
            verdict = self._identities.refusal(self.name, self.identity) or verdict
        if verdict is None or verdict == self.verdict:
            return
        if not verdict.ready:
            self._identities.release(self.name)
        self._judge(verdict)

    def _assignment_changed(self, old: Assignment | None, new: Assignment | None) -> None:
        known = new or old
        if known is None:
            return
        if new is not None:
            self._holders.add(known.uid, self.name)
        elif known.uid not in self.unassigned:
            self._holders.discard(known.uid, self.name)
        another = not works_for(known.workload)  # a person may have edited it
        if old is None or new is None or old.status != new.status or another:
            self._changed(self.name, known.workload)
            self.queue.add(known.workload)

    def _report_changed(self, _old: MemberReport | None, _new: MemberReport | None) -> None:
        heard = self._renewed > -math.inf and (self.verdict is None or self.verdict.ready)
        self._judge_agent(CONNECTED if heard else None)
        self._take_unassigned()
        self._facts(self.name)

    def _take_unassigned(self) -> None:
        told = self.told.unassigned
        before, now = self.unassigned, {e.uid: e for e in (told.workloads if told else ())}
        self.unassigned = now
        for uid in before.keys() ^ now.keys():
            each = now.get(uid) or before[uid]
            if uid in now:
                self._holders.add(uid, self.name)
            elif self.assignment(uid) is None:
                self._holders.discard(uid, self.name)
            self._changed(self.name, (each.namespace, each.name))
            self.queue.add((each.namespace, each.name))
        if before.keys() ^ now.keys():
            self._changed(self.name, None)
