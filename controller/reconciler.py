"""One Workload: read the world, decide, write once. Level-triggered, so a key is all it is given.

Between reading the world and counting the decision (`World.assume`) nothing is awaited, so
decisions are made one after the other on the newest state while many writes are under way. Whatever
goes wrong with a write, the informer's view of the Workload replaces what was assumed, and the key
comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from controller.admission import Admission
from controller.cycle import decide
from controller.decision import Decision
from controller.extension import permitted, posted, withdrawn
from controller.framework.profile import Profile
from controller.graph import decide_together, together
from controller.model import Workload
from controller.queue import Change, SchedulingQueue, Topic
from controller.quotas import Quotas
from controller.services import Flags
from controller.status import for_good, is_news, patch_of, short_patch
from controller.unit import Unit
from controller.world import World
from crds.names import API_VERSION
from crds.workload import EventReason, ScheduledReason, WorkloadState
from machinery import logs, metrics
from machinery.clock import Clock
from machinery.errors import NotFound, TransportError
from machinery.events import EventRecorder, ObjectRef
from machinery.informer import Informer
from machinery.objects import Key
from machinery.resources import WORKLOADS
from machinery.transport import ApiClient
from machinery.verbs import MERGE_PATCH

LOG = logs.get(__name__)
STALE_RETRY_SECONDS = 2.0
OBJECTION_RETRY_SECONDS = 30.0
"""Rights on the hub change without telling us."""
NOTED_CLUSTERS = 20
"""Shares that an Event names; the others are in the status."""

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

_ADDED = Change.CLUSTER_ADDED
_HELPED_BY: Mapping[str, Change] = {
    "NamedCluster": _ADDED | Change.CLUSTER_RULES,
    "ClusterSelector": _ADDED | Change.CLUSTER_LABELS | Change.CLUSTER_RULES,
    "ClusterAffinity": _ADDED | Change.CLUSTER_LABELS,
    "TargetNamespace": _ADDED | Change.CLUSTER_RULES,
    "TaintToleration": _ADDED | Change.CLUSTER_RULES,
    "ClusterReady": _ADDED | Change.CLUSTER_READY,
    "WorkloadAffinity": _ADDED | Change.CLUSTER_LABELS | Change.WORKLOADS,
    "WorkloadPolicy": _ADDED | Change.CLUSTER_LABELS | Change.POLICIES,
    "ClusterResources": _ADDED | Change.CLUSTER_RULES | Change.CLUSTER_ROOM,
}
"""What can lift a plugin's refusal of a cluster; of a plugin that is not here, anything can."""

_RESYNC = Change.POLICIES
"""Told of single policies otherwise: who waits for it and names none is woken by a resync alone."""
_ANY_CLUSTER = Change.any() & ~(Change.WORKLOADS | Change.POLICIES)


class Reconciler:
    """Decides keys of one scheduling queue, for one term of leadership.

    `check` raises LeaseLost; `fresh` says that the view of the hub may be acted on.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        queue: SchedulingQueue,
        workloads: Informer[Workload],
        world: World,
        profiles: Mapping[str, Profile],
        admission: Admission,
        quotas: Quotas,
        recorder: EventRecorder,
        clock: Clock,
        flags: Flags,
        check: Callable[[], None],
        fresh: Callable[[], bool],
    ) -> None:
        self._client = client
        self._queue = queue
        self._workloads = workloads
        self._world = world
        self._profiles = profiles
        self._admission = admission
        self._quotas = quotas
        self._recorder = recorder
        self._clock = clock
        self._flags = flags
        self._check = check
        self._fresh = fresh
        self._busy: set[Key] = set()
        self._missed: dict[Key, set[Key]] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Decide one Workload; seconds until it shall be looked at again, or None."""
        if not self._fresh():
            return STALE_RETRY_SECONDS
        workload = self._ours(key)
        if workload is None:
            return None
        objection = await self._admission.review(workload.metadata)
        workload = self._ours(key)  # a review takes its time
        if workload is None:
            return None
        if objection is not None:
            await self._refuse(workload, objection.message)
            return None if objection.lasting else OBJECTION_RETRY_SECONDS
        if workload.fault:
            await self._refuse(workload, workload.fault)
            return None
        decisions = self._decide(workload.unit)
        await self._commit(decisions)
        unit = decisions[0].unit
        return self._profiles[unit.scheduler_name].next_look(unit, self._clock.now())

    def _ours(self, key: Key) -> Workload | None:
        """The Workload, if it is ours to decide, and now."""
        if key in self._busy:
            self._missed.setdefault(key, set()).add(key)
            return None
        workload = self._workloads.get(key)
        if workload is not None and self._world.ours(workload):
            return workload
        self._queue.forget(key)
        return None

    def _decide(self, unit: Unit) -> list[Decision]:
        """The decision, or those of all who have to be decided together; counted as made."""
        started = self._clock.monotonic()
        fleet, profile = self._world.fleet(), self._profiles[unit.scheduler_name]
        about = (self._world.index, profile, self._clock.now())
        unit = profile.settled(unit, self._clock.now())
        decisions = [decide(fleet, unit, *about)]
        if not decisions[0].scheduled and unit.affinity.required:
            group = self._group(unit)
            if len(group) > 1:
                decisions = decide_together(fleet, group, *about)
        DECISION_SECONDS.observe(self._clock.monotonic() - started)
        for decision in decisions:
            self._world.assume(decision.unit, decision.placements)
            self._quotas.decided(decision)
            self._park(decision)
            self._log(decision)
        return decisions

    def _group(self, unit: Unit) -> list[Unit]:
        """Who has to be decided with this one, itself included, without those that are in work.

        What becomes of these is not known yet: once it is, this one's turn comes again.
        """
        partners = {**self._partners(unit), unit.key: unit}
        group = together(unit.key, partners)
        busy = [other.key for other in group if other.key in self._busy]
        if not busy:
            return group
        for key in busy:
            self._missed.setdefault(key, set()).add(unit.key)
        free = {key: other for key, other in partners.items() if key not in self._busy}
        return together(unit.key, free)

    def _partners(self, unit: Unit) -> dict[Key, Unit]:
        """Who could wait for each other with this one."""
        return {
            key: other
            for key, other in self._world.waiting(unit).items()
            if (held := self._workloads.get(key)) is not None
            and self._world.ours(held)
            and self._admission.reviewed(held.metadata)
        }

    def _park(self, decision: Decision) -> None:
        """In the same breath as the decision: a change during its write must find it waiting."""
        unit = decision.unit
        awaits = Change.NOTHING
        if not decision.scheduled:
            awaits = _helped_by(decision)
        if unit.everywhere:  # one more cluster is one more place
            awaits |= _ANY_CLUSTER
        if awaits:
            self._queue.park(self._world.rank(unit), awaits, _topics(unit))
        else:
            self._queue.settle(unit.key)

    def _log(self, decision: Decision) -> None:
        _COUNT[decision.reason].inc()
        about = {"object": "/".join(decision.unit.key)}
        LOG.debug("%s: %s", decision.reason.value, decision.message, extra=about)
        if LOG.isEnabledFor(logging.DEBUG) and (turns := decision.turns()):
            LOG.debug("units go to %s", " ".join(turns), extra=about)
        if self._flags.debug_scores and len(decision.ranking):
            LOG.info("%s", decision.table(self._flags.debug_scores), extra=about)

    async def _commit(self, decisions: list[Decision]) -> None:
        """Write them one after the other; those that are not written are as if never decided."""
        left = {decision.unit.key: decision for decision in decisions}
        self._busy |= left.keys()
        try:
            for decision in decisions:
                if await self._settled(decision):
                    del left[decision.unit.key]
                    self._queue.active.forget(decision.unit.key)
        finally:
            for decision in decisions:
                self._busy.discard(decision.unit.key)
            for key, decision in left.items():
                self._queue.park(self._world.rank(decision.unit), Change.any(), ())
                self._world.restore(key, self._workloads.get(key))
            self._make_good(decisions)

    def _make_good(self, decisions: list[Decision]) -> None:
        """Those whose turn came in vain, as we were busy with these, get it now."""
        missed = [self._missed.pop(decision.unit.key, set()) for decision in decisions]
        units = [self._world.unit(key) for key in set[Key]().union(*missed)]
        self._queue.offer([self._world.rank(unit) for unit in units if unit is not None])

    async def _settled(self, decision: Decision) -> bool:
        """Bind it; where the hub refuses that for good, say so. False to try it again."""
        try:
            return await self._bind(decision)
        except TransportError as e:
            if not for_good(e):
                raise
            await self._rest(decision.unit, e)
            return True

    async def _bind(self, decision: Decision) -> bool:
        """Reserve, permit, one write, and the news of it. False when it could not be written."""
        workload = self._workloads.get(decision.unit.key)
        if workload is None or workload.unit.version != decision.unit.version:
            return False  # edited while others of its group were written
        patch = patch_of(decision, workload)
        if patch is None:
            return True
        profile, written = self._profiles[decision.unit.scheduler_name], False
        try:
            if not await permitted(profile, decision):
                return False
            if not await self._quotas.claim(decision.unit, decision.placements):
                return False
            await self._write(decision.unit.key, patch)
            written = True
        finally:
            if not written:
                withdrawn(profile, decision)
                self._quotas.withdraw(decision.unit)
        posted(profile, decision)
        self._tell(decision, patch, workload)
        return True

    async def _write(self, key: Key, patch: dict[str, Any]) -> None:
        self._check()
        started = self._clock.monotonic()
        namespace, name = key
        with suppress(NotFound):  # deleted meanwhile; the informer will say so
            answer = await self._client.request(
                "PATCH",
                WORKLOADS.path(namespace, name, "status"),
                body=patch,
                content_type=MERGE_PATCH,
            )
            self._workloads.upsert(_decoder.decode(answer))
        WRITE_SECONDS.observe(self._clock.monotonic() - started)

    def _tell(self, decision: Decision, patch: Mapping[str, Any], before: Workload) -> None:
        """An Event and a line of the log, where people do not know yet."""
        if not is_news(patch, before):
            return
        good, (namespace, name) = decision.scheduled, decision.unit.key
        reason = EventReason.SCHEDULED if good else EventReason.FAILED_SCHEDULING
        note = f"assigned {_shares(decision) or 'no units'}" if good else decision.message
        LOG.info("%s: %s", reason.value, note, extra={"object": f"{namespace}/{name}"})
        self._recorder.event(
            ObjectRef(API_VERSION, "Workload", namespace, name, decision.unit.uid),
            type="Normal" if good else "Warning",
            reason=reason.value,
            note=note,
            action="Scheduling",
        )

    async def _refuse(self, workload: Workload, message: str) -> None:
        """What admission would have refused: say so, keep what is placed, place nothing."""
        decision = self._refusal(workload.unit, message)
        self._queue.settle(decision.unit.key)
        _COUNT[decision.reason].inc()
        patch = patch_of(decision, workload)
        try:
            if patch is not None:
                await self._write(decision.unit.key, patch)
                self._tell(decision, patch, workload)
        except TransportError as e:
            if not for_good(e):
                raise
            await self._rest(decision.unit, e, message)

    def _refusal(self, unit: Unit, message: str) -> Decision:
        return Decision(
            unit=unit,
            fleet=self._world.fleet(),
            time=self._clock.now(),
            placements=unit.present,
            desired=max(unit.replicas, sum(unit.present.values())),
            reason=ScheduledReason.INVALID_WORKLOAD,
            state=WorkloadState.SCHEDULED if unit.present else WorkloadState.FAILED,
            message=message,
        )

    async def _rest(self, unit: Unit, error: TransportError, message: str = "") -> None:
        """The hub takes no such status, now or later: say that, and wait for the next resync.

        Only then, or when the Workload changes, is it tried again; the shares stay as they are.
        """
        held = self._workloads.get(unit.key)
        self._world.restore(unit.key, held)  # first, or what comes back looks like another's edit
        self._queue.park(self._world.rank(unit), _RESYNC, ())
        if held is None:
            return
        if held.metadata.resource_version != unit.version:  # not what was refused
            self._queue.offer([self._world.rank(unit)])
            return
        about = {"object": "/".join(unit.key)}
        LOG.warning("the hub refuses its status: %s", error, extra=about)
        refusal = self._refusal(held.unit, message or f"the hub refuses its status: {error}")
        patch = short_patch(refusal, held)
        if patch is None:
            return
        try:
            await self._write(unit.key, patch)
        except TransportError as e:
            if not for_good(e):
                raise
            LOG.warning("nor does it take a shorter one: %s", e, extra=about)
        self._tell(refusal, patch, held)


def _helped_by(decision: Decision) -> Change:
    """The changes that could turn a refusal, or a shortage, into a placement."""
    awaits = Change.NOTHING
    for plugin in decision.refused_by():
        awaits |= _HELPED_BY.get(plugin, Change.any())
    if len(decision.ranking):  # some cluster takes it, but not all of it
        awaits |= _ADDED | Change.CLUSTER_ROOM | Change.CLUSTER_RULES
    if decision.unit.bound:
        awaits |= _HELPED_BY["WorkloadPolicy"]
    return awaits or Change.any()


def _topics(unit: Unit) -> tuple[Topic, ...]:
    """What a change that is not about the whole fleet must be about to matter to it."""
    return (unit.namespace, unit.policy) if unit.policy else (unit.namespace,)


def _shares(decision: Decision) -> str:
    shares = [f"{cluster}={units}" for cluster, units in decision.placements.items()]
    more = len(shares) - NOTED_CLUSTERS
    return ", ".join(shares[:NOTED_CLUSTERS]) + (f" and {more} more" if more > 0 else "")
