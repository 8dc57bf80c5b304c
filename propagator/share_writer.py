"""Writes one share, all objects of one Workload on one member, or removes all of them.

The `reconciler` decides which of the two. A write renders, applies, and then removes what is no
longer rendered, in that order, so that the predecessor of a workload goes only when its successor
exists. Each result goes to `note`, for the report of the Workload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from crds.workload import PropagatedReason
from machinery import logs
from machinery.errors import Conflict, TransportError
from machinery.runtime.keyed_backoff import Pauses
from machinery.types.metadata import Key
from propagator.access.carried_objects import CarriedObjectsReview
from propagator.access.namespaces import Namespaces
from propagator.apply import applier
from propagator.apply.applier import Overtaken
from propagator.apply.object_writer import PieceWriter
from propagator.apply.refusals import misfit, unlisted, unreadable
from propagator.apply.render import PatchMisfit, Piece, render
from propagator.apply.unanswered_writes import UnconfirmedWrites
from propagator.errors import HubFault, Refused
from propagator.groups.gates import Gates
from propagator.groups.rule import GateVerdict
from propagator.hub.secrets import HubSecrets, NoTenant
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects
from propagator.members.target import Target
from propagator.members.watches import Found
from propagator.outcome import Outcome, Wish, outcome_of
from propagator.removal.finalizer import Finalizer
from propagator.removal.prune import Left, Pruner
from propagator.types.workload import HubSecret, Workload

LOG = logs.get(__name__)
CONTENDED_SECONDS = 5.0
"""Conflicts that last longer than this are reported."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two looks at a share that waits for something that no event may announce."""

Note: TypeAlias = Callable[[Key, str, Outcome | None], None]
"""(Workload's key, member's name, outcome; None: the Workload wants nothing there)."""


class ShareWriter:
    """Called by the members' own workers, for one Workload on one ready member at a time."""

    def __init__(
        self,
        ground: ControllerContext,
        *,
        workloads: HubWorkloads,
        secrets: HubSecrets,
        inventory: OwnedObjects,
        finalizer: Finalizer,
        writer: PieceWriter,
        namespaces: Namespaces,
        doubts: UnconfirmedWrites,
        pruner: Pruner,
        gate: CarriedObjectsReview,
        gates: Gates,
        note: Note,
    ) -> None:
        self._workloads = workloads
        self._secrets = secrets
        self._inventory = inventory
        self._identity = ground.identity
        self._finalizer = finalizer
        self._writer = writer
        self._namespaces = namespaces
        self._doubts = doubts
        self._pruner = pruner
        self._note = note
        self._gate = gate
        self._gates = gates
        self._clock = ground.clock
        self._contended: dict[tuple[str, Key], float] = {}
        self._pauses: Pauses[tuple[str, str]] = Pauses(
            clock=ground.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )

    async def apply(self, session: Target, workload: Workload) -> float | None:
        """Write the whole share, then remove what is no longer rendered; note the outcome.

        Return seconds until the next look, or None. Raises TransportError when the key is to be
        tried again.
        """
        wish, share = Wish.of(workload, session.name), (session.name, workload.uid)
        try:
            workload = await self._prepared(session, workload)
            if Wish.of(workload, session.name) != wish:
                return None  # the Workload changed meanwhile, and that change woke its key
            again, told = await self._apply_all(session, workload)
            outcome = _fought(wish, told) if told else Outcome(wish)
            if again is None:
                self._pauses.over(share)
        except Overtaken:
            return 0.0
        except Refused as refusal:
            again = self._pauses.hold(share, str(refusal))
            outcome = Outcome(wish, refusal.reason, str(refusal))
        except HubFault as fault:
            self._fails(session, workload, Outcome(wish, fault.reason, str(fault)))
            raise
        except Conflict as fault:
            self._contend(session, workload, wish, fault)
            raise
        except TransportError as fault:
            self._fails(session, workload, outcome_of(session.name, fault, wish))
            raise
        self._end(session, workload, outcome)
        return again

    def keep(self, session: Target, workload: Workload, verdict: GateVerdict) -> None:
        """Leave the share as it is; note why where the Workload is placed there."""
        if verdict.message and session.name in workload.placements:
            self._end(session, workload, _kept(session, workload, verdict))

    async def remove(
        self, session: Target, workload: Workload, verdict: GateVerdict | None = None
    ) -> float | None:
        """Remove everything of a Workload from one member; return and raise as `apply` does.

        The member acknowledges once nothing of it is left there. `verdict` is the gate's reason
        where the share is removed though it is placed.
        """
        wish, share = Wish.of(workload, session.name), (session.name, workload.uid)
        try:
            obstacle, stays = await self._remove_all(session, workload)
        except TransportError as fault:
            self._fails(session, workload, outcome_of(session.name, fault, wish))
            raise
        if obstacle is not None:
            self._end(session, workload, Outcome(wish, obstacle.reason, str(obstacle)))
            return self._pauses.hold(share, str(obstacle))
        self._pauses.over(share)
        self._writer.ended(workload.uid, session.name)
        if not stays:
            await self._acknowledge(session, workload)
        placed = session.name in workload.placements
        kept = _kept(session, workload, verdict) if verdict is not None and placed else None
        self._end(session, workload, kept)
        return None

    def ended(self, uid: str) -> None:
        """Drop the state of a Workload that is gone."""
        self._pauses.drop(lambda share: share[1] == uid)
        self._writer.ended(uid)
        self._doubts.drop(uid)

    def removed(self, member: str) -> None:
        """Drop the state of a member that was removed."""
        self._pauses.drop(lambda share: share[0] == member)
        self._contended = {of: since for of, since in self._contended.items() if of[0] != member}
        self._writer.removed(member)
        self._doubts.forget(member)
        self._pruner.removed(member)

    async def _remove_all(self, session: Target, workload: Workload) -> tuple[Refused | None, bool]:
        """Remove what may go; return why it may not all be gone, or None, and whether some stays.

        Objects that stay, because a rule keeps them, are looked for again when the Workload ends.
        """
        await self._inventory.look_for(session, workload)
        in_doubt = await self._doubts.resolve(session, workload.uid)
        also, refusals = await self._unlisted(session, workload)
        left = await self._pruner.prune(
            session,
            workload.uid,
            ended=workload.metadata.deleting,
            decided=self._workloads.decided(workload),
            also=also,
        )
        refusals += left.refused.values()
        waits = [*left.waiting.values(), *in_doubt]
        if not self._inventory.asked(session, workload):
            waits.append(f"{session.name}: not all kinds have been listed yet")
        under_way = [Refused(PropagatedReason.PROPAGATING, sentence) for sentence in waits]
        obstacles = refusals or under_way
        return (Refused.of(obstacles) if obstacles else None), left.kept

    async def _unlisted(
        self, session: Target, workload: Workload
    ) -> tuple[list[Found], list[Refused]]:
        """Find objects of kinds that may not be listed, by name.

        Return them, and a refusal for each kind that may hide some.
        """
        found: list[Found] = []
        refusals = []
        for resource, fault in self._inventory.hidden(session, workload).items():
            named = await self._pruner.find(session, workload, resource)
            if named is None:
                refusals.append(unlisted(session.name, resource, fault))
            else:
                found += [(resource, each) for each in named]
        return found, refusals

    async def _acknowledge(self, session: Target, workload: Workload) -> None:
        if workload.metadata.deleting:
            self._finalizer.acknowledge(workload, session.name)
        else:
            await self._workloads.confirm(workload, session.name)

    def _end(self, session: Target, workload: Workload, outcome: Outcome | None) -> None:
        key = workload.metadata.key
        self._contended.pop((session.name, key), None)
        self._note(key, session.name, outcome)

    def _fails(self, session: Target, workload: Workload, outcome: Outcome) -> None:
        LOG.info("%s: %s", session.name, outcome.message, extra={"object": workload.owner})
        self._end(session, workload, outcome)

    def _contend(self, session: Target, workload: Workload, wish: Wish, fault: Conflict) -> None:
        """Retry a conflict in silence, and report it once conflicts have lasted for long."""
        key, now = workload.metadata.key, self._clock.monotonic()
        since = self._contended.setdefault((session.name, key), now)
        if now - since >= CONTENDED_SECONDS:
            told = f"{session.name}: each write is refused, as somebody else wrote first: {fault}"
            self._note(key, session.name, Outcome(wish, PropagatedReason.CONFLICT, told))

    async def _prepared(self, session: Target, workload: Workload) -> Workload:
        """Ask and note on the hub what must be known there before the first write to the member."""
        await self._gate.admit(session, workload)
        await self._namespaces.admit(session, workload)
        kinds = await self._inventory.shown(session, workload)
        try:
            await self._identity.uid()
            return await self._workloads.prepare(workload, kinds)
        except Conflict:
            raise
        except TransportError as fault:
            raise HubFault("the Workload could not be prepared", fault) from fault

    async def _apply_all(
        self, session: Target, workload: Workload
    ) -> tuple[float | None, Sequence[str]]:
        """Return seconds until the next look, or None, and what to report of contested objects."""
        pieces = await self._rendered(session, workload)
        applied = await applier.apply(
            self._writer, session, workload, pieces, stands=self._gates.pushes
        )
        waits: list[float] = []
        refusals = [*applied.refusals]
        if applied.whole:  # else the workload's predecessor stays
            left = await self._prune(session, workload, pieces)
            refusals += left.refused.values()
            if left.waiting:
                waits.append(self._pauses.hold((session.name, workload.uid), left))
        if refusals:
            raise Refused.of(refusals)
        waits += [backoff.seconds for backoff in applied.backoffs]
        told = sorted({backoff.sentence for backoff in applied.backoffs if backoff.sentence})
        return min(waits, default=None), told

    async def _rendered(self, session: Target, workload: Workload) -> list[Piece]:
        """Return all objects of the share. Raises Refused, as for a patch that does not fit."""
        member = session.name
        if workload.overrides.fault:
            raise unreadable(workload.overrides.fault)
        override = workload.overrides.of(member)
        try:
            return render(
                workload,
                units=workload.placements[member],
                first_ordinal=workload.ordinals().get(member, 0),
                secrets=await self._needed_secrets(workload),
                hub=await self._identity.uid(),
                member=str(session.mark),
                override=override,
            )
        except PatchMisfit as fault:
            raise misfit(member, override.subset, fault) from fault

    async def _prune(self, session: Target, workload: Workload, pieces: list[Piece]) -> Left:
        """Remove what is no longer rendered, once it is known what there is."""
        await self._inventory.look_for(session, workload)
        if self._inventory.knows(session, workload):
            decided = self._workloads.decided(workload)
            return await self._pruner.prune(session, workload.uid, decided=decided, keep=pieces)
        return Left({}, {})

    async def _needed_secrets(self, workload: Workload) -> list[HubSecret]:
        """Return the Secrets that travel along. Raises Refused while one of them is missing."""
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


def _kept(session: Target, workload: Workload, verdict: GateVerdict) -> Outcome:
    return Outcome(Wish.of(workload, session.name), verdict.reason, verdict.message)


def _fought(wish: Wish, told: Sequence[str]) -> Outcome:
    return Outcome(wish, PropagatedReason.CONFLICT, "; ".join(told))
