"""The hub side of a share: orders all objects of one Workload on one member, or their removal.

It records on the hub what a write requires, asks how many replicas stay or wait, and renders. The
answer of the member side (`share_applier`) becomes the outcome that is reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from crds.assignment import AssignmentOrder
from crds.workload import PropagatedReason
from machinery import logs, tracing
from machinery.errors import Conflict, TransportError
from machinery.kinds.paths import InvalidTemplate
from machinery.kinds.revisions import unstaged_revision
from machinery.overrides.override import OverrideMisfit, UnreadableOverrides
from machinery.overrides.variables import ClusterFacts
from machinery.types.metadata import Key
from propagator.access.carried_objects import CarriedObjectsReview
from propagator.apply.applier import Overtaken
from propagator.apply.refusals import invalid_override, misfit, unreadable
from propagator.apply.render import (
    MemberFacts,
    PatchMisfit,
    Piece,
    applied_of,
    beside,
    carried_in,
    carried_to,
    render,
)
from propagator.dependencies.follower import Follower
from propagator.errors import HubFault, NotListed, Refused, Unrenderable
from propagator.groups.rule import GateVerdict
from propagator.hub.named_objects import NamedObjects, NoTenant
from propagator.hub.revisions import AwaitsRevision, Revisions, revision_of_spec
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects, id_on_member, main_object, owned
from propagator.members.noted_kinds import needed_kinds
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.orders import Share, ShareReport
from propagator.outcome import DesiredShare, Outcome, outcome_of
from propagator.pull.assignments import AssignmentWriter, carried_of, stands, written_of
from propagator.removal.at_most_once import AtMostOnce, Waiting
from propagator.removal.deletions import DeletionBrake
from propagator.removal.finalizer import Finalizer
from propagator.removal.guard import Guard, Kept
from propagator.share_applier import ShareApplier
from propagator.telemetry import applying
from propagator.types.hub_objects import HubSecret
from propagator.types.workload import Workload

LOG = logs.get(__name__)
CONTENDED_SECONDS = 5.0
"""Conflicts that last longer are reported."""
UNLISTED_SECONDS = 60.0
"""A first list that takes longer is reported: that of a busy member says nothing of what runs."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two reconciles of a share that waits for something without an event."""

RecordOutcome: TypeAlias = Callable[[Workload, str, Outcome | None], None]
"""(Workload, member's name, outcome; None: the Workload wants nothing there)."""


_Written: TypeAlias = tuple[Outcome, float | None]
"""The outcome of a write, and seconds until requeue."""


class ShareWriter:
    """Members' workers call it, for one Workload on one ready member at a time."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        revisions: Revisions,
        secrets: NamedObjects[HubSecret],
        dependencies: Follower,
        inventory: OwnedObjects,
        finalizer: Finalizer,
        members: ShareApplier,
        assignments: AssignmentWriter,
        guard: Guard,
        once: AtMostOnce,
        gate: CarriedObjectsReview,
        record_outcome: RecordOutcome,
    ) -> None:
        self._workloads = workloads
        self._revisions = revisions
        self._deletions = DeletionBrake(context, workloads)
        self._secrets = secrets
        self._dependencies = dependencies
        self._inventory = inventory
        self._identity = context.identity
        self._restored = context.restored
        self._finalizer = finalizer
        self._members = members
        self._assignments = assignments
        self._guard = guard
        self._once = once
        self._record_outcome = record_outcome
        self._gate = gate
        self._clock = context.clock
        self._shares = context.shares
        self._waiting = self._shares.column(self._clock.monotonic)
        self._backoff = self._shares.backoff(
            tuple[str, str], clock=context.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )

    async def apply(self, session: MemberSession, workload: Workload) -> float | None:
        """Return seconds until requeue, or None. Raises TransportError to have the key retried."""
        with applying(session.name, workload):
            return await self._write(session, workload, self._apply)

    async def turn_back(
        self, session: MemberSession, workload: Workload, replicas: int
    ) -> float | None:
        """Apply another revision to a leaving share, with its present replicas; as `apply`."""

        async def write(
            session: MemberSession, workload: Workload, desired: DesiredShare
        ) -> _Written:
            outcome, requeue_after = await self._apply_all(session, workload, desired, replicas)
            written = outcome.written
            return Outcome(desired, PropagatedReason.PROPAGATING, written=written), requeue_after

        with applying(session.name, workload):
            return await self._write(session, workload, write)

    async def _write(
        self,
        session: MemberSession,
        workload: Workload,
        write: Callable[[MemberSession, Workload, DesiredShare], Awaitable[_Written]],
    ) -> float | None:
        desired = DesiredShare.of(workload, session.name)
        try:
            workload = await self._prepared(session, workload)
            if DesiredShare.of(workload, session.name) != desired:
                return None  # the Workload changed, and that change queued its key
            outcome, requeue_after = await write(session, workload, desired)
        except Overtaken:
            return 0.0
        except AwaitsRevision as waits:
            requeue_after = self._backoff.failed((workload.uid, session.name), str(waits))
            found = await self._found(session, workload)
            outcome = Outcome(desired, waits.reason, str(waits), found=found)
        except Unrenderable as refusal:
            requeue_after = None
            outcome = Outcome(desired, refusal.reason, str(refusal))
        except Refused as refusal:
            requeue_after = self._backoff.failed((workload.uid, session.name), str(refusal))
            outcome = Outcome(desired, refusal.reason, str(refusal))
        except HubFault as fault:
            self._fails(session, workload, Outcome(desired, fault.reason, str(fault)))
            raise
        except Conflict as fault:
            told = f"{session.name}: each write is refused, as somebody else wrote first: {fault}"
            lasting = Outcome(desired, PropagatedReason.CONFLICT, told)
            self._tell_lasting(session, workload, lasting, CONTENDED_SECONDS)
            raise
        except NotListed as fault:
            lasting = outcome_of(session.name, fault, desired)
            self._tell_lasting(session, workload, lasting, UNLISTED_SECONDS)
            raise
        except TransportError as fault:
            self._fails(session, workload, outcome_of(session.name, fault, desired))
            raise
        self._end(session, workload, outcome)
        return requeue_after

    async def _apply(
        self, session: MemberSession, workload: Workload, desired: DesiredShare
    ) -> _Written:
        share = workload.uid, session.name
        kept = await self._guard.kept(workload, session.name)
        waits = None if kept else self._once.waiting(workload, session.name)
        moves = _moves(desired, session.name, kept, waits)
        outcome, requeue_after = Outcome(desired), None
        if waits is None or waits.replicas:  # else there is nothing of it yet
            partly = kept or waits
            replicas = partly.replicas if partly else workload.shares[session.name]
            outcome, requeue_after = await self._apply_all(session, workload, desired, replicas)
        if outcome.reason is None and moves is not None:
            outcome = replace(moves, written=outcome.written)
        if outcome.reason is PropagatedReason.PROPAGATING:
            # The next report of the Workload brings changes of other members; this covers changes
            # that no report brings.
            pause = self._backoff.failed(share, outcome.message)
            requeue_after = pause if requeue_after is None else min(pause, requeue_after)
        elif requeue_after is None:
            self._backoff.reset(share)
        return outcome, requeue_after

    def keep(self, session: MemberSession, workload: Workload, verdict: GateVerdict) -> None:
        if verdict.message and session.name in workload.placements:
            self._end(session, workload, _gated(session, workload, verdict))

    async def lower(self, session: MemberSession, workload: Workload, kept: Kept) -> float | None:
        """Scale a departed share down as far as allowed; as `apply`. Its other fields stay."""
        desired, share = DesiredShare.of(workload, session.name), (workload.uid, session.name)
        try:
            order = await self._share(
                session, workload, AssignmentOrder.LOWER, desired, replicas=kept.replicas
            )
            report = await self._carry_out(session, order)
        except Refused as refusal:
            self._end(session, workload, Outcome(desired, refusal.reason, str(refusal)))
            return self._backoff.failed(share, str(refusal))
        except Conflict:
            raise
        except TransportError as fault:
            self._fails(session, workload, outcome_of(session.name, fault, desired))
            raise
        outcome = _moves(desired, session.name, kept, None)
        if outcome is not None and report.outcome.message:
            outcome = replace(outcome, message=report.outcome.message)
        self._end(session, workload, outcome)
        return self._backoff.failed(share, outcome and outcome.message)

    def stays(self, session: MemberSession, workload: Workload, waits: str = "") -> None:
        """`waits` is what the share waits for, unless that is the readiness of others."""
        desired = DesiredShare.of(workload, session.name)
        self._end(session, workload, Outcome(desired, PropagatedReason.PROPAGATING, waits))

    async def suspended(self, session: MemberSession, workload: Workload) -> None:
        message = f"{session.name}: spec.suspend names it, and nothing is written there"
        desired = DesiredShare.of(workload, session.name)
        if isinstance(session, PullSession):
            share = await self._share(session, workload, AssignmentOrder.OBSERVE, desired)
            await self._assignments.observe(session, share)
        self._end(session, workload, Outcome(desired, PropagatedReason.SUSPENDED, message))

    async def ask(self, session: PullSession, workload: Workload) -> None:
        if session.assignment(workload.uid) is None:
            desired = DesiredShare.of(workload, session.name)
            share = await self._share(session, workload, AssignmentOrder.OBSERVE, desired)
            await self._assignments.carry_out(session, share)

    async def remove(
        self, session: MemberSession, workload: Workload, verdict: GateVerdict | None = None
    ) -> float | None:
        """Remove all objects; return and raise as `apply`.

        `verdict` is the gate's reason if it is placed.
        """
        desired, share = DesiredShare.of(workload, session.name), (workload.uid, session.name)
        if isinstance(session, PullSession) and self._finalizer.acknowledged(workload, share[1]):
            return None  # its Assignment has gone, and is not made again
        try:
            why = self._deletions.why(workload)
            if why and not await self._ends_with_kind(workload):
                self._end(session, workload, Outcome(desired, PropagatedReason.DELETION_HELD, why))
                return self._backoff.failed(share, why)
            found = _kinds_on(session, workload)
            note = await self._restore_note(session, workload)
            if note or not found <= needed_kinds(workload):
                # The removal goes by the decision that was looked at, whatever the hub has since.
                await self._prepare(workload, found, note)
            order = await self._share(session, workload, AssignmentOrder.REMOVE, desired)
            report = await self._carry_out(session, order)
        except Conflict:
            raise
        except TransportError as fault:
            self._fails(session, workload, outcome_of(session.name, fault, desired))
            raise
        if (obstacle := report.obstacle) is not None:
            self._end(session, workload, Outcome(desired, obstacle.reason, str(obstacle)))
            return self._backoff.failed(share, str(obstacle))
        self._shares.drop_share(*share)
        if not report.stays:
            await self._acknowledge(session, workload)
        placed = session.name in workload.placements
        kept = _gated(session, workload, verdict) if verdict is not None and placed else None
        self._end(session, workload, kept)
        return None

    async def _acknowledge(self, session: MemberSession, workload: Workload) -> None:
        if workload.metadata.deleting:
            self._finalizer.acknowledge(workload, session.name)
        else:
            await self._workloads.confirm(workload, session.name)

    def _end(self, session: MemberSession, workload: Workload, outcome: Outcome | None) -> None:
        self._waiting.pop(workload.uid, session.name)
        self._record_outcome(workload, session.name, outcome)

    def _fails(self, session: MemberSession, workload: Workload, outcome: Outcome) -> None:
        LOG.info("%s: %s", session.name, outcome.message, extra={"object": workload.owner})
        self._end(session, workload, outcome)

    def _tell_lasting(
        self, session: MemberSession, workload: Workload, outcome: Outcome, seconds: float
    ) -> None:
        """Record the outcome if the share has waited for that long without another one."""
        now = self._clock.monotonic()
        if now - self._waiting.at(workload.uid, session.name) >= seconds:
            self._record_outcome(workload, session.name, outcome)

    async def _prepared(self, session: MemberSession, workload: Workload) -> Workload:
        """Record on the hub what a write requires; return the Workload as the member gets it."""
        workload = await self._revisions.of_member(workload, session.name)
        await self._gate.admit(session, workload)
        await self._members.namespaces.admit(session, workload)
        kinds = await self._inventory.shown(session, workload)
        note = await self._restore_note(session, workload)
        prepared = await self._prepare(workload, kinds | _kinds_on(session, workload), note)
        return await self._revisions.of_member(prepared, session.name)

    async def _prepare(
        self, workload: Workload, kinds: set[tuple[str, str]], note: str
    ) -> Workload:
        """Raises HubFault, Conflict."""
        try:
            await self._identity.uid()
            return await self._workloads.prepare(workload, kinds, restored=note)
        except Conflict:
            raise
        except TransportError as fault:
            raise HubFault("the Workload could not be prepared", fault) from fault

    async def _restore_note(self, session: MemberSession, workload: Workload) -> str:
        """Return the annotation by which `stowage restore --accept` knows it, or ""."""
        restored = await self._restored.of(workload, session.went_back_to)
        if isinstance(session, PullSession) and restored.as_of:
            found = session.assignment(workload.uid)
            says = found is not None and found.status.reason == PropagatedReason.HUB_RESTORED
            return restored.mark if says else ""
        there = owned(session, workload.uid) if restored.mark else ()
        return restored.note((found for _, found in there), workload.uid)

    async def _found(self, session: MemberSession, workload: Workload) -> str:
        """Return the present revision of a Workload that was not staged before.

        It is the spec's if applying the spec would change nothing; else the hub keeps no copy of
        it.
        """
        await self._inventory.wait_listed(session, workload)
        spec, there = revision_of_spec(workload), owned(session, workload.uid)
        live = main_object(main_of(workload), there)
        written = {id_on_member(found, workload.namespace): applied_of(found) for _, found in there}
        if isinstance(session, PullSession):
            order = session.assignment(workload.uid)
            written = written_of(order)
            if not written and stands(order):
                return unstaged_revision(spec)  # its last order was to write nothing
        if not written:
            return spec
        with suppress(Refused):
            replicas = live.replicas if live is not None else None
            share = workload.shares[session.name] if replicas is None else replicas
            pieces = await self._rendered(session, workload, share)
            if live is not None:
                pieces[-1] = beside(pieces[-1], live)
            wanted = {each.id: each for each in pieces}
            own = [(key, each) for key, each in wanted.items() if not each.shared]
            same = all(written.get(key) == each.template_digest for key, each in own)
            if same and written.keys() <= wanted.keys():
                return spec
        return unstaged_revision(spec)

    async def _apply_all(
        self, session: MemberSession, workload: Workload, desired: DesiredShare, replicas: int
    ) -> _Written:
        """Order all objects to be applied. Raises Refused."""
        with tracing.span("render"):
            pieces = await self._rendered(session, workload, replicas)
        share = await self._share(
            session, workload, AssignmentOrder.APPLY, desired, replicas=replicas, pieces=pieces
        )
        report = await self._carry_out(session, share)
        waits = [] if report.requeue_after is None else [report.requeue_after]
        if report.waiting is not None:
            waits.append(self._backoff.failed((workload.uid, session.name), report.waiting))
        return report.outcome, min(waits, default=None)

    async def _carry_out(self, session: MemberSession, share: Share) -> ShareReport:
        if isinstance(session, PullSession):
            report = await self._assignments.carry_out(session, share)
            if share.order is AssignmentOrder.APPLY:
                written = report.outcome.written
                self._dependencies.sent(session, share.workload, written=written)
            return report
        return await self._members.carry_out(session, share)

    async def _share(
        self,
        session: MemberSession,
        workload: Workload,
        order: AssignmentOrder,
        desired: DesiredShare,
        *,
        replicas: int = 0,
        pieces: Sequence[Piece] = (),
    ) -> Share:
        gone = await self._ends_with_kind(workload)
        restored = await self._restored.of(workload, session.went_back_to)
        return Share(
            order=order,
            workload=workload,
            desired=desired,
            replicas=replicas,
            pieces=tuple(pieces),
            absent=self._dependencies.absent(session, workload) if pieces else {},
            decided=self._workloads.decided(workload),
            orphan=workload.orphans or gone,
            left=workload.left(session.name) and not gone,
            told=workload.told(session.name, session.former),
            forced=self._guard.forced(workload, session.name),
            accepted=bool(restored.over) and not restored.as_of,
        )

    async def _rendered(
        self, session: MemberSession, workload: Workload, replicas: int
    ) -> list[Piece]:
        """Raises Refused."""
        member = session.name
        if workload.overrides.fault:
            raise unreadable(workload.overrides.fault)
        override = workload.overrides.of(member)
        cluster = await self._cluster(session, workload)
        hub = await self._identity.uid()
        restored = await self._restored.of(workload, session.went_back_to)
        facts = MemberFacts(
            cluster,
            session.images,
            hub=hub,
            mark=str(session.mark),
            since=restored.since,
        )
        try:
            pieces = render(
                workload,
                replicas=replicas,
                first_ordinal=self._once.first_ordinal(session, workload),
                secrets=await self._needed_secrets(workload),
                member=facts,
                override=override,
                ended=workload.end_of(member, session.former) is not None,
            )
        except PatchMisfit as fault:
            raise misfit(member, override.subset, fault) from fault
        except (OverrideMisfit, UnreadableOverrides) as fault:
            raise invalid_override(member, fault) from fault
        except InvalidTemplate as fault:
            raise Unrenderable(str(fault)) from fault
        return [*await self._dependencies.follow(session, workload, pieces, facts), *pieces]

    async def _cluster(self, session: MemberSession, workload: Workload) -> ClusterFacts:
        if not workload.spec.movement.carry:
            return session.facts
        if isinstance(session, PullSession):
            noted = carried_of(session.assignment(workload.uid))
            return replace(session.facts, carried=carried_in(workload, noted))
        await self._inventory.wait_listed(session, workload)
        live = main_object(main_of(workload), owned(session, workload.uid))
        return replace(session.facts, carried=carried_to(workload, live))

    async def _ends_with_kind(self, workload: Workload) -> bool:
        return workload.metadata.deleting and await self._workloads.kind_ends(workload.uid)

    async def _needed_secrets(self, workload: Workload) -> list[HubSecret]:
        """Raises Refused if one is missing."""
        found = []
        for name in workload.secrets:
            secret = await self._secret((workload.metadata.namespace, name))
            if secret is None:
                raise Refused(
                    PropagatedReason.SECRET_NOT_FOUND,
                    f"Secret {workload.metadata.namespace}/{name} does not exist on the hub",
                )
            found.append(secret)
        return found

    async def _secret(self, key: Key) -> HubSecret | None:
        try:
            return await self._secrets.get(key)
        except NoTenant as fault:
            raise Refused(PropagatedReason.SECRET_NOT_FOUND, str(fault)) from fault
        except TransportError as fault:
            raise HubFault(f"Secret {'/'.join(key)} could not be read", fault) from fault


def _moves(
    desired: DesiredShare, member: str, kept: Kept | None, waits: Waiting | None
) -> Outcome | None:
    """None if the share waits for no other."""
    if kept is not None:
        sentence = kept.sentence(member, desired.replicas)
        more = kept.replicas - desired.replicas
        return Outcome(
            desired, PropagatedReason.PROPAGATING, sentence, keeps=more, blocked=kept.blocked
        )
    if waits is None:
        return None
    sentence = waits.sentence(member, desired.replicas)
    lacks = desired.replicas - waits.replicas
    return Outcome(desired, PropagatedReason.PROPAGATING, sentence, lacks=lacks)


def _gated(session: MemberSession, workload: Workload, verdict: GateVerdict) -> Outcome:
    return Outcome(DesiredShare.of(workload, session.name), verdict.reason, verdict.message)


def _kinds_on(session: MemberSession, workload: Workload) -> set[tuple[str, str]]:
    """Return the kinds of what it has there, which a hub that was set back may not have noted."""
    return {(each.api_version, each.kind) for each, _ in owned(session, workload.uid)}
