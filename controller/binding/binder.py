"""From a decision to its write: PreBind, one PATCH, PostBind; and back where the write fails.

A decision that is not written is undone: the informer's view of the Workload replaces the assumed
placement, the Reserve plugins give back, and the key comes again. Where no answer says whether the
write was made, it may still land: until that is known the decision goes on counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.binding.inwork import InFlightKeys
from controller.binding.publisher import StatusUpdater
from controller.binding.refusals import Refusals
from controller.eventhandlers import SchedulerCache
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import Status
from controller.framework.statuswriter import for_good
from controller.model.placed import SchedulableLister
from controller.queue.scheduling_queue import SchedulingQueue
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason
from machinery.errors import Conflict, TransportError
from machinery.types.metadata import Key


class Binder:
    """Writes decisions that are assumed in the cache and reserved with the plugins already."""

    def __init__(
        self,
        publisher: StatusUpdater,
        refusals: Refusals,
        *,
        queue: SchedulingQueue,
        workloads: SchedulableLister,
        world: SchedulerCache,
        profiles: Mapping[str, Profile],
        in_work: InFlightKeys,
    ) -> None:
        self._publisher = publisher
        self._refusals = refusals
        self._queue = queue
        self._workloads = workloads
        self._world = world
        self._profiles = profiles
        self._in_work = in_work
        # Decisions whose write may have landed or may still land.
        self._unknown: dict[Key, Decision] = {}

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Write the decisions one after the other; undo those that are not written.

        Raises LeaseLost, and TransportError where trying again may help.
        """
        left = {decision.unit.key: decision for decision in decisions}
        self._in_work.begin(left)
        failed = beaten = False
        given = set[Key]()  # given back already, before the object says why
        try:
            for decision in decisions:
                if await self._settled(decision, given):
                    del left[decision.unit.key]
                    self._queue.active.forget(decision.unit.key)
        except TransportError as e:
            # After a conflict the newest version is known: the Workload is decided again at once.
            failed, beaten = True, isinstance(e, Conflict)
            raise
        finally:
            for key, decision in left.items():
                unit, rank = decision.unit, self._world.rank(decision.unit)
                held = self._workloads.get(key)
                taken = decision.moves and key not in given
                # The write may still land: the old and the new shares both go on counting.
                if failed and taken and held and self._publisher.doubtful(held):
                    self._unknown[key] = decision
                    self._world.assume(unit, _most(decision))
                else:
                    if taken:
                        self.give_back(decision)
                    self._world.restore(unit, decision.placements, held, at_once=beaten)
                self._queue.park(rank, unit)
                if failed:
                    self._queue.retry(rank)
                else:
                    self._queue.again(rank)
            self._world.offer(self._in_work.end(d.unit.key for d in decisions))

    def unknown(self, key: Key) -> bool:
        """Whether it is not known if the Workload's last decision was written."""
        return key in self._unknown

    async def find_out(self, key: Key) -> None:
        """Find out whether the Workload's last decision was written; undo it if it was not.

        Raises LeaseLost, and TransportError while the hub does not say.
        """
        decision, workload = self._unknown.get(key), self._workloads.get(key)
        if decision is None:
            return
        if workload is not None:
            try:
                await self._publisher.overtake(workload)
            except TransportError as e:
                if not for_good(e):  # else the hub takes no such status of ours at all
                    raise
        self._conclude(key)

    def rest(self) -> None:
        """End the term of leadership: the next leader reads what was written."""
        for key in list(self._unknown):
            self._conclude(key)

    def _conclude(self, key: Key) -> None:
        decision, workload = self._unknown.pop(key, None), self._workloads.get(key)
        if decision is None:
            return
        # The write has landed.
        if workload is not None and workload.placements == dict(decision.placements):
            profile = self._profiles[decision.unit.scheduler_name]
            runtime.post_bind(profile, decision.cycle_state, decision.unit, decision.placements)
        else:
            self.give_back(decision)
        self._world.restore(decision.unit, _most(decision), workload)

    def give_back(self, decision: Decision) -> None:
        """Let the plugins free what they reserved for a decision that is not written."""
        if decision.moves:
            profile = self._profiles[decision.unit.scheduler_name]
            state, unit = decision.cycle_state, decision.unit
            runtime.unreserve(profile, state, unit, decision.placements)

    async def _settled(self, decision: Decision, given: set[Key]) -> bool:
        """Bind the decision; where the hub refuses it for good, say so. False: try again."""
        try:
            return await self._bind(decision, given)
        except TransportError as e:
            if not for_good(e):
                raise
            if decision.unit.key not in given:
                self.give_back(decision)
                given.add(decision.unit.key)
            invalid = decision.reason is ScheduledReason.INVALID_WORKLOAD
            await self._refusals.rest(decision, e, decision.message if invalid else "")
            return True

    async def _bind(self, decision: Decision, given: set[Key]) -> bool:
        """PreBind, one write, and its announcement. False when it could not be written."""
        unit = decision.unit
        workload = self._workloads.get(unit.key)
        if workload is None or workload.unit.version != unit.version:
            return False  # edited while others of its set were written
        patch = self._publisher.patch(decision, workload)
        if patch is None:
            return True
        about = (self._profiles[unit.scheduler_name], decision.cycle_state, unit)
        if decision.moves:
            status = await runtime.pre_bind(*about, decision.placements)
            if not status.ok:
                return await self._withheld(decision, status, given)
        if not await self._publisher.write(unit.key, patch):
            self.give_back(decision)  # the Workload is gone
            return True
        if decision.moves:
            runtime.post_bind(*about, decision.placements)
        self._publisher.tell(decision, patch, workload, words=not self._queue.renewed(unit.key))
        return True

    async def _withheld(self, decision: Decision, status: Status, given: set[Key]) -> bool:
        if not status.reasons:
            return False
        self.give_back(decision)
        given.add(decision.unit.key)
        await self._refusals.withhold(decision, status)
        return True


def _most(decision: Decision) -> dict[str, int]:
    """Return the replicas to count on each cluster while the write may or may not have landed."""
    before, after = decision.unit.present, decision.placements
    return {name: max(before.get(name, 0), after.get(name, 0)) for name in {**before, **after}}
