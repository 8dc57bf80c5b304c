"""The controller of Workloads: its parts, and which of them run while this instance leads.

Its constructor starts to listen to the members' sessions.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

from machinery.api.resources import SECRETS
from machinery.discovery import enforcement
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key
from propagator.access.carried_objects import CarriedObjectsReview
from propagator.deletion_costs import CostWriter
from propagator.dependencies.copies import FOLLOWED
from propagator.dependencies.follower import Follower
from propagator.eventhandlers import EventHandlers
from propagator.groups.gates import Gates
from propagator.hub.named_objects import NamedObjects
from propagator.hub.revisions import Revisions
from propagator.hub.watched_kinds import Census, IdleKinds
from propagator.hub.workload_kinds import HubKinds
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects
from propagator.pull.assignments import AssignmentWriter, Leftovers
from propagator.reconciler import WorkloadReconciler
from propagator.removal.at_most_once import AtMostOnce
from propagator.removal.brake import SweepBrake
from propagator.removal.finalizer import Finalizer
from propagator.removal.guard import Guard
from propagator.removal.left_claims import LeftClaims
from propagator.removal.orphans import Orphans
from propagator.shards.concern import Concern
from propagator.share_applier import ShareApplier
from propagator.share_writer import ShareWriter
from propagator.status.comparison import Comparison
from propagator.status.controller import Reporter
from propagator.status.observation import Survey
from propagator.status.refusals import RefusalEvents
from propagator.types.workload import Workload


class WorkloadController:
    def __init__(self, context: ControllerContext) -> None:
        self._clusters, self._shares = context.clusters, context.shares
        self._judged = enforcement.validating(
            context.hub, clock=context.clock, namespace=context.namespace
        )
        self._workloads = HubWorkloads(context)
        self._workloads.informer.add_handler(context.restored.workload_changed)
        revisions = Revisions(context.hub, context.shares)
        self._watches: dict[str, NamedObjects[Any]] = {
            kind: NamedObjects(
                context.hub,
                resource,
                type_,
                clock=context.clock,
                changed=functools.partial(self._hub_object_changed, kind),
            )
            for kind, (resource, type_) in FOLLOWED.items()
        }
        shared: dict[str, Any] = {"workloads": self._workloads}
        self._dependencies = Follower(context, watches=self._watches, report=self._news, **shared)
        self._gates = Gates(context, wake=self._gate_changed, **shared)
        self.kinds = HubKinds(context, wake=self._gate_changed, **shared)
        self._claims = LeftClaims(context, changed=self._news, **shared)
        self._refusals = RefusalEvents(context, changed=self._news, **shared)
        self._census = Census(context)
        self._brake = SweepBrake(context, searched=self._census.searched, **shared)
        self._census.on_searched = self._brake.searched
        assignments = AssignmentWriter(context.hub, described=self.kinds.describing)
        leftovers = Leftovers(brake=self._brake, assignments=assignments, **shared)
        shared["inventory"] = inventory = OwnedObjects(context)
        self._idle = IdleKinds(context, **shared)
        once = AtMostOnce(context, **shared)
        self._guard = Guard(context, inventory=inventory, once=once)
        members = ShareApplier(
            context,
            dependencies=self._dependencies,
            standing_in=self._guard.standing_in,
            may_apply=self._gates.may_apply,
            changed=self._news,
            **shared,
        )
        orphans = Orphans(
            workloads=self._workloads,
            identity=context.identity,
            pruner=members.pruner,
            brake=self._brake,
        )
        finalizer = Finalizer(context, inventory=inventory)
        self._reporter = Reporter(
            context,
            workloads=self._workloads,
            survey=Survey(
                context,
                inventory=inventory,
                revisions=revisions,
                left=self._claims.standing,
                refusals=self._refusals.told,
            ),
            finalizer=finalizer,
            drift=members.drift,
            dependencies=self._dependencies,
            rereading=self.kinds.rereading,
        )
        self._comparison = Comparison(context, workloads=self._workloads)
        self._reporter.reported = self._comparison.reported
        shared |= {"revisions": revisions, "guard": self._guard, "once": once}
        shares = ShareWriter(
            context,
            secrets=self._watches[SECRETS.kind],
            dependencies=self._dependencies,
            finalizer=finalizer,
            members=members,
            assignments=assignments,
            gate=CarriedObjectsReview(context, judged=self._judged),
            record_outcome=self._reporter.record_outcome,
            **shared,
        )
        self._costs = CostWriter(
            context, workloads=self._workloads, may_write=self._gates.may_apply
        )
        self._workloads.informer.add_handler(self._costs.workload_changed)
        self.reconciler = WorkloadReconciler(
            context,
            judged=self._judged,
            gates=self._gates,
            shares=shares,
            orphans=orphans,
            leftovers=leftovers,
            claims=self._claims,
            reporter=self._reporter,
            **shared,
        )
        self._handlers = EventHandlers(
            context,
            workloads=self._workloads,
            secrets=self._watches[SECRETS.kind],
            inventory=inventory,
            reporter=self._reporter,
        )

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """Each term runs them, and `fresh` depends on them."""
        return (self._workloads.informer,)

    @property
    def coverage(self) -> Concern:
        return self._workloads.concern

    @property
    def optional(self) -> Sequence[Informer[Any]]:
        """Informers of kinds that an older hub lacks: `fresh` does not depend on them."""
        return (self._gates.informer, self.kinds.informer)

    def begin(self, *, alone: bool) -> None:
        """`alone`: no other instance has led since this one's last term."""
        self._gates.begin()
        self._shares.new_term(alone=alone)
        self._comparison.begin()
        if not alone:
            for watch in self._watches.values():
                watch.clear()
            self._handlers.look_again()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._judged.run())
            for watch in self._watches.values():
                tasks.create_task(watch.run())
            tasks.create_task(self._handlers.syncs.run())
            tasks.create_task(self._handlers.reports.run())
            tasks.create_task(self._gates.run())
            tasks.create_task(self.kinds.run())
            tasks.create_task(self._idle.run())
            tasks.create_task(self._costs.run())
            tasks.create_task(self._run_synced())

    async def _run_synced(self) -> None:
        """Wait until the hub has been listed."""
        for informer in (*self.informers, self._clusters):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reporter.run())
            tasks.create_task(self._comparison.run())
            tasks.create_task(self._census.run())
            tasks.create_task(self._brake.run())
            tasks.create_task(self._claims.run())
            tasks.create_task(self._refusals.run())

    def _hub_object_changed(self, kind: str, key: Key) -> None:
        if kind == SECRETS.kind:
            self._handlers.secret_changed(key)
        self._handlers.dependency_changed(key, self._dependencies.users(kind, key))

    def _news(self, key: Key) -> None:
        self._reporter.queue.add(key)

    def _gate_changed(self, workload: Workload) -> None:
        self._handlers.gate_changed(workload)
        self._costs.gate_changed(workload)
