"""One Workload: read the world, decide, write once. Level-triggered, so a key is all it is given.

Between reading the world and counting the decision (`World.assume`) nothing is awaited, so
decisions are made one after the other on the newest state while many writes are under way. Whatever
goes wrong with a write, the informer's view of the Workload replaces what was assumed, and the key
comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from controller.admission import Admission
from controller.cycle import decide
from controller.decision import Decision
from controller.framework.profile import Profile
from controller.graph import decide_together, together
from controller.model import Workload
from controller.queue import Change, SchedulingQueue
from controller.services import Flags
from controller.status import patch_of
from controller.unit import Unit
from controller.world import LATER, World, known, rank_of
from crds.names import API_VERSION
from crds.workload import EventReason, ScheduledReason, WorkloadState
from machinery import logs, metrics
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.events import EventRecorder, ObjectRef
from machinery.informer import Informer
from machinery.objects import Key
from machinery.resources import WORKLOADS
from machinery.transport import ApiClient
from machinery.verbs import MERGE_PATCH

LOG = logs.get(__name__)
STALE_RETRY_SECONDS = 1.0
OBJECTION_RETRY_SECONDS = 30.0
"""Rights on the hub change without telling us."""

DECISIONS = metrics.counter(
    "stowage_decisions",
    "Decisions by their reason",
    ("reason",),
    zero=[(reason.value,) for reason in ScheduledReason],
)
DECISION_SECONDS = metrics.histogram(
    "stowage_decision_seconds",
    "Time of the pure pass",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25),
)
WRITE_SECONDS = metrics.histogram("stowage_decision_write_seconds", "Time of the status write")
_COUNT = {reason: DECISIONS.labels(reason.value) for reason in ScheduledReason}

_decoder = msgspec.json.Decoder(Workload)

_HELPED_BY: Mapping[str, Change] = {
    "NamedCluster": Change.CLUSTER_ADDED | Change.CLUSTER_RULES,
    "ClusterSelector": Change.CLUSTER_ADDED | Change.CLUSTER_LABELS | Change.CLUSTER_RULES,
    "ClusterAffinity": Change.CLUSTER_ADDED | Change.CLUSTER_LABELS,
    "TargetNamespace": Change.CLUSTER_ADDED | Change.CLUSTER_RULES,
    "TaintToleration": Change.CLUSTER_ADDED | Change.CLUSTER_RULES,
    "ClusterReady": Change.CLUSTER_ADDED | Change.CLUSTER_READY,
    "WorkloadAffinity": Change.CLUSTER_ADDED | Change.CLUSTER_LABELS | Change.WORKLOADS,
    "ClusterResources": Change.CLUSTER_ADDED | Change.CLUSTER_RULES | Change.CLUSTER_ROOM,
}


class Reconciler:
    """Decides keys of the scheduling queue.

    `check` raises LeaseLost; `fresh` says: act on the view.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        workloads: Informer[Workload],
        world: World,
        profiles: Mapping[str, Profile],
        admission: Admission,
        recorder: EventRecorder,
        clock: Clock,
        flags: Flags,
        check: Callable[[], None],
        fresh: Callable[[], bool],
    ) -> None:
        self.client = client
        self._workloads = workloads
        self._world = world
        self._profiles = profiles
        self._admission = admission
        self._recorder = recorder
        self._clock = clock
        self._flags = flags
        self._check = check
        self._fresh = fresh
        self.queue: SchedulingQueue | None = None

    async def reconcile(self, key: Key) -> float | None:
        """Decide one Workload; seconds until it shall be looked at again, or None."""
        if not self._fresh():
            return STALE_RETRY_SECONDS
        workload = self._workloads.get(key)
        if not self._ours(workload):
            self._forget(key)
            return None
        assert workload is not None  # noqa: S101 - `_ours` has looked
        objection = await self._admission.objection(workload.metadata)
        if workload.fault or objection is not None:
            message = workload.fault or (objection.message if objection else "")
            await self._refuse(workload, message)
            lasting = objection is None or objection.lasting
            return None if lasting else OBJECTION_RETRY_SECONDS
        workload = self._workloads.get(key)  # the objection may have taken a while
        if not self._ours(workload):
            return None
        assert workload is not None  # noqa: S101 - `_ours` has looked
        for decision in self._decide(workload.unit):
            await self._commit(decision)
        return None

    def diagnose(self, key: Key) -> Decision | None:
        """What would be decided now, without doing it; None for a Workload that is not ours."""
        unit = self._world.units.get(key)
        if unit is None or unit.scheduler_name not in self._profiles:
            return None
        return self._pure(unit)

    def _ours(self, workload: Workload | None) -> bool:
        return (
            workload is not None
            and not workload.metadata.deleting
            and workload.spec.scheduler_name in self._profiles
        )

    def _forget(self, key: Key) -> None:
        if self.queue is not None:
            self.queue.forget(key)

    def _pure(self, unit: Unit) -> Decision:
        profile = self._profiles[unit.scheduler_name]
        return decide(self._world.fleet(), unit, self._world.index, profile, self._clock.now())

    def _decide(self, unit: Unit) -> list[Decision]:
        """The decision, or those of all who have to be decided together; counted as made."""
        started = self._clock.monotonic()
        decisions = [self._pure(unit)]
        if not decisions[0].scheduled and unit.affinity.required:
            waiting = {u.key: u for u in self._world.units.values() if not u.present}
            group = together(unit.key, {**waiting, unit.key: unit})
            if len(group) > 1:
                decisions = decide_together(
                    self._world.fleet(),
                    group,
                    self._world.index,
                    self._profiles[unit.scheduler_name],
                    self._clock.now(),
                )
        DECISION_SECONDS.observe(self._clock.monotonic() - started)
        for decision in decisions:
            self._world.assume(decision.unit, decision.placements)
            self._park(decision)
            self._log(decision)
        return decisions

    def _park(self, decision: Decision) -> None:
        """In the same breath as the decision: a change during its write must find it waiting."""
        if self.queue is None:
            return
        unit = decision.unit
        if decision.scheduled and not unit.everywhere:
            self.queue.forget(unit.key)
            return
        awaits = LATER if unit.everywhere else Change.NOTHING
        if not decision.scheduled:
            for plugin in decision.refused_by():
                awaits |= _HELPED_BY.get(plugin, Change.any())
        self.queue.park(rank_of(unit), awaits or Change.any())

    def _log(self, decision: Decision) -> None:
        _COUNT[decision.reason].inc()
        about = {"object": "/".join(decision.unit.key)}
        LOG.debug("%s: %s", decision.reason.value, decision.message, extra=about)
        if self._flags.debug_scores:
            LOG.info("%s", decision.table(self._flags.debug_scores), extra=about)

    async def _commit(self, decision: Decision) -> None:
        """Reserve, permit, one write, and the news of it."""
        unit, profile = decision.unit, self._profiles[decision.unit.scheduler_name]
        workload = self._workloads.get(unit.key)
        if workload is None or workload.unit is not unit:
            self._again(unit.key)
            return
        patch = patch_of(decision, workload)
        if patch is None:
            return
        written = False
        try:
            if await _permitted(profile, decision):
                await self._write(unit.key, patch)
                written = True
        finally:
            if not written:
                for reserving in profile.reserve:
                    reserving.unreserve(unit, decision.placements)
                self._restore(unit.key)
        if written:
            for telling in profile.post_bind:
                telling.post_bind(unit, decision.placements)
            self._tell(decision)

    async def _write(self, key: Key, patch: dict[str, Any]) -> None:
        self._check()
        started = self._clock.monotonic()
        namespace, name = key
        with suppress(NotFound):  # deleted meanwhile; the informer will say so
            answer = await self.client.request(
                "PATCH",
                WORKLOADS.path(namespace, name, "status"),
                body=patch,
                content_type=MERGE_PATCH,
            )
            self._workloads.upsert(_decoder.decode(answer))
        WRITE_SECONDS.observe(self._clock.monotonic() - started)

    def _restore(self, key: Key) -> None:
        """Back to what the informer holds."""
        self._world.workload_changed(None, self._workloads.get(key) or _absent(key))

    def _again(self, key: Key) -> None:
        """A newer version arrived while others of its group were written."""
        unit = self._world.units.get(key)
        self._restore(key)
        if self.queue is not None and unit is not None:
            self.queue.offer([rank_of(unit)])

    def _tell(self, decision: Decision) -> None:
        good = decision.scheduled
        reason = EventReason.SCHEDULED if good else EventReason.FAILED_SCHEDULING
        where = ", ".join(f"{c}={n}" for c, n in list(decision.placements.items())[:20])
        namespace, name = decision.unit.key
        self._recorder.event(
            ObjectRef(API_VERSION, "Workload", namespace, name, decision.unit.uid),
            type="Normal" if good else "Warning",
            reason=reason.value,
            note=f"assigned {where}" if good else decision.message,
            action="Scheduling",
        )

    async def _refuse(self, workload: Workload, message: str) -> None:
        """What admission would have refused: say so, keep what is placed, place nothing."""
        unit = workload.unit or compile_empty(workload)
        placements = {p.cluster: p.replicas for p in workload.status.placements}
        decision = Decision(
            unit=unit,
            fleet=self._world.fleet(),
            time=self._clock.now(),
            placements=placements,
            desired=max(unit.replicas, sum(placements.values())),
            reason=ScheduledReason.INVALID_WORKLOAD,
            state=WorkloadState.FAILED,
            message=message,
        )
        patch = patch_of(decision, workload)
        if patch is not None:
            await self._write(workload.metadata.key, patch)
            self._tell(decision)


async def _permitted(profile: Profile, decision: Decision) -> bool:
    """Reserve, Permit and PreBind: whether none of them withholds the write."""
    unit, placements = decision.unit, decision.placements
    for reserving in profile.reserve:
        if not reserving.reserve(unit, placements).ok:
            return False
    for permitting in profile.permit:
        if not permitting.permit(unit, placements).ok:
            return False
    for preparing in profile.pre_bind:
        if not (await preparing.pre_bind(unit, placements)).ok:
            return False
    return True


def compile_empty(workload: Workload) -> Unit:
    """A unit for a Workload whose template cannot be read: enough to say so on the object."""
    bare = msgspec.structs.replace(
        workload,
        spec=msgspec.structs.replace(workload.spec, target_deployment=None, template=None),
    )
    return known(bare).unit  # type: ignore[no-any-return] # a bare spec has nothing to fail on


def _absent(key: Key) -> Workload:
    namespace, name = key
    return msgspec.convert({"metadata": {"namespace": namespace, "name": name}}, Workload)
