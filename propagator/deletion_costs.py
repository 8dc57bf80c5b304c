"""Writes changed deletion costs to the pods of members, at a low rate, each member by itself.

status.overrides gives the number of replicas with each cost. Pods are patched, because a change of
their template would restart them. Failures are retried, and the share does not fail. A mark makes
costs of an earlier process removable. The agent of a member in mode Pull patches its pods.

The highest costs go to ready pods, the lowest to pods that wait for a node. Among equals the higher
present cost comes first, then the older pod: nothing changes without an event.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakSet

from crds.names import ANNOTATION_DELETION_COST, POD_DELETION_COST
from machinery import logs, metrics
from machinery.api.lanes import working_for
from machinery.api.resources import PODS
from machinery.api.responses import shaped
from machinery.errors import ApiError, Conflict, Forbidden, NotFound, TransportError
from machinery.runtime.backoff import KeyedBackoff
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.bounds import FOR_ONE_WORKLOAD
from machinery.types.metadata import Key, Object
from propagator.errors import says_no
from propagator.members.capacity.kept import Pod, WirePod
from propagator.members.connection import Link
from propagator.members.context import ControllerContext
from propagator.members.pod_index import PodIndex
from propagator.members.pods import main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.types.overrides import MOST_COST, Costs
from propagator.types.workload import Workload

LOG = logs.get(__name__)
GATHER_SECONDS = 1.0
"""How long further changes of pods are collected."""
PER_SECOND = 25
STALE_SECONDS = 1.0
"""Seconds between two checks whether the view of the hub is up to date."""
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 900.0
"""Pauses between two patches in a namespace where patching pods is forbidden."""
FIRST_POD_PAUSE, LONGEST_POD_PAUSE = 5.0, 300.0
"""Pauses between two patches of a pod that refused one, or whose cost another client changed."""
_BASE_DELAY = 1.0
_ENDED = ("Succeeded", "Failed")

WRITES = metrics.counter(
    "stowage_deletion_cost_writes_total",
    "Patches of pods on members for their deletion cost",
    ("result",),
    zero=[("written",), ("refused",), ("failed",)],
)


class CostChange(NamedTuple):
    """A pod and its new deletion cost; None removes ours."""

    pod: Pod
    cost: int | None


class _Which(NamedTuple):
    """A pod: its Workload's UID, its member's name, and its own UID."""

    workload: str
    member: str
    pod: str


class Workloads(Protocol):
    """As much of `HubWorkloads` as is asked here."""

    @property
    def listed(self) -> bool: ...

    def by_uid(self, uid: str) -> Workload | None: ...

    def touching(self, name: str) -> list[Workload]: ...


class CostWriter:
    """Listens to members from its construction on; `run` writes.

    Its owner calls `workload_changed`. `may_write` says whether a placed Workload's share may be
    written.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: Workloads,
        may_write: Callable[[Workload], bool],
    ) -> None:
        self._registry = context.registry
        self._clock = context.clock
        self._fresh = context.fresh
        self._workloads = workloads
        self._may_write = may_write
        self._links: WeakSet[Link] = WeakSet()  # whose pods are listened to
        # Of the Workload: the members that may have pods with costs of ours.
        self._marks = context.shares.column(set[str])
        self._queues: dict[str, WorkQueue[tuple[str, str]]] = {}
        """By member: the namespaces and UIDs of Workloads."""
        self._begun = asyncio.Event()
        self._forbidden: KeyedBackoff[tuple[str, str]] = KeyedBackoff(
            clock=context.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )
        self._pods = context.shares.backoff(
            _Which, clock=context.clock, base=FIRST_POD_PAUSE, cap=LONGEST_POD_PAUSE
        )
        context.registry.on_change(self._member_changed)

    async def run(self) -> None:
        served: WeakSet[WorkQueue[tuple[str, str]]] = WeakSet()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._begun.clear()
                for member, queue in self._queues.items():
                    if queue not in served:
                        served.add(queue)
                        reconcile = functools.partial(self._reconcile, member)
                        tasks.create_task(work(queue, reconcile, workers=1, log=LOG))
                await self._begun.wait()

    def gate_changed(self, workload: Workload) -> None:
        marked = self._marks.get(workload.uid) or ()
        for member in {*workload.overrides.with_costs(), *marked}:
            self._enqueue(member, workload)

    # --- which shares to reconcile ---------------------------------------------------------------

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is not None and new is not None and new.uid != old.uid:
            old = None
        if new is None or (old is not None and _same(old, new)):
            return
        before = set(old.overrides.with_costs()) if old is not None else set()
        marked = self._marks.get(new.uid) or ()
        for member in {*before, *new.overrides.with_costs(), *marked}:
            if old is None or old.costs_on(member) != new.costs_on(member):
                self._enqueue(member, new)

    def _enqueue(self, member: str, workload: Workload, after: float = 0.0) -> None:
        """Without known pods, `_listen` queues it later."""
        if isinstance(self._registry.get(member), PullSession):
            self._registry.wake(member, workload.metadata.key)  # its Assignment says others
            return
        if self._pods_on(member) is None:
            return
        queue = self._queues.get(member)
        if queue is None:
            queue = self._queues[member] = WorkQueue(
                name="deletion-costs", clock=self._clock, base_delay=_BASE_DELAY, flow=namespace_of
            )
            self._begun.set()
        queue.add_after((workload.metadata.namespace, workload.uid), after)

    def _member_changed(self, member: str, key: Key | None) -> None:
        if key is not None:
            return
        session = self._registry.get(member)
        if session is None:
            if queue := self._queues.pop(member, None):
                queue.shut_down()
            self._reset(member)
        elif session.link is not None and session.ready and session.link.counted:
            self._listen(member, session.link)

    def _reset(self, member: str) -> None:
        self._forbidden.reset_where(lambda of: of[0] == member)
        self._pods.reset_where(lambda of: of.member == member)

    def _listen(self, member: str, link: Link) -> None:
        if link not in self._links:
            self._reset(member)  # other credentials may be allowed more
            self._links.add(link)
            link.pods.add_handler(functools.partial(self._pod_changed, member))
        for workload in self._workloads.touching(member):
            if workload.overrides.of(member).costs:
                self._enqueue(member, workload)
        for uid in {pod.claim.uid for pod in link.pod_index if pod.claim and pod.marked}:
            self._pods_changed(member, uid, marked=True)

    def _pod_changed(self, member: str, old: Object | None, new: Object | None) -> None:
        before, after = cast("Pod | None", old), cast("Pod | None", new)
        if before is not None and after is not None and _alike(before, after):
            return
        claims = {pod.claim for pod in (before, after) if pod is not None}
        for uid in {claim.uid for claim in claims if claim is not None} - {""}:
            self._pods_changed(member, uid, marked=after is not None and after.marked)

    def _pods_changed(self, member: str, uid: str, *, marked: bool) -> None:
        workload = self._workloads.by_uid(uid)
        if marked and (workload is not None or not self._workloads.listed):
            self._marks.at(uid).add(member)
        if workload is not None and (marked or workload.overrides.of(member).costs):
            self._enqueue(member, workload, GATHER_SECONDS)

    def _pods_on(self, member: str) -> PodIndex | None:
        session = self._registry.get(member)
        link = session.link if session is not None else None
        return link.pod_index if link is not None and link in self._links else None

    # --- one share --------------------------------------------------------------------------------

    async def _reconcile(self, member: str, of: tuple[str, str]) -> float | None:
        workload, session = self._workloads.by_uid(of[1]), self._registry.get(member)
        pods = self._pods_on(member)
        if workload is None or session is None or pods is None or not session.ready:
            return None
        if not self._fresh():
            return STALE_SECONDS
        if workload.suspended(session.facts.labels):
            return None
        costs, ours = workload.costs_on(member), pods.of(main_of(workload))
        if costs is None or not (costs or any(pod.marked for pod in ours)):
            return None
        if not self._may_write(workload):
            return None  # such as of a decision that its group has not released
        shut = self._forbidden.remaining((member, workload.namespace))
        if shut or not session.allows(workload.namespace):
            return shut or None
        return await self._write(session, workload, costs, ours)

    async def _write(
        self, session: MemberSession, workload: Workload, costs: Costs, ours: Collection[Pod]
    ) -> float | None:
        share = workload.uid, session.name
        todo = [
            (change, self._pods.remaining(_Which(*share, change.pod.metadata.uid), change.cost))
            for change in changes(ours, costs)
        ]
        due = [change for change, wait in todo if not wait]
        if not due:
            there = {pod.metadata.uid for pod in ours}
            self._pods.reset_where(lambda of: of[:2] == share and of.pod not in there)
            return min((wait for _, wait in todo), default=None)
        forbidden = (session.name, workload.namespace) in self._forbidden
        few = due[: 1 if forbidden else FOR_ONE_WORKLOAD]
        with working_for(workload.metadata.key):
            await self._put_all(session, workload, few)
        await self._clock.sleep(len(few) / PER_SECOND)
        return 0.0

    async def _put_all(
        self, session: MemberSession, workload: Workload, few: Sequence[CostChange]
    ) -> None:
        """Raises the first fault that concerns the member."""
        put = (self._put(session, workload.namespace, change) for change in few)
        ended = await asyncio.gather(*put, return_exceptions=True)
        for change, result in zip(few, ended, strict=True):
            self._learn(session, workload, change, result)
        for fault in ended:
            if isinstance(fault, BaseException) and not _about_the_pod(fault):
                raise fault

    def _learn(
        self, session: MemberSession, workload: Workload, change: CostChange, result: object
    ) -> None:
        pod = _Which(workload.uid, session.name, change.pod.metadata.uid)
        spoilt = change.pod.marked and change.pod.cost is None
        if result is True and not spoilt:
            self._pods.reset(pod)
        else:
            self._pods.failed(pod, change.cost)
        match result:
            case bool():
                WRITES.labels("written").inc()
                self._forbidden.reset((session.name, workload.namespace))
            case Forbidden():
                WRITES.labels("refused").inc()
                self._forbid(session, workload, result)
            case _:
                WRITES.labels("failed").inc()

    def _forbid(self, session: MemberSession, workload: Workload, fault: Forbidden) -> None:
        where = (session.name, workload.namespace)
        known = where in self._forbidden
        self._forbidden.failed(where)
        if known:
            return
        LOG.warning(
            "%s: deletion costs are not written in namespace %s, so that the member alone decides "
            "which pods go first: let the propagator patch pods there, as `stowage join` does: %s",
            *where,
            fault,
            extra={"object": workload.owner},
        )

    async def _put(self, session: MemberSession, namespace: str, change: CostChange) -> bool:
        """Return whether the informer shows the cost. Raises TransportError."""
        pod, link = change.pod, session.link
        answer = await session.client_for(namespace).merge_patch(
            PODS, pod.metadata.name, _patch(change), namespace=namespace
        )
        status = answer.get("status")
        ended = isinstance(status, dict) and status.get("phase") in _ENDED
        if link is None or link is not session.link or ended:
            return False
        with suppress(ValueError, TransportError):  # else only the watch shows it
            link.pods.upsert(shaped(answer, WirePod))
        shown = link.pods.get(pod.metadata.key)
        return isinstance(shown, Pod) and shown.cost == change.cost


def changes(pods: Collection[Pod], costs: Costs) -> list[CostChange]:
    """Return the changes to write, the lowest cost first: those pods are the next to go.

    `costs` are (cost, replicas), the highest first. Without any, our costs are removed.
    """
    there = [pod for pod in pods if not pod.metadata.deleting]
    if not costs:
        return [CostChange(pod, None) for pod in there if pod.marked]
    lowest = min(cost for cost, _ in costs)
    wanted = zip(sorted(there, key=_order), _each(costs, len(there)), strict=True)
    found = [CostChange(pod, _leaving(pod, lowest) if c is None else c) for pod, c in wanted]
    news = [change for change in found if change.cost != change.pod.cost]
    return sorted(news, key=lambda change: change.cost or 0)


def _order(pod: Pod) -> tuple[int, int, str, str]:
    """Sort the pods to keep first."""
    fares = 0 if pod.ready else 1 if pod.node else 2
    before = -MOST_COST if pod.cost is None else pod.cost
    return fares, -before, pod.metadata.creation_timestamp, pod.metadata.name


def _each(costs: Costs, pods: int) -> Iterator[int | None]:
    """None for pods beyond the replicas."""
    for cost, replicas in costs:
        taken = min(replicas, pods)
        pods -= taken
        yield from [cost] * taken
    yield from [None] * pods


def _leaving(pod: Pod, lowest: int) -> int:
    # A share that shrinks loses the pods that were the cheapest when it began to.
    return lowest if pod.cost is None else min(pod.cost, lowest)


def _patch(change: CostChange) -> dict[str, Any]:
    pod, text = change.pod, None if change.cost is None else str(change.cost)
    annotations = {ANNOTATION_DELETION_COST: text, POD_DELETION_COST: text}
    if text is None and pod.cost is None:
        del annotations[POD_DELETION_COST]  # another manager's cost stays when ours goes
    return {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}


def _same(old: Workload, new: Workload) -> bool:
    same = bytes(old.status.overrides) == bytes(new.status.overrides)
    return same and old.placements == new.placements


def _alike(one: Pod, other: Pod) -> bool:
    mine, theirs = (
        (pod.ready, bool(pod.node), pod.cost, pod.marked, pod.metadata.deleting, pod.claim)
        for pod in (one, other)
    )
    return mine == theirs


def _about_the_pod(fault: BaseException) -> bool:
    if isinstance(fault, NotFound | Conflict):
        return True
    return isinstance(fault, ApiError) and says_no(fault)
