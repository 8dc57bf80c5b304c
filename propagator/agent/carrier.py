"""Carries the Assignments of one namespace out on one member, and tells what came of each.

The session's workers call `reconcile` when an Assignment changes and when its objects on the member
do. While the hub is away the last orders stand, and reports wait.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from crds.assignment import AssignmentOrder
from crds.fields.shares import BlockedReason
from crds.workload import PropagatedReason
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import ASSIGNMENTS
from machinery.clock import Clock, timestamp
from machinery.errors import Conflict, LeaseLost, NotFound, TransportError
from machinery.kinds.profile import kind_name
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.api import AssignmentStatus
from machinery.types.merge_patch import merging
from machinery.types.metadata import Key
from propagator.agent.assigned import Assigned, kept_of, status_of, unreadable
from propagator.agent.context import AssignedWorkloads
from propagator.agent.told_kinds import ToldKinds
from propagator.apply.applier import Overtaken
from propagator.apply.render import asking
from propagator.deletion_costs import CostWriter
from propagator.dependencies.follower import Follower
from propagator.errors import Refused
from propagator.hub.revisions import Revisions
from propagator.hub.watched_kinds import Census
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import OwnedObjects, main_object, owned
from propagator.members.objects import ManagedObject, version_number
from propagator.members.pods import main_of
from propagator.members.session import MemberSession
from propagator.members.views import told_in
from propagator.orders import Share, ShareReport
from propagator.outcome import Outcome, outcome_of
from propagator.pull.bundle import CONTENTS, Unreadable
from propagator.removal.at_most_once import AtMostOnce
from propagator.removal.brake import left_behind
from propagator.removal.disruptions import Disruptions
from propagator.removal.guard import Guard
from propagator.removal.left_claims import LeftClaims
from propagator.share_applier import ShareApplier
from propagator.shares import Column
from propagator.status.cluster_share import share_of
from propagator.status.observation import Survey
from propagator.status.refusals import RefusalEvents
from propagator.types.assignment import BY_WORKLOAD, Assignment
from propagator.types.cluster import Secret
from propagator.types.movement import Blocked
from propagator.types.workload import Workload

LOG = logs.get(__name__)
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
SPACING_SECONDS = 1.0
"""The minimum seconds between two reports of one share."""
_TELLERS = 8
_ORDER = ""
"""State of an order is that of its Workload, whatever the member holds."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of the order of that digest."""

    digest: str
    report: ShareReport


@dataclass(frozen=True, slots=True)
class _Told:
    at: float
    time: str


class Carrier:
    """The caller runs `assignments`, with the index BY_WORKLOAD, and `secrets`.

    `may_act` says whether orders may be carried out at all.
    """

    def __init__(
        self,
        context: ControllerContext,
        session: MemberSession,
        *,
        namespace: str,
        assignments: Informer[Assignment],
        secrets: Informer[Secret],
        hub: Callable[[], str],
        may_act: Callable[[], bool],
    ) -> None:
        self._clock: Clock = context.clock
        self._client: ApiClient = context.hub
        self._session = session
        self._assignments = assignments
        self._secrets = secrets
        self._hub = hub
        self._namespace = namespace
        self._may_act = may_act
        # Of the Workload: its order ends with its Assignment.
        self._shares = shares = context.shares
        self._assigned: Column[Assigned | Unreadable] = shares.column()
        self._kinds = ToldKinds(self._kind_changed)
        self._done: Column[_Done] = shares.column()
        self._edited: Column[bool] = shares.column()
        self._told: Column[_Told] = shares.column()
        self.queue: WorkQueue[str] = WorkQueue(name="assignments", clock=self._clock)
        pauses: Any = {"clock": self._clock, "base": FIRST_PAUSE, "cap": LONGEST_PAUSE}
        self._backoff = shares.backoff(tuple[str, str], **pauses)
        self._of_hub = shares.backoff(tuple[str, str], **pauses)
        self._census = Census(context, noted=False)
        self._build(context)
        context.registry.on_change(self._member_changed)
        context.registry.key_of = self._workloads.key_of

    def _build(self, context: ControllerContext) -> None:
        self._workloads = AssignedWorkloads(context.shares)
        # As much of the hub's as is asked here, and who hears of a change.
        shared: dict[str, Any] = {"workloads": self._workloads, "changed": self._tell_key}
        self._refusals = RefusalEvents(context, **shared)
        self._inventory = shared["inventory"] = OwnedObjects(context)
        workloads: Any = self._workloads
        once = AtMostOnce(context, workloads=workloads, inventory=self._inventory)
        self._disruptions = Disruptions(context)
        self._dependencies = Follower(
            context, workloads=workloads, watches={}, report=self._tell_key
        )
        self._applier = ShareApplier(
            context,
            dependencies=self._dependencies,
            standing_in=Guard(context, inventory=self._inventory, once=once).standing_in,
            may_apply=self._stands,
            **shared,
        )
        self._costs = CostWriter(context, workloads=self._workloads, may_write=self._may_write)
        self._claims = LeftClaims(context, workloads=self._workloads, changed=self._tell_key)
        self._survey = Survey(
            context,
            inventory=self._inventory,
            revisions=Revisions(context.hub, context.shares),
            left=self._claims.standing,
            refusals=self._refusals.told,
            tells=True,
        )

    def begin(self) -> None:
        """Take in what is listed. Then changes come by `assignment_changed`, `secret_changed`."""
        for found in self._assignments.values():
            self.assignment_changed(None, found)

    async def run(self) -> None:
        """Tell the hub, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._census.run())
            tasks.create_task(self._refusals.run())
            tasks.create_task(self._costs.run())
            tasks.create_task(self._claims.run())
            tasks.create_task(work(self.queue, self._tell, workers=_TELLERS, log=LOG))

    async def reconcile(self, session: MemberSession, key: Key) -> float | None:
        """Carry out what is ordered for the Workload; return seconds until requeue, or None."""
        if not self._may_act():
            return FIRST_PAUSE
        waits = [
            await self._carry_out(session, found)
            for found in self._assignments.by_index(BY_WORKLOAD, "/".join(key))
        ]
        return min((each for each in waits if each is not None), default=None)

    async def _carry_out(self, session: MemberSession, found: Assignment) -> float | None:
        uid, digest = found.uid, found.spec.digest
        assigned = self._assigned.get(uid)
        if not isinstance(assigned, Assigned):
            return None  # `assignment_changed` has told why
        session.allowed_kinds = session.allowed_kinds | assigned.allowed_kinds
        requeue_after: float | None = None
        try:
            report = await self._by_order(session, assigned)
        except Overtaken:
            return 0.0
        except Unreadable as fault:
            report = _refused(assigned, Refused(PropagatedReason.PROPAGATING, str(fault)))
            requeue_after = self._backoff.failed((uid, _ORDER), str(fault))
        except Refused as fault:
            report = _refused(assigned, fault)
            requeue_after = self._backoff.failed((uid, _ORDER), str(fault))
        except (Conflict, LeaseLost):
            raise
        except TransportError as fault:
            outcome = outcome_of(session.name, fault, assigned.desired)
            self._record(uid, digest, ShareReport(outcome, obstacle=_obstacle(outcome)))
            raise
        else:
            requeue_after = self._pause(uid, report)
        self._record(uid, digest, report)
        removed = assigned.order is AssignmentOrder.REMOVE and not report.stays
        if removed and report.obstacle is None:
            self._shares.drop_share(uid, session.name)
        return requeue_after

    def _pause(self, uid: str, report: ShareReport) -> float | None:
        waits = [report.requeue_after] if report.requeue_after is not None else []
        under_way = report.waiting or report.obstacle or report.outcome.blocked
        if under_way is not None:
            waits.append(self._backoff.failed((uid, _ORDER), str(under_way)))
        elif not waits:
            self._backoff.reset((uid, _ORDER))
        return min(waits, default=None)

    async def _by_order(self, session: MemberSession, assigned: Assigned) -> ShareReport:
        if why := _elsewhere(session, assigned):
            raise Refused(PropagatedReason.PROPAGATING, why)
        if assigned.order is AssignmentOrder.APPLY:
            await self._applier.namespaces.admit(session, assigned.workload)
        share = assigned.share(self._contents(assigned), hub=self._hub())
        if self._edited.get(assigned.found.uid) or share.accepted:
            share = replace(share, decided=math.inf)
        if assigned.order is AssignmentOrder.APPLY:
            self._dependencies.ordered(session, share.workload, share.absent)
        if assigned.order is AssignmentOrder.REMOVE and not share.workload.ended:
            await self._name_claims(session, share.workload)
        if assigned.order in (AssignmentOrder.KEEP, AssignmentOrder.OBSERVE):
            await self._inventory.wait_listed(session, share.workload)
        elif assigned.order is not AssignmentOrder.REMOVE or share.left:
            return await self._within_budgets(session, share)
        return await self._applier.carry_out(session, share)

    async def _name_claims(self, session: MemberSession, workload: Workload) -> None:
        """Raises Refused until the hub's status names the claims that the share leaves."""
        await self._inventory.wait_listed(session, workload)
        found = self._assignments.get((self._namespace, workload.uid))
        told = kept_of(found, session.name) if found is not None else []
        if not await self._claims.note(session, workload, told):
            waits = f"{session.name}: the claims that it leaves are named first"
            raise Refused(PropagatedReason.PROPAGATING, waits)

    async def _within_budgets(self, session: MemberSession, share: Share) -> ShareReport:
        """Lower the main object no further than the member's disruption budgets let it."""
        workload = share.workload
        await self._inventory.wait_listed(session, workload)
        main = main_of(workload)
        live = main_object(main, owned(session, workload.uid))
        present = live.replicas if live is not None else None
        if present is not None and present <= share.replicas:
            self._disruptions.raised(session.name, workload.metadata.key, share.replicas)
        if live is None or present is None or present <= share.replicas or share.forced:
            return await self._applier.carry_out(session, share)
        allowed = self._disruptions.allowed(
            session,
            workload,
            main,
            present=present,
            keeps=share.replicas,
            carried=share.order is not AssignmentOrder.REMOVE,
            labels=live.pod_labels or (),
        )
        if allowed.keeps <= share.replicas:
            return await self._applier.carry_out(session, share)
        report = await self._applier.carry_out(session, _lowered(share, allowed.keeps))
        blocked = Blocked(BlockedReason.DISRUPTION_BUDGET, allowed.why)
        waits = Refused(PropagatedReason.PROPAGATING, allowed.why)
        outcome = replace(report.outcome, blocked=blocked)
        if outcome.reason in (None, waits.reason):
            outcome = replace(outcome, reason=waits.reason, message=allowed.why)
        removes = share.order is AssignmentOrder.REMOVE
        return replace(report, outcome=outcome, obstacle=waits if removes else None)

    def _contents(self, assigned: Assigned) -> Mapping[str, bytes]:
        namespace = assigned.found.metadata.namespace
        found = (
            (each.name, self._secrets.get((namespace, each.name)))
            for each in assigned.found.spec.secrets
        )
        return {name: held.data.get(CONTENTS, b"") for name, held in found if held is not None}

    def _stands(self, workload: Workload) -> bool:
        held = self._assigned.get(workload.uid)
        return isinstance(held, Assigned) and held.workload is workload

    def _may_write(self, workload: Workload) -> bool:
        held = self._assigned.get(workload.uid)
        applies = isinstance(held, Assigned) and held.order is AssignmentOrder.APPLY
        return applies and self._may_act()

    def _record(self, uid: str, digest: str, report: ShareReport) -> None:
        self._done.put(uid, _ORDER, _Done(digest, report))
        self.queue.add(uid)

    def _tell_key(self, key: Key) -> None:
        for found in self._assignments.by_index(BY_WORKLOAD, "/".join(key)):
            self.queue.add(found.uid)

    def _member_changed(self, name: str, key: Key | None) -> None:
        if key is not None:
            self._disruptions.look(name, key)
            self._tell_key(key)
            return
        for found in self._assignments.values():
            self._session.wake(found.workload)
            self.queue.add(found.uid)

    def assignment_changed(self, old: Assignment | None, new: Assignment | None) -> None:
        if new is None:
            if old is not None:
                self._drop(old.uid)
            return
        if old is not None and old.spec == new.spec and old.metadata.uid == new.metadata.uid:
            told = self._told.get(new.uid)
            if old.status != new.status and (told is None or told.time != new.status.time):
                self.queue.add(new.uid)  # what the hub has is older: it was set back
            return
        try:
            assigned = Assigned(new, self._session.name)
        except (Unreadable, ValueError, KeyError) as fault:
            LOG.warning("an Assignment cannot be read: %s", fault, extra={"object": new.uid})
            self._assigned.put(new.uid, _ORDER, Unreadable(str(fault)))
            self.queue.add(new.uid)
            return
        if old is not None:
            self._witness(old, new)
        self._take(assigned)
        self._kinds.take(new.uid, assigned.kinds, assigned.described)
        self._session.registration = assigned.mark.registration or self._session.registration
        self._session.wake(new.workload)

    def _witness(self, old: Assignment, new: Assignment) -> None:
        """Note an edit of the Workload since, which decides on what is younger here.

        A hub that was set back shows another object. Its shard may order once more what was edited
        before, until it has seen that.
        """
        before, now = old.spec.workload.generation, new.spec.workload.generation
        if now > before:
            self._edited.put(new.uid, _ORDER, value=True)
        elif now < before:
            self._edited.pop(new.uid)

    def _take(self, assigned: Assigned) -> None:
        before = self._workloads.by_uid(assigned.found.uid)
        self._assigned.put(assigned.found.uid, _ORDER, assigned)
        self._workloads.hold(assigned.workload)
        self._costs.workload_changed(before, assigned.workload)

    def _kind_changed(self, group: str, kind: str) -> None:
        if self._session.link is not None:
            self._session.link.watches.judge_anew(group, kind)
        for each in [self._assigned.at(*at) for at in self._assigned]:
            if isinstance(each, Assigned) and kind_name(group, kind) in each.kinds:
                self._take(Assigned(each.found, self._session.name))
                self._session.wake(each.found.workload)

    def _drop(self, uid: str) -> None:
        """A missing Assignment removes nothing."""
        self._kinds.drop(uid)
        self._shares.drop_workload(uid)

    def secret_changed(self, new: Secret) -> None:
        for found in self._assignments.values():
            if any(each.name == new.metadata.name for each in found.spec.secrets):
                self._session.wake(found.workload)

    async def _tell(self, uid: str) -> float | None:
        """Write the status of the Assignment if it changes; return seconds until requeue."""
        found = self._assignments.get((self._namespace, uid))
        assigned, done = self._assigned.get(uid), self._done.get(uid)
        if found is None or self._session.contact is not Contact.SERVING:
            return None  # its next reconcile brings it
        link = self._session.link
        if link is None or not (link.counted or link.obstacle):
            return FIRST_PAUSE
        told = self._told.get(uid)
        if told is not None and (left := told.at + SPACING_SECONDS - self._clock.monotonic()) > 0:
            return left
        if isinstance(assigned, Unreadable):
            wanted = unreadable(found, str(assigned))
        elif assigned is None or done is None or done.digest != found.spec.digest:
            return None  # as above
        else:
            wanted = self._status(assigned, found, done.report)
        status = msgspec.convert(wanted, AssignmentStatus)
        stored = msgspec.structs.replace(found.status, time="")
        if status == stored:
            return None
        wanted["time"] = timestamp(self._clock.now())
        self._told.put(uid, _ORDER, _Told(self._clock.monotonic(), wanted["time"]))
        patch = {
            "metadata": {"uid": found.metadata.uid},
            "status": merging(msgspec.to_builtins(found.status), wanted),
        }
        try:
            answer = await self._client.merge_patch(
                ASSIGNMENTS,
                uid,
                patch,
                namespace=found.metadata.namespace,
                subresource="status",
            )
        except (NotFound, Conflict):
            return None  # its event is in flight
        except LeaseLost:
            return FIRST_PAUSE  # the Lease on the hub is not held yet, or any more
        except TransportError as fault:
            LOG.info("the hub took no report: %s", fault, extra={"object": uid})
            return self._of_hub.failed((uid, _ORDER))
        self._of_hub.reset((uid, _ORDER))
        self._assignments.upsert(msgspec.convert(answer, Assignment))
        return None

    def _status(self, assigned: Assigned, found: Assignment, report: ShareReport) -> dict[str, Any]:
        workload, name = assigned.workload, self._session.name
        before = told_in(found, name, workload.shares.get(name, 0))
        if (counted := version_number(found.status.reported)) is not None:
            before["capacityVersion"] = counted
        seen = self._survey.observe(workload, name, report.outcome)
        share = share_of(seen, workload.profile, before, said=workload.metadata.generation)
        if share.look_in is not None:
            self.queue.add_after(found.uid, share.look_in)
        drift = self._applier.drift.told(workload)
        if (over := self._applier.drift.soonest(drift)) is not None:
            self.queue.add_after(found.uid, over)
        return status_of(
            assigned,
            share,
            report,
            kept=self._survey.kept(workload),
            drift=drift,
            reported=cast("int | None", share.entry.get("capacityVersion")),
        )

    def unassigned(self) -> dict[str, tuple[Key, list[ManagedObject]]]:
        """Return the objects of this hub without an order, by the UIDs of their Workloads."""
        found: dict[str, tuple[Key, list[ManagedObject]]] = {}
        session, hubs = self._session, {self._hub()}
        if session.link is None or not self._census.searched(session.link):
            return found
        for uid, key in session.owners.items():
            if self._assigned.get(uid) is None:
                objects = [each for _, each in owned(session, uid) if left_behind(each, uid, hubs)]
                if objects:
                    found[uid] = key, objects
        return found


def _elsewhere(session: MemberSession, assigned: Assigned) -> str:
    """The agent's Secret may be copied: what runs at most once would run in both clusters."""
    here, wanted = session.mark.cluster, assigned.mark.cluster
    if not (here and wanted) or here == wanted:
        return ""
    return f"{session.name}: the order is for the cluster {wanted}, and this agent is in {here}"


def _lowered(share: Share, replicas: int) -> Share:
    """Return the order with more replicas; an edit of its objects waits for no budget."""
    if share.order is not AssignmentOrder.APPLY:
        return replace(share, order=AssignmentOrder.LOWER, replicas=replicas, pieces=())
    *others, main = share.pieces
    main = asking(main, replicas, at=share.workload.profile.replicas_path)
    return replace(share, replicas=replicas, pieces=(*others, main))


def _refused(assigned: Assigned, refusal: Refused) -> ShareReport:
    outcome = Outcome(assigned.desired, refusal.reason, str(refusal))
    removes = assigned.order is AssignmentOrder.REMOVE
    return ShareReport(outcome, obstacle=refusal if removes else None)


def _obstacle(outcome: Outcome) -> Refused:
    return Refused(outcome.reason or PropagatedReason.CLUSTER_UNREACHABLE, outcome.message)
