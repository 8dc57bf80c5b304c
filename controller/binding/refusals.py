"""Says on a Workload why it is not decided, or why its decision is not written.

The shares stay as they are. Three cases: admission would have refused the Workload, a plugin
withholds the write or holds it back, the hub refuses the status itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.binding.publisher import StatusUpdater
from controller.eventhandlers import SchedulerCache
from controller.framework.status import Status
from controller.framework.statuswriter import for_good
from controller.model.placed import SchedulableLister
from controller.model.unit import WorkloadInfo
from controller.queue.hints import Hints
from controller.queue.scheduling_queue import SchedulingQueue
from controller.scheduling.decision import Decision
from controller.scheduling.refusal import untouched
from crds.workload import ScheduledReason
from machinery import logs
from machinery.clock import Clock
from machinery.errors import TransportError

LOG = logs.get(__name__)
RETRY_SECONDS = {ScheduledReason.PLUGIN_ERROR: 30.0, ScheduledReason.SCHEDULE_TIMEOUT: 10.0}
"""No event says that a plugin works again, or would answer in time now."""


class Refusals:
    """Says on Workloads why nothing was written of them."""

    def __init__(
        self,
        publisher: StatusUpdater,
        *,
        queue: SchedulingQueue,
        workloads: SchedulableLister,
        world: SchedulerCache,
        hints: Mapping[str, Hints],
        clock: Clock,
    ) -> None:
        self._publisher = publisher
        self._queue = queue
        self._workloads = workloads
        self._world = world
        self._hints = hints
        self._clock = clock

    async def say(self, decision: Decision) -> None:
        """Write a decision on the newest version of the Workload, if it says anything new.

        Where the hub refuses the status for good, a shorter one is written. Raises TransportError.
        """
        workload = self._workloads.get(decision.unit.key)
        if workload is None or workload.unit.version != decision.unit.version:
            return  # edited meanwhile: its edit queues it again
        try:
            patch = self._publisher.patch(decision, workload)
            if patch is None:
                return
            await self._publisher.write(decision.unit.key, patch)
        except TransportError as e:
            if not for_good(e):
                raise
            await self.rest(decision, e, decision.message)
        else:
            self._publisher.tell(decision, patch, workload)

    async def withhold(self, decision: Decision, status: Status) -> None:
        """Undo a decision that a plugin withholds, and say why.

        The Workload is decided again when an event may help the plugin; after a fault, and where a
        plugin did not answer in time, also by the clock.
        """
        self.undo(decision, status)
        await self.tell(decision, status)

    def undo(self, decision: Decision, status: Status) -> None:
        """Undo the decision; the Workload waits for what could help the plugin that withholds."""
        unit, held = decision.unit, self._workloads.get(decision.unit.key)
        self._world.restore(unit, decision.placements, held)
        self.park(unit, status.reason, status.plugin)

    async def tell(self, decision: Decision, status: Status) -> None:
        """Say on the object why the decision was withheld. Raises TransportError."""
        await self.say(untouched(decision.unit, self._world.fleet(), self._clock.now(), status))

    def park(self, unit: WorkloadInfo, reason: ScheduledReason, plugin: str = "") -> None:
        """Wait for what could help that plugin, but after a fault or a timeout only so long."""
        rank, hints = self._world.rank(unit), self._hints[unit.scheduler_name]
        self._queue.park(rank, unit, hints.of(frozenset({plugin})))
        if reason in RETRY_SECONDS:
            self._queue.add_after(rank, RETRY_SECONDS[reason])

    def _invalid(self, unit: WorkloadInfo, message: str) -> Decision:
        status = Status(reasons=(message,), reason=ScheduledReason.INVALID_WORKLOAD)
        return untouched(unit, self._world.fleet(), self._clock.now(), status)

    async def rest(self, decision: Decision, error: TransportError, message: str = "") -> None:
        """Say that the hub refuses the status for good, and wait for the next resync or an edit.

        The shares stay as they are.
        """
        unit = decision.unit
        held = self._workloads.get(unit.key)
        # Before the write below, whose answer would else look like another writer's edit.
        self._world.restore(unit, decision.placements, held)
        self._queue.rest(self._world.rank(unit), unit)
        if held is None:
            return
        if held.metadata.resource_version != unit.version:  # another version was refused
            self._queue.offer([self._world.rank(unit)])
            return
        about = {"object": "/".join(unit.key)}
        LOG.warning("the hub refuses its status: %s", error, extra=about)
        refusal = self._invalid(held.unit, message or f"the hub refuses its status: {error}")
        patch = None
        try:
            patch = self._publisher.short_patch(refusal, held)
            if patch is not None:
                await self._publisher.write(unit.key, patch)
        except TransportError as e:
            if not for_good(e):
                raise
            LOG.warning("nor does it take a shorter one: %s", e, extra=about)
        if patch is not None:
            self._publisher.tell(refusal, patch, held)
