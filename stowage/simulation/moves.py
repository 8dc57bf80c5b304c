"""Moves without a hub: the controller's decisions in a loop, with members that are ready at once.

A round decides every Workload that may move, in the controller's order: it is one step of the
fleet's budget. Then each decision counts as written, its units as ready, and what has left a member
is free there. Once nothing moves, time goes on to the next end of a toleration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from controller.features.evacuation.fleet import turns
from controller.framework.calling.guard import PluginError
from controller.framework.profile import SchedulerConfiguration
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import ClusterShare, MemberCluster, Workload, WorkloadStatus
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo, restated
from controller.scheduling import moving
from controller.scheduling.decision import Decision
from controller.snapshot.snapshot import Snapshot
from crds.fields.shares import ShareHealth, ShareState
from machinery.types import hostports, quantities
from machinery.types.api import Capacity, NodeGroup
from machinery.types.metadata import Key, Object
from stowage.fleet.inventory import PlanInputs
from stowage.simulation.foresight import evacuated
from stowage.simulation.rehearsal import Rehearsal, written

_CPU = "cpu"


@dataclass(slots=True)
class _Nodes:
    """Nodes that are alike; `free` is the room of each."""

    group: NodeGroup
    count: int
    free: dict[str, int]


class MemberRoom:
    """The nodes of one cluster, and the sum of what is requested there."""

    def __init__(self, cluster: MemberCluster) -> None:
        self._cluster = cluster
        self._capacity = cluster.status.capacity or Capacity()
        self._requested = _amounts(self._capacity.requested)
        self._nodes = [
            _Nodes(group, group.count, _amounts(group.free)) for group in cluster.status.node_groups
        ]

    def come(self, info: WorkloadInfo, units: int) -> int:
        """Take units in; return how many of them found a node."""
        request = _request(info)
        for taken in range(units):
            fitting = [each for each in self._nodes if _fits(each, info, request)]
            if not fitting:
                return taken
            self._use(max(fitting, key=lambda each: each.free.get(_CPU, 0)), request, -1)
        return units

    def go(self, info: WorkloadInfo, units: int) -> None:
        """Give back the room of units."""
        request = _request(info)
        for _ in range(units):
            nodes = [each for each in self._nodes if _takes(each.group, info)]
            if nodes:
                self._use(min(nodes, key=lambda each: each.free.get(_CPU, 0)), request, 1)

    def _use(self, nodes: _Nodes, request: Mapping[str, int], sign: int) -> None:
        one = nodes
        if nodes.count > 1:
            nodes.count -= 1
            one = _Nodes(nodes.group, 1, dict(nodes.free))
            self._nodes.append(one)
        for resource, amount in request.items():
            one.free[resource] = one.free.get(resource, 0) + sign * amount
            requested = self._requested.get(resource, 0) - sign * amount
            self._requested[resource] = max(requested, 0)
        alike = (each for each in self._nodes if each is not one and each.group is one.group)
        if (same := next((each for each in alike if each.free == one.free), None)) is not None:
            same.count += one.count
            self._nodes.remove(one)

    def reported(self) -> MemberCluster:
        """Return the cluster with this room."""
        groups = [
            msgspec.structs.replace(each.group, count=each.count, free=_texts(each.free))
            for each in self._nodes
        ]
        capacity = msgspec.structs.replace(self._capacity, requested=_texts(self._requested))
        status = msgspec.structs.replace(
            self._cluster.status, node_groups=groups, capacity=capacity
        )
        return msgspec.structs.replace(self._cluster, status=status)


def _request(info: WorkloadInfo) -> dict[str, int]:
    return {k: n for k, n in info.request.items() if not k.startswith(hostports.PREFIX)}


def _fits(nodes: _Nodes, info: WorkloadInfo, request: Mapping[str, int]) -> bool:
    fits = all(nodes.free.get(resource, 0) >= amount for resource, amount in request.items())
    return fits and _takes(nodes.group, info)


def _takes(group: NodeGroup, info: WorkloadInfo) -> bool:
    return info.place.takes(group.labels) and all(map(info.place.bears, group.taints))


def _amounts(texts: Mapping[str, str | int]) -> dict[str, int]:
    """Parse what a member reports; an invalid quantity counts as nothing, as in a snapshot."""
    found = dict[str, int]()
    for resource, text in texts.items():
        try:
            found[resource] = quantities.bounded(resource, text)
        except ValueError:
            found[resource] = 0
    return found


def _texts(amounts: Mapping[str, int]) -> dict[str, Any]:
    return {resource: quantities.render(resource, n) for resource, n in amounts.items()}


class Simulation(Rehearsal):
    """The moves of a fleet from `now` on, by a configuration; `handle` is that of its plugins.

    With `settled` they begin once what moves there already has ended.

    `play` goes on until nothing moves. Then `decisions` are the last ones, `began` the step in
    which each Workload moved first, `before` its placements before that.
    """

    def __init__(
        self,
        present: PlanInputs,
        configuration: SchedulerConfiguration,
        *,
        now: datetime,
        handle: DryRunHandle,
        settled: bool = False,
    ) -> None:
        self.movement = configuration.movement
        self._began_at = now
        found = evacuated(present.clusters, self.movement, now)
        super().__init__(
            configuration.profiles,
            clusters=found,
            workloads=present.workloads.values(),
            objects=present.objects.values(),
            now=now,
            handle=handle,
            movement=self.movement,
        )
        self.members = {each.metadata.name: each for each in found}
        self._answering = {each.metadata.name for each in found if each.ready}
        self._kept: dict[Key, Workload] = {}
        self._kept_infos: dict[Key, WorkloadInfo] = {}
        self._kept_members: dict[str, MemberCluster] = {}
        self._rooms: dict[str, MemberRoom] = {}
        self._settle()
        self._forget()
        if settled:
            self.play()
            self.mark()

    def _forget(self) -> None:
        self._now = self._began_at
        self._later: dict[Key, datetime] = {}
        """When the first units of a Workload have to leave."""
        self.steps = 0
        self.decisions = {}
        self.explained: dict[Key, Decision] = {}
        """The last decision that moved units, of each Workload."""
        self.began: dict[Key, int] = {}
        self.before: dict[Key, Mapping[str, int]] = {}

    def arrive(self) -> None:
        """Place what has no cluster yet, as Workloads of files; nothing that has one moves."""
        self._forget()
        keys = self._undecided & self._infos.keys()
        for _ in range(self._most_rounds()):
            if not self._step(key for key in keys if not self._infos[key].present):
                return
            keys = set(self._open())

    def play(self, asked: Iterable[Key] = ()) -> None:
        """Decide these Workloads, and all that need a decision, until nothing moves any more."""
        self._forget()
        left = [name for name, each in self.members.items() if each.evacuating]
        held = {key for name in left for key in self._cache.holders(name) if is_workload(key)}
        keys = {*asked, *self._undecided}
        for key in held & self._infos.keys() - keys:
            if (due := self._first_due(self._infos[key])) is not None:
                self._later[key] = due
            else:
                keys.add(key)
        for _ in range(self._most_rounds()):
            changed = self._step(keys & self._infos.keys())
            if changed:
                keys = set(self._open())
                continue
            due = min((at for at, _ in self._due()), default=None)
            if due is None:
                return
            keys = {key for at, key in self._due() if at <= due}
            self._later = {key: at for key, at in self._later.items() if at > due}
            self._now = due

    def _most_rounds(self) -> int:
        """Return more rounds than there can be: in each one a unit moves, or a toleration ends."""
        units = sum(sum(each.present.values()) + each.replicas for each in self._infos.values())
        return 100 + 4 * (units + len(self._infos))

    def _first_due(self, info: WorkloadInfo) -> datetime | None:
        """Return when the first units have to leave; None if some have to now, or none ever."""
        about = info, self._cache.snapshot(), self._cache.index, self._now
        try:
            said = moving.descheduling(self._profiles[info.scheduler_name], *about)
        except PluginError:  # as the decision will tell
            return None
        due = min((e.due for e in said.evictions.values() if e.due is not None), default=None)
        return None if due is None or due <= self._now else due

    def _due(self) -> Iterable[tuple[datetime, Key]]:
        yield from ((at, key) for key, at in self._later.items())
        for key, decision in self.decisions.items():
            for cluster, eviction in decision.moving.evictions.items():
                due = eviction.due
                if due is not None and due > self._now and decision.placements.get(cluster):
                    yield due, key

    def _open(self) -> list[Key]:
        return [
            key
            for key, each in self.decisions.items()
            if not each.scheduled
            or each.workload.everywhere
            or each.moving.held
            or each.moving.stuck
            or each.workload.moving.rebalance_due
        ]

    def _step(self, keys: Iterable[Key]) -> list[Key]:
        """Decide each once; return those of which anything moved or left since."""
        turn = turns(self._cache.snapshot())
        infos = [self._infos[key] for key in keys]
        infos.sort(key=lambda info: (turn(info)[0], self._cache.rank(info)))
        made: dict[Key, Decision] = {}
        for decision in self._decisions(info.key for info in infos):
            made[decision.workload.key] = decision
            if decision.moves:
                self._cache.assume(decision.workload, decision.placements)
        moved = [key for key, decision in made.items() if decision.moves]
        self.steps += bool(moved)
        for key in moved:
            self.began.setdefault(key, self.steps)
            self.before.setdefault(key, self.placed[key].placements)
        self.explained |= {key: made[key] for key in moved}
        changed = [key for key, decision in made.items() if self._land(decision)]
        self.decisions |= made
        self._report()
        return changed

    def _land(self, decision: Decision) -> bool:
        """Count a decision as written, and its units as ready; return whether anything moved."""
        key = decision.workload.key
        if not is_workload(key):
            self._kept_infos.setdefault(key, decision.workload)
            self._count(decision)
            return decision.moves
        before = self.placed[key]
        status = written(decision, before)
        status = self._run(decision.workload, status, dict(decision.placements))
        if _essence(status) == _essence(before.status):
            return False
        self.store(restated(before, before.metadata, status))
        return decision.moves or status.leaving != before.status.leaving

    def _run(
        self, info: WorkloadInfo, status: WorkloadStatus, placements: Mapping[str, int]
    ) -> WorkloadStatus:
        """Have the members run the placements; return the status with what they report."""
        ready = self._answering
        shares = _reported(status.clusters, placements, ready, idle=info.idle)
        before = {each.name: each.scheduled for each in status.clusters}
        after = {each.name: each.scheduled for each in shares}
        found = dict[str, int]()
        for name in sorted((before.keys() | after.keys()) & ready):
            counted = before.get(name, 0)
            if (more := after.get(name, 0) - counted) > 0:
                # What finds no node stays in flight.
                found[name] = counted + self._room(name).come(info, more)
            elif more < 0:
                self._room(name).go(info, -more)
        shares = [
            msgspec.structs.replace(each, scheduled=found.get(each.name, each.scheduled))
            for each in shares
        ]
        # Once all is ready elsewhere, only what nobody can see goes on leaving.
        leaving = [each for each in status.leaving if each.cluster not in ready]
        return msgspec.structs.replace(status, clusters=shares, leaving=leaving)

    def _room(self, cluster: str) -> MemberRoom:
        if cluster not in self._rooms:
            self._rooms[cluster] = MemberRoom(self.members[cluster])
        return self._rooms[cluster]

    def _report(self) -> None:
        rooms, self._rooms = self._rooms, {}
        for room in rooms.values():
            self.see(room.reported())

    def _settle(self) -> None:
        """Count what the members run and no report tells of, as in files."""
        for workload in [*self.placed.values()]:
            told = {each.name for each in workload.status.clusters}
            if is_workload(workload.metadata.key) and not told.issuperset(workload.placements):
                status = self._run(workload.info, workload.status, workload.placements)
                self.store(restated(workload, workload.metadata, status))
        self._report()

    def store(self, workload: Workload) -> None:
        """Take a new version of a Workload."""
        key = workload.metadata.key
        before = self.placed.get(key)
        if before is not None:
            self._kept.setdefault(key, before)
        self.placed[key] = workload
        self._cache.workload_changed(before, workload)
        if self._cache.ours(workload):
            self._infos[key] = self._cache.named(workload).info
        self._told(before, workload)

    def see(self, cluster: MemberCluster) -> None:
        """Take a new version of a cluster."""
        name = cluster.metadata.name
        before = self.members.get(name)
        if before is not None:
            self._kept_members.setdefault(name, before)
        self.members[name] = cluster
        (self._answering.add if cluster.ready else self._answering.discard)(name)
        self._cache.cluster_changed(before, cluster)
        self._told(before, cluster)

    def change(self, clusters: Iterable[MemberCluster]) -> None:
        """Take new versions of clusters, and what leaves each cluster because of them."""
        all_ = {**self.members, **{each.metadata.name: each for each in clusters}}
        for each in evacuated(all_.values(), self.movement, self._began_at):
            if self.members.get(each.metadata.name) != each:
                self.see(each)

    def hear(self, before: Object | None, after: Object) -> None:
        """Take a new version of an object of a feature."""
        self._told(before, after)
        self._take_placed(after)

    def snapshot(self) -> Snapshot:
        return self._cache.snapshot()

    def mark(self) -> None:
        """Keep the present state for `restore`."""
        for kept in (self._kept, self._kept_infos, self._kept_members):
            kept.clear()
        self._undecided = {
            key for key, each in self.placed.items() if self._cache.needs_decision(each)
        }

    def restore(self) -> None:
        """Undo all changes of clusters and Workloads since `mark`."""
        for cluster in [*self._kept_members.values()]:
            self.see(cluster)
        for workload in [*self._kept.values()]:
            self.store(workload)
        for key, info in self._kept_infos.items():
            self._infos[key] = info
            self._cache.assume(info, info.present)
        for kept in (self._kept, self._kept_infos, self._kept_members):
            kept.clear()

    def _told(self, before: Any, after: Any) -> None:
        for watch in self._watches:
            if watch.type_ is type(after):
                watch.handler(before, after)


def _essence(status: WorkloadStatus) -> tuple[Any, ...]:
    """Return what later decisions read of a status: conditions and times are for people."""
    return (
        status.placements,
        status.leaving,
        status.displaced,
        status.rebalanced,
        status.decision.hash,
        status.clusters,
        status.observed.controller,
    )


def _reported(
    shares: Iterable[ClusterShare],
    placements: Mapping[str, int],
    ready: Collection[str],
    *,
    idle: bool,
) -> list[ClusterShare]:
    """Return the reports of the members once all is ready; a lost one tells what it told last.

    With `idle` a new share has no pods, and is suspended.
    """
    known = {each.name: each for each in shares}
    new = ShareHealth.SUSPENDED.value if idle else ""
    told = {name: known.get(name) or ClusterShare(name, health=new) for name in placements}
    found = [
        msgspec.structs.replace(
            told[name],
            replicas=replicas,
            ready=replicas,
            available=replicas,
            scheduled=replicas if told[name].health != ShareHealth.SUSPENDED else 0,
            current=0,
            unschedulable=0,
            unschedulable_since=None,
            state=ShareState.RUNNING.value,
            blocked=None,
        )
        for name, replicas in placements.items()
        if name in ready
    ]
    away = (each for name, each in known.items() if name not in ready)
    found += (msgspec.structs.replace(e, state=ShareState.UNREACHABLE.value) for e in away)
    return found
