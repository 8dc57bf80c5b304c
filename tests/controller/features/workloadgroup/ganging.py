"""Gangs without a hub: a cache, its ledger, the plugin, and the decisions that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self

import msgspec

from controller.cache.ledger import Ledger
from controller.config import default_profile
from controller.eventhandlers import SchedulerCache, known
from controller.features.workloadgroup.compiled import CompiledGroup, WorkloadGroup, compile_group
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.plugin import Coscheduling, CoschedulingArgs
from controller.framework.profile import Profile, SchedulerConfiguration
from controller.framework.runtime.handle import DryRunHandle
from controller.framework.waiting import WaitingWorkload, WaitingWorkloads
from controller.model.objects import Workload
from controller.scheduling.batch import decide_set
from controller.scheduling.decision import Decision
from controller.scheduling.sets import Batch, Others
from controller.scheduling.steps import at_once
from crds.names import LABEL_GROUP
from machinery.types.metadata import Key
from tests.controller import make

NS = "shop"
CREATED = "2026-01-01T00:00:00Z"


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = make.NOW

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def group(
    name: str = "batch",
    min_member: Any = 4,
    *,
    namespace: str = NS,
    uid: str = "",
    created: str = CREATED,
    generation: int = 1,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> WorkloadGroup:
    """A WorkloadGroup as it is stored; `spec` in JSON spelling."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "creationTimestamp": created,
        "generation": generation,
    }
    body = {"minMember": min_member, **spec}
    document = {"metadata": metadata, "spec": body, "status": dict(status or {})}
    return msgspec.convert(document, WorkloadGroup)


def pod(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


def member(
    name: str = "worker",
    replicas: int = 6,
    *,
    of: str = "batch",
    cpu: str = "3",
    labels: Mapping[str, str] | None = None,
    shown: list[Mapping[str, Any]] | None = None,
    **fields: Any,
) -> Workload:
    """A Workload of that group as the informer keeps it, divided, of units of 3 cpu."""
    made = make.workload(
        name,
        namespace=fields.pop("namespace", NS),
        replicas=replicas,
        pod=fields.pop("pod", pod(cpu=cpu)),
        distribution=fields.pop("distribution", "Divided"),
        **fields,
    )
    given = {LABEL_GROUP: of} if labels is None else dict(labels)
    status = msgspec.to_builtins(made.status) | {"clusters": list(shown or [])}
    meta = msgspec.structs.replace(made.metadata, labels=given)
    status = msgspec.convert(status, type(made.status))
    return known(msgspec.structs.replace(made, metadata=meta, status=status))


def room(name: str, cpu: str, *, nodes: int = 1, **how: Any) -> Any:
    """A ready cluster with that much cpu free on each node, and plenty of all else."""
    free = {"cpu": cpu, "memory": "999Gi", "pods": "999"}
    return make.cluster(name, groups=[{"count": nodes, "free": free}], **how)


class Yard:
    """The controller's pass over groups and Workloads, and what it would write."""

    def __init__(
        self,
        *clusters: Any,
        profiles: tuple[str, ...] = ("stowage",),
        ledgers: Sequence[Ledger] = (),
        **args: Any,
    ) -> None:
        self.time = Time()
        self.handle = DryRunHandle(clock=self.time)
        self.plugin = Coscheduling(CoschedulingArgs(**args), self.handle)
        self.groups = Groups()
        self.world = SchedulerCache(
            set(profiles),
            sort=self.plugin,
            reviewed=lambda _: True,
            ledgers=[self.groups, *ledgers],
        )
        self.profiles = {name: with_gangs(name, self.plugin) for name in profiles}
        self.handle.begin(self.world, SchedulerConfiguration(self.profiles))
        self.woken: list[Key] = []
        self.room = WaitingWorkloads(clock=self.time, activate=self.woken.append)
        self.plugin.use_waiting_workloads(self.room)
        self.workloads: dict[Key, Workload] = {}
        for each in clusters:
            self.world.cluster_changed(None, each)

    def group(self, stored: WorkloadGroup) -> CompiledGroup:
        compiled = compile_group(stored)
        self.groups.put_group(compiled)
        return compiled

    def store(self, workload: Workload) -> Workload:
        key = workload.metadata.key
        self.world.workload_changed(self.workloads.get(key), workload)
        self.workloads[key] = workload
        return workload

    def having(self, *workloads: Workload) -> Self:
        for each in workloads:
            self.store(each)
        return self

    def delete(self, name: str) -> None:
        self.world.workload_changed(self.workloads.pop((NS, name)), None)

    def batch(self, name: str = "worker", *, others: Others | None = None) -> Batch:
        """The batch that is decided with it now; nothing changes."""
        info = self.world.info((NS, name))
        assert info is not None
        ours = Others(partner=lambda key: not self.workloads[key].fault)
        steps = decide_set(self.world, info, self.profiles, self.time.at, others=others or ours)
        return at_once(steps)

    def decide(self, name: str = "worker", **how: Any) -> dict[str, Decision]:
        """As who leads does it: noted, held or counted; by the Workload's name."""
        batch = self.batch(name, **how)
        if batch.conclusion is not None:
            batch.conclusion.note()
        decisions = batch.held or batch.decisions
        for each in decisions:
            self.world.assume(each.workload, each.placements)
            if batch.held and each.moves:
                self.room.add(each.workload, each.placements, each.cycle_state, batch.waits)
            elif each.moves:
                self.plugin.post_bind(each.cycle_state, each.workload, each.placements)
        return {each.workload.name: each for each in batch.decisions}

    def give_back(self, name: str) -> WaitingWorkload:
        """A decision that was held is void."""
        waiting = self.room.remove((NS, name))
        assert waiting is not None
        self.plugin.unreserve(waiting.state, waiting.workload, waiting.placements)
        stored = self.workloads[NS, name]
        self.world.restore(waiting.workload, waiting.placements, stored)
        return waiting

    def hold_on(self, waiting: WaitingWorkload) -> None:
        """Put the Workload back after a turn without a decision."""
        self.plugin.reserve(waiting.state, waiting.workload, waiting.placements)
        self.room.put(waiting)
        self.world.assume(waiting.workload, waiting.placements)

    def later(self, seconds: float) -> None:
        self.time.at += timedelta(seconds=seconds)

    def placed(self, name: str) -> int:
        """Units of it that count."""
        return self.groups.members((NS, "batch"))[NS, name].assigned


def with_gangs(name: str, plugin: Coscheduling) -> Profile:
    """The default profile with that one plugin at every point it serves."""
    base = default_profile()
    points = ("pre_filter", "filter", "post_filter", "reserve", "permit", "post_bind")
    own = {
        point: [*(p for p in getattr(base, point) if p.name != plugin.name), plugin]
        for point in points
    }
    names = {at: tuple(n for n in those if n != plugin.name) for at, those in base.names.items()}
    return replace(base, scheduler_name=name, queue_sort=plugin, names=names, **own)
