"""Carries out what the hub orders of a member for one Workload: applies, lowers, or removes.

It reads nothing of the hub but the Share. A write applies, and then removes what is no longer
rendered: the predecessor of a workload must exist until its successor does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from crds.assignment import AssignmentOrder
from crds.names import Edits
from crds.workload import PropagatedReason
from machinery.types.metadata import Key
from propagator.access.namespaces import Namespaces
from propagator.apply import applier
from propagator.apply.apply_records import ApplyRecords, UnconfirmedWrites
from propagator.apply.image_turns import ImageTurns
from propagator.apply.object_writer import PieceWriter
from propagator.apply.refusals import Unchangeable, unlisted
from propagator.apply.render import Piece, beside
from propagator.dependencies.follower import Follower
from propagator.drift.records import DriftRecords
from propagator.errors import Refused
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.inventory import (
    OwnedObjects,
    has_ended,
    id_on_member,
    main_object,
    owned,
    pods_left,
)
from propagator.members.objects import ManagedObject
from propagator.members.pods import main_of
from propagator.members.session import MemberSession
from propagator.members.watches import Found
from propagator.orders import Share, ShareReport
from propagator.outcome import DesiredShare, Outcome
from propagator.removal.formers import Formers, StandingIn
from propagator.removal.prune import Pruner, PruneResult
from propagator.types.workload import Workload


class ShareApplier:
    """`may_apply` is asked before each wave, `standing_in` is that of the guard.

    `changed` is called with the key of a Workload whose drift is another.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        dependencies: Follower,
        inventory: OwnedObjects,
        standing_in: StandingIn,
        may_apply: Callable[[Workload], bool],
        changed: Callable[[Key], None],
    ) -> None:
        clock, shares = context.clock, context.shares
        self._dependencies = dependencies
        self._inventory = inventory
        self._unconfirmed = UnconfirmedWrites(shares, clock=clock)
        self.namespaces = Namespaces(clock=clock)
        self.drift = DriftRecords(shares, clock=clock, recorder=context.recorder, changed=changed)
        records = ApplyRecords(shares, clock=clock)
        self.pruner = Pruner(context, records, known=workloads.by_uid)
        self.writer = PieceWriter(
            context,
            records,
            unconfirmed=self._unconfirmed,
            workloads=workloads,
            namespaces=self.namespaces,
            drift=self.drift,
        )
        self._formers = Formers(self.pruner, standing_in)
        self._images = ImageTurns(shares, clock=clock)
        self._may_apply = may_apply

    async def carry_out(self, session: MemberSession, share: Share) -> ShareReport:
        """Raises Refused, Overtaken, and TransportError if a retry may help."""
        match share.order:
            case AssignmentOrder.APPLY:
                return await self._apply(session, share)
            case AssignmentOrder.LOWER:
                return await self._lower(session, share)
            case AssignmentOrder.REMOVE:
                return await self._remove(session, share)
            case AssignmentOrder.KEEP | AssignmentOrder.OBSERVE:
                return ShareReport(Outcome(share.desired))

    async def _apply(self, session: MemberSession, share: Share) -> ShareReport:
        """CONFLICT: objects are contested. PROPAGATING: the share waits for a former object."""
        workload, desired, pieces = share.workload, share.desired, [*share.pieces]
        main = main_of(workload)

        def look() -> ManagedObject | None:
            return main_object(main, owned(session, workload.uid))

        if workload.at_most_once:
            await self._inventory.wait_listed(session, workload)
            decided = share.decided
            if waits_for := await self._formers.give_way(session, workload, decided=decided):
                return ShareReport(_applied(desired, waits_for))
        live, ended = look(), has_ended(session, workload)
        if live is not None:
            pieces[-1] = replace(beside(pieces[-1], live), ended=ended)
        pause = self._images.pause(session.name, workload.uid, pieces[-1], look, share.replicas)
        if pause is not None:
            return ShareReport(Outcome(desired), pause)
        # A share that ended runs once, wherever its object went. One without a part does not start
        # yet.
        gone = live is None and (ended or workload.awaits_part(session.name))
        # An edit would run it once more, and so would its own controller what failed.
        stays = ended and workload.profile.edits is Edits.RESTARTS
        forgets = workload.forgets(session.name, session.former)
        applied = await applier.apply(
            self.writer,
            session,
            workload,
            pieces[:-1] if gone or stays or forgets else pieces,
            may_apply=self._may_apply,
        )
        self._dependencies.applied(session, workload)
        refusals = [*applied.refusals]
        await self._make_way(session, share, refusals)
        formers, left = "", PruneResult({}, {})
        if applied.whole:  # else the workload's predecessor stays
            await self._inventory.wait_listed(session, workload)
            formers = await self._formers.lower(session, workload, decided=share.decided)
        if applied.whole and not formers:
            stay = applied.refused
            left = await self._prune(session, share, pieces[:-1] if forgets else pieces, stay)
            self.writer.rendered(session.name, workload, pieces)
            refusals += left.refused.values()
        if refusals:
            raise Refused.of(refusals)
        waits = [backoff.seconds for backoff in applied.backoffs]
        contested = sorted({backoff.sentence for backoff in applied.backoffs if backoff.sentence})
        outcome = replace(_applied(desired, formers, contested), written=not applied.backoffs)
        return ShareReport(outcome, min(waits, default=None), left if left.waiting else None)

    async def _lower(self, session: MemberSession, share: Share) -> ShareReport:
        """`Outcome.message` says why it has to wait."""
        why = await self.pruner.lower_main(
            session, share.workload, share.replicas, decided=share.decided
        )
        return ShareReport(Outcome(share.desired, PropagatedReason.PROPAGATING, why))

    async def _remove(self, session: MemberSession, share: Share) -> ShareReport:
        workload = share.workload
        await self._inventory.wait_listed(session, workload)
        pending = await self._unconfirmed.resolve(session, workload.uid)
        also, refusals = await self._unlisted(session, workload)
        left = await self._pruned(session, share, also=also)
        refusals += left.refused.values()
        waits = [*left.waiting.values(), *pending]
        if not (waits or workload.ended) and session.counting:
            waits.append(f"{session.name}: its pods have not been listed yet")
        elif not (waits or workload.ended) and (ending := pods_left(session, workload)):
            what = "1 pod that ends is" if ending == 1 else f"{ending} pods that end are"
            waits.append(f"{session.name}: {what} not gone yet")
        if not self._inventory.asked(session, workload):
            waits.append(f"{session.name}: not all kinds have been listed yet")
        under_way = [Refused(PropagatedReason.PROPAGATING, sentence) for sentence in waits]
        obstacles = refusals or under_way
        obstacle = Refused.of(obstacles) if obstacles else None
        return ShareReport(Outcome(share.desired), obstacle=obstacle, stays=left.kept)

    async def _unlisted(
        self, session: MemberSession, workload: Workload
    ) -> tuple[list[Found], list[Refused]]:
        """Return objects found by name, and refusals, of kinds that may not be listed."""
        found: list[Found] = []
        refusals = []
        for resource, fault in self._inventory.hidden(session, workload).items():
            named = await self.pruner.find(session, workload, resource)
            if named is None:
                refusals.append(unlisted(session.name, resource, fault))
            else:
                found += [(resource, each) for each in named]
        return found, refusals

    async def _prune(
        self,
        session: MemberSession,
        share: Share,
        pieces: Sequence[Piece],
        stay: Collection[tuple[str, str]],
    ) -> PruneResult:
        """Of the kinds in `stay` (group, kind) nothing goes."""
        await self._inventory.wait_listed(session, share.workload)
        if self._inventory.knows(session, share.workload):
            return await self._pruned(session, share, keep=pieces, stay=stay)
        return PruneResult({}, {})

    async def _pruned(
        self,
        session: MemberSession,
        share: Share,
        *,
        keep: Sequence[Piece] = (),
        also: Sequence[Found] = (),
        stay: Collection[tuple[str, str]] = (),
    ) -> PruneResult:
        workload = share.workload
        held = await self._dependencies.held(session, workload, keep)

        def goes(found: ManagedObject) -> bool:
            return id_on_member(found, workload.namespace)[:2] not in stay and held.lets_go(found)

        left = await self.pruner.prune(
            session,
            workload.uid,
            ended=workload.ended,
            decided=share.decided,
            orphan=share.orphan,
            left=share.left,
            told=share.told,
            keep=keep,
            also=also,
            only=goes,
        )
        return replace(left, waiting={**left.waiting, **held.waiting})

    async def _make_way(
        self, session: MemberSession, share: Share, refusals: Sequence[Refused]
    ) -> None:
        """Remove copies that must be created again to change, and withdrawn ones."""
        workload = share.workload
        stuck = {each.id for each in refusals if isinstance(each, Unchangeable)}
        stuck |= self._dependencies.withdrawn(session, workload)
        if stuck:
            await self.pruner.prune(
                session,
                workload.uid,
                decided=share.decided,
                only=lambda found: id_on_member(found, workload.namespace) in stuck,
            )


def _applied(desired: DesiredShare, waits_for: str, contested: Sequence[str] = ()) -> Outcome:
    if contested:
        return Outcome(desired, PropagatedReason.CONFLICT, "; ".join(contested))
    if waits_for:
        return Outcome(desired, PropagatedReason.PROPAGATING, waits_for, keeps=1)
    return Outcome(desired)
