"""The controller of Workloads: its parts, and what of them runs while this instance leads.

Made once by `leadership.Manager`, which calls `begin` and `run` in each term and lets the members'
workers call `reconciler`. The constructor begins to listen to the members' sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from machinery.discovery import enforcement
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key
from propagator.access.carried_objects import CarriedObjectsReview
from propagator.access.namespaces import Namespaces
from propagator.apply.apply_records import ApplyRecords
from propagator.apply.object_writer import PieceWriter
from propagator.apply.unanswered_writes import UnconfirmedWrites
from propagator.eventhandlers import EventHandlers
from propagator.groups.gates import Gates
from propagator.hub.idle_watches import IdleKinds
from propagator.hub.secrets import HubSecrets
from propagator.hub.workloads import HubWorkloads
from propagator.members.census import Census
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects
from propagator.reconciler import WorkloadReconciler
from propagator.removal.brake import SweepBrake
from propagator.removal.finalizer import Finalizer
from propagator.removal.orphans import Orphans
from propagator.removal.prune import Pruner
from propagator.removal.remover import Remover
from propagator.share_writer import ShareWriter
from propagator.status.controller import Reporter
from propagator.status.observation import Survey
from propagator.types.workload import Workload
from propagator.units.cost_writer import CostWriter


class WorkloadController:
    def __init__(self, ground: ControllerContext) -> None:
        self._clusters = ground.clusters
        self._judged = enforcement.validating(
            ground.hub, clock=ground.clock, namespace=ground.namespace
        )
        self._workloads = HubWorkloads(ground)
        self._secrets = HubSecrets(ground.hub, clock=ground.clock, changed=self._secret_changed)
        self._inventory = OwnedObjects(ground)
        self._gates = Gates(ground, workloads=self._workloads, wake=self._gate_changed)
        self._idle = IdleKinds(ground, workloads=self._workloads, inventory=self._inventory)
        self._records = ApplyRecords(clock=ground.clock)
        pruner = Pruner(
            self._records,
            Remover(clock=ground.clock),
            registered=ground.fleet.identities.exists,
        )
        self._census = Census(ground)
        self._brake = SweepBrake(ground, workloads=self._workloads, searched=self._census.searched)
        self._census.on_searched(self._brake.searched)
        orphans = Orphans(
            workloads=self._workloads, identity=ground.identity, pruner=pruner, brake=self._brake
        )
        self._finalizer = Finalizer(ground, inventory=self._inventory)
        self._reporter = Reporter(
            ground,
            workloads=self._workloads,
            survey=Survey(ground, inventory=self._inventory),
            finalizer=self._finalizer,
        )
        doubts = UnconfirmedWrites(clock=ground.clock)
        namespaces = Namespaces(clock=ground.clock)
        self._shares = ShareWriter(
            ground,
            workloads=self._workloads,
            secrets=self._secrets,
            inventory=self._inventory,
            finalizer=self._finalizer,
            writer=PieceWriter(
                self._records,
                doubts=doubts,
                workloads=self._workloads,
                identity=ground.identity,
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
        self._costs = CostWriter(ground, workloads=self._workloads, gates=self._gates)
        self.reconciler = WorkloadReconciler(
            ground,
            workloads=self._workloads,
            judged=self._judged,
            gates=self._gates,
            inventory=self._inventory,
            shares=self._shares,
            orphans=orphans,
            reporter=self._reporter,
        )
        self._handlers = EventHandlers(
            ground,
            workloads=self._workloads,
            secrets=self._secrets,
            inventory=self._inventory,
            reporter=self._reporter,
            workload_gone=self._workload_gone,
            member_gone=self._member_gone,
        )

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The informers of the hub's objects; each term runs them, and `fresh` depends on them."""
        return (self._workloads.informer,)

    @property
    def optional(self) -> Sequence[Informer[Any]]:
        """The informers of kinds that an older hub lacks, on which `fresh` does not depend."""
        return (self._gates.informer,)

    def begin(self, *, alone: bool) -> None:
        """Begin a term; `alone`: no other instance has led since this one's last term.

        What another instance may have changed is dropped.
        """
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
            tasks.create_task(self._handlers.syncs.run())
            tasks.create_task(self._handlers.reports.run())
            tasks.create_task(self._gates.run())
            tasks.create_task(self._idle.run())
            tasks.create_task(self._costs.run())
            tasks.create_task(self._run_synced())

    async def _run_synced(self) -> None:
        """Report, and look for what no Workload wants, once the hub has been listed."""
        for informer in (*self.informers, self._clusters):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reporter.run())
            tasks.create_task(self._census.run())
            tasks.create_task(self._brake.run())

    def _secret_changed(self, key: Key) -> None:
        self._handlers.secret_changed(key)

    def _gate_changed(self, workload: Workload) -> None:
        self._handlers.gate_changed(workload)
        self._costs.look_at(workload)

    def _workload_gone(self, uid: str) -> None:
        self._finalizer.went(uid)
        self._records.ended(uid)
        self._shares.ended(uid)

    def _member_gone(self, name: str) -> None:
        self._records.forget(name)
        self._finalizer.removed(name)
        self._shares.removed(name)
        self._reporter.removed(name)
        self.reconciler.removed(name)
