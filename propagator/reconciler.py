"""Reconciles Workloads with members: what a member shall have of one, what it has, what may go.

`sync` is called by a member's own workers with a Workload's key. It decides, and the other modules
act: `shares` writes and removes, `removal.orphans` removes objects whose Workload is gone,
`removal.finalizer` knows when a deleted Workload has left every member, `status.controller` reports
to the hub. This module also maps each change, on the hub or on a member, to the keys to wake.

A share that left the placements is removed once all present shares are ready, so that the last
healthy copy stays until there is another, whatever a status says. Everything is removed when the
Workload is deleted or wants no units. Of a Workload that wants units and is placed nowhere, what
runs stays, as where a MemberCluster was registered again, and is taken up at the next placement.
A Workload in a group is written and removed only as that group's gate says (`propagator.groups`);
while its gang starts a share that left is removed at once, as there is no healthy copy before the
quorum has run. `removal.rule` has the last word on each object. Nothing is done on a stale view of
the hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from crds.fields.shares import ShareState
from machinery.discovery import enforcement
from machinery.runtime.informer import Informer
from machinery.runtime.keyed_backoff import Pauses
from machinery.tasks import Gradually
from machinery.types.metadata import Key
from propagator.access.carried_objects import CarriedObjectsReview
from propagator.access.namespaces import Namespaces
from propagator.apply.apply_records import ApplyRecords
from propagator.apply.object_writer import PieceWriter
from propagator.apply.unanswered_writes import UnconfirmedWrites
from propagator.groups.gates import Gates
from propagator.groups.rule import GateAnswer, GateVerdict
from propagator.hub.idle_watches import IdleKinds
from propagator.hub.secrets import HubSecrets
from propagator.hub.workloads import SECRET_INDEX, HubWorkloads, clusters_of
from propagator.members.census import Census
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects, owned
from propagator.members.target import Target
from propagator.removal.brake import SweepBrake
from propagator.removal.finalizer import Finalizer
from propagator.removal.orphans import Orphans
from propagator.removal.prune import Pruner
from propagator.removal.remover import Remover
from propagator.removal.rule import taken_up
from propagator.shares import FIRST_PAUSE, LONGEST_PAUSE, ShareWriter
from propagator.status.controller import Reporter
from propagator.status.observation import Survey
from propagator.types.workload import Workload
from propagator.units.cost_writer import CostWriter

STALE_SECONDS = 0.5
"""Seconds between two checks of a view of the hub that is too old to act on."""


class WorkloadPlacements:
    """The `Placements` of `leadership`, made once; `begin` and `run` belong to one term."""

    def __init__(self, ground: ControllerContext) -> None:
        self._fresh = ground.fresh
        self._clock = ground.clock
        self._stale = asyncio.Lock()
        self._fleet = ground.fleet
        self._clusters = ground.clusters
        self._judged = enforcement.validating(
            ground.hub, clock=ground.clock, namespace=ground.namespace
        )
        self._records = ApplyRecords(clock=ground.clock)
        self._hub = HubWorkloads(ground)
        self._secrets = HubSecrets(ground.hub, clock=ground.clock, changed=self._secret_changed)
        self._inventory = OwnedObjects(ground)
        self._gates = Gates(ground, workloads=self._hub, wake=self._gate_changed)
        self._idle = IdleKinds(ground, workloads=self._hub, inventory=self._inventory)
        identity = ground.identity
        doubts = UnconfirmedWrites(clock=ground.clock)
        namespaces = Namespaces(clock=ground.clock)
        pruner = Pruner(
            self._records,
            Remover(clock=ground.clock),
            registered=ground.fleet.identities.exists,
        )
        self._census = Census(ground)
        self._brake = SweepBrake(
            ground, workloads=self._hub, identity=identity, searched=self._census.searched
        )
        self._census.on_searched(self._brake.changed)
        self._orphans = Orphans(
            workloads=self._hub, identity=identity, pruner=pruner, brake=self._brake
        )
        self._finalizer = Finalizer(ground, inventory=self._inventory)
        self._reporter = Reporter(
            ground,
            workloads=self._hub,
            survey=Survey(ground, inventory=self._inventory),
            finalizer=self._finalizer,
        )
        self._shares = ShareWriter(
            ground,
            workloads=self._hub,
            secrets=self._secrets,
            inventory=self._inventory,
            identity=identity,
            finalizer=self._finalizer,
            writer=PieceWriter(
                self._records,
                doubts=doubts,
                workloads=self._hub,
                identity=identity,
                namespaces=namespaces,
                clock=ground.clock,
            ),
            namespaces=namespaces,
            doubts=doubts,
            pruner=pruner,
            gate=CarriedObjectsReview(ground, judged=self._judged),
            gates=self._gates,
            note=self._reporter.note,
        )
        self._costs = CostWriter(ground, workloads=self._hub, gates=self._gates)
        self._pauses: Pauses[tuple[str, Key]] = Pauses(
            clock=ground.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )
        self._moves: Pauses[tuple[str, Key]] = Pauses(
            clock=ground.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )
        self._wakes: Gradually[tuple[str, Key]] = Gradually(lambda at: self._fleet.wake(*at))
        self._reports: Gradually[Key] = Gradually(self._reporter.queue.add)
        self._hub.informer.add_handler(self._workload_changed)
        self._fleet.on_change(self._member_changed)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._hub.informer,)

    @property
    def optional(self) -> Sequence[Informer[Any]]:
        """Return the informers of kinds that an older hub lacks: WorkloadGroups."""
        return (self._gates.informer,)

    def begin(self, *, alone: bool) -> None:
        """Drop what another instance may have changed; `alone`: none has led in between."""
        self._gates.begin()
        if not alone:
            self._records.clear()
            self._finalizer.clear()
            self._reporter.clear()
            self._idle.clear()

    async def run(self) -> None:
        """Run the background work of one term until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._judged.run())
            tasks.create_task(self._secrets.run())
            tasks.create_task(self._wakes.run())
            tasks.create_task(self._reports.run())
            tasks.create_task(self._gates.run())
            tasks.create_task(self._idle.run())
            tasks.create_task(self._costs.run())
            tasks.create_task(self._report())

    async def _report(self) -> None:
        for informer in (*self.informers, self._clusters):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reporter.run())
            tasks.create_task(self._census.run())
            tasks.create_task(self._brake.run())

    async def sync(self, session: Target, key: Key) -> float | None:
        """Reconcile one Workload on a ready member; return seconds until the next look, or None."""
        if not self._may_act():
            await self._until_fresh()
        again = await self._serve(session, key)
        left = await self._orphans.sweep(session, key)
        if not left:
            self._pauses.over((session.name, key))
            return again
        looking = self._pauses.hold((session.name, key))
        return looking if again is None else min(again, looking)

    def _may_act(self) -> bool:
        """Whether the view of the hub is fresh, and whether its admission is enforced is known."""
        return self._fresh() and bool(self._judged.known or self._judged.obstacle)

    async def _until_fresh(self) -> None:
        # One of all waiting workers polls: thousands of keys need no check of their own.
        async with self._stale:
            while not self._may_act():
                await self._clock.sleep(STALE_SECONDS)

    async def _serve(self, session: Target, key: Key) -> float | None:
        workload = self._hub.informer.get(key)
        if workload is None:
            self._reporter.forget(key)
            self._moves.over((session.name, key))
            return None
        # A gang runs whole or not at all: one that lost its placements goes at once.
        taken_back = workload.groups and not workload.placements
        if workload.metadata.deleting or not workload.wants_units or taken_back:
            return await self._shares.leave(session, workload)
        verdict = self._gates.verdict(workload)
        leaves = verdict.answer is GateAnswer.LEAVE and session.name not in verdict.stays
        if leaves or self._gates.unfinished(workload, session.name):
            return await self._give_back(session, workload, verdict)
        if verdict.answer is not GateAnswer.PUSH:
            self._shares.hold(session, workload, verdict)
            return None
        if session.name in workload.placements:
            return await self._shares.push(session, workload)
        if self._gates.starts(workload):  # what is here is left of an attempt that was withdrawn
            return await self._shares.leave(session, workload)
        if not workload.placements:
            await self._inventory.look_for(session, workload)
            self._reporter.queue.add(key)  # the status says that objects stay here
            return None
        return await self._move_on(session, workload)

    async def _give_back(
        self, session: Target, workload: Workload, verdict: GateVerdict
    ) -> float | None:
        """Remove all of a share whose group's gate was closed, though it is placed."""
        again = await self._shares.leave(session, workload, verdict)
        if again is None:
            self._gates.left(workload, session.name)
        return again

    async def _move_on(self, session: Target, workload: Workload) -> float | None:
        """Remove a share that left the placements, once the present ones are ready."""
        await self._inventory.look_for(session, workload)
        there = [found for _, found in owned(session, workload.uid)]
        anew = not workload.groups and any(taken_up(found, session.mark) for found in there)
        move = (session.name, workload.metadata.key)
        if there and not (_settled(workload) and (not anew or _whole(workload))):
            self._moves.over(move)
            self._reporter.queue.add(workload.metadata.key)
            return None
        if there and not (
            all(map(self._answers, workload.placements)) and await self._reporter.runs(workload)
        ):
            # The status says "ready" already, so that no event will come when it is true.
            self._reporter.queue.add(workload.metadata.key)
            return self._moves.hold(move)
        self._moves.over(move)
        return await self._shares.leave(session, workload)

    def _answers(self, name: str) -> bool:
        """Whether that member answers now, through its present registration."""
        session = self._fleet.get(name)
        return session is not None and session.ready

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if known is None:
            return
        for secret in new.secrets if new is not None else ():
            self._secrets.need((known.metadata.namespace, secret))
        if old is not None:
            self._forget(old, new)
        key = known.metadata.key
        self._reporter.queue.add(key)
        # This process's own status writes arrive here too: they wake only members to be left.
        concerned = self._concerned(known, before=old if new is not None else None)
        self._wakes.add(key, [(name, key) for name in concerned])

    def _forget(self, old: Workload, new: Workload | None) -> None:
        """Drop the state of a Workload that is gone, and Secrets that no Workload needs now."""
        if new is None or new.uid != old.uid:
            self._finalizer.went(old.uid)
            self._records.ended(old.uid)
            self._shares.ended(old.uid)
        for secret in set(old.secrets) - set(new.secrets if new is not None else ()):
            key = (old.metadata.namespace, secret)
            if not self._hub.informer.by_index(SECRET_INDEX, "/".join(key)):
                self._secrets.drop(key)

    def _concerned(self, known: Workload, *, before: Workload | None) -> set[str]:
        """Return the members to wake for a Workload; `before` is None where it came or went."""
        if before is None:
            return self._clusters_of(known) | self._inventory.holders(known.uid)
        if not _same_wish(before, known):
            concerned = self._clusters_of(before) | self._clusters_of(known)
            return concerned | self._inventory.holders(known.uid)
        patched = _patched_anew(before, known)
        if _settled(known) and not _settled(before):
            return patched | (self._clusters_of(known) - set(known.placements))
        return patched

    def _gate_changed(self, workload: Workload) -> None:
        key = workload.metadata.key
        concerned = self._clusters_of(workload) | self._inventory.holders(workload.uid)
        self._wakes.add(key, [(name, key) for name in concerned])
        self._costs.look_at(workload)

    def _clusters_of(self, workload: Workload) -> set[str]:
        return clusters_of(workload, self._fleet.names)

    def _member_changed(self, name: str, key: Key | None) -> None:
        if key is not None:
            self._reporter.queue.add(key)
            return
        if self._fleet.get(name) is None:
            self._records.forget(name)
            self._finalizer.removed(name)
            self._shares.removed(name)
            self._reporter.removed(name)
            self._pauses.drop(lambda which: which[0] == name)
            self._moves.drop(lambda which: which[0] == name)
        self._census.changed(name)
        self._brake.changed(name)
        keys = [workload.metadata.key for workload in self._hub.touching(name)]
        self._reports.add(name, keys)
        self._wakes.add(name, [(name, key) for key in keys])

    def _secret_changed(self, key: Key) -> None:
        for workload in self._hub.informer.by_index(SECRET_INDEX, "/".join(key)):
            own = workload.metadata.key
            self._wakes.add(own, [(name, own) for name in workload.placements])


def _same_wish(old: Workload, new: Workload) -> bool:
    return (
        old.uid == new.uid
        and old.metadata.generation == new.metadata.generation
        and old.metadata.deleting == new.metadata.deleting
        and old.placements == new.placements
        and old.groups == new.groups
        and old.status.review == new.status.review
    )


def _patched_anew(old: Workload, new: Workload) -> set[str]:
    """Return the clusters whose share's patch changed; deletion costs do not count."""
    if bytes(old.status.overrides) == bytes(new.status.overrides):
        return set()
    before, after = old.overrides, new.overrides
    if before.fault != after.fault:
        return set(new.placements)
    return {
        each for each in before.differing(after) if before.of(each).digest != after.of(each).digest
    }


def _whole(workload: Workload) -> bool:
    return sum(workload.placements.values()) >= (workload.status.desired or 0)


def _settled(workload: Workload) -> bool:
    """Whether the status says that all present shares are ready, so that others may go."""
    shares = {share["name"]: share for share in workload.status.clusters}
    return all(
        name in shares
        and shares[name].get("state") == ShareState.RUNNING.value
        and shares[name].get("replicas") == units
        for name, units in workload.placements.items()
    )
