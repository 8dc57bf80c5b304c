"""Gangs: one decision on a whole gang, beside the way of scheduler-plugins in the same run.

    uv run python -m benchmarks.gangs

A thousand clusters, and 200 gangs of 50 units that come one after the other, each counted before
the next one is decided. A line is the decision of a whole gang in milliseconds of processor time:
the median, the 99th percentile, the longest step, during which nothing else runs, and the ratio to
the same gang placed unit by unit (`benchmarks.unitbyunit`; both are Python). Then one gang of 50
units in 1 to 50 Workloads; one for which there is too little room, one whose Workloads cannot be
together, and both once more while they are denied. Then the clusters and pods that the other way
looks at for one gang, which are the same in every language. The last lines are the status of the
largest group, in bytes: all notes of its gate, and one write after the placements of one Workload
have changed, beside the list that an earlier release wrote whole each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from benchmarks.fleets import clusters
from benchmarks.unitbyunit import Gang, Pod, UnitByUnit
from controller.config import default_profile
from controller.eventhandlers import SchedulerCache, known
from controller.features.workloadgroup.compiled import CompiledGroup, WorkloadGroup, compile_group
from controller.features.workloadgroup.gate.gate import Gate, Standing, gate_of
from controller.features.workloadgroup.gate.status import changes
from controller.features.workloadgroup.ledger import Groups
from controller.framework.profile import SchedulerConfiguration
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import MemberCluster, Workload
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from crds.groups.gate import GateState, decision_of
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.names import DEFAULT_SCHEDULER, LABEL_GROUP
from machinery import garbage
from machinery.types import quantities
from machinery.types.metadata import Key

SIZE, GANGS, UNITS, IN_A_NAMESPACE = 1000, 200, 50, 10
WORKLOADS = (1, 2, 5, 10, 25, 50)
ROUNDS = 20
CLUSTERS = 10
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = {"cpu": "500m", "memory": "1Gi"}
LARGE, MANY = {"cpu": "7600m", "memory": "1Gi"}, 60
"""Units of that size, of which the fuller nodes have room for 45."""


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of one decision, and of its longest step."""

    all: float
    longest: float


class Ours:
    """A controller's cache without a hub: each decision counts at once."""

    def __init__(self, members: Iterable[MemberCluster]) -> None:
        self._groups, handle = Groups(), DryRunHandle()
        profile = default_profile(handle=handle)
        self._profiles = {DEFAULT_SCHEDULER: profile}
        self.world = SchedulerCache(
            self._profiles,
            sort=profile.queue_sort,
            reviewed=lambda _: True,
            ledgers=[self._groups],
        )
        handle.begin(self.world, SchedulerConfiguration(self._profiles, leader_elect=False))
        self._now = handle.clock.now
        self._members = list(members)
        for each in self._members:
            self.world.cluster_changed(None, each)

    def look_again(self) -> None:
        """Make the next decision read a snapshot without any computed columns."""
        self.world.cluster_changed(self._members[0], self._members[0])
        self.world.snapshot()

    def take(
        self,
        name: str,
        space: str,
        workloads: int,
        asks: Mapping[str, str],
        *,
        units: int = UNITS,
        apart: bool = False,
    ) -> Key:
        """Add a gang of `units` in so many Workloads; return the key of the first.

        Workloads that are `apart` must be in different regions, of which there are not enough.
        """
        document = {"metadata": _meta(name, space), "spec": {"minMember": units}}
        self._groups.put_group(compile_group(msgspec.convert(document, WorkloadGroup)))
        for number in range(workloads):
            spec = _spec(f"{name}-{number}", units // workloads, asks)
            meta = {**_meta(f"{name}-{number}", space), "labels": {LABEL_GROUP: name}}
            if apart:
                spec["workloadAntiAffinity"] = _apart(name)
            made = known(msgspec.convert({"metadata": meta, "spec": spec}, Workload))
            self.world.workload_changed(None, made)
        return (space, f"{name}-0")

    def decide(self, key: Key) -> tuple[Batch, Took]:
        """Return the decision on the Workload's gang, and its times; nothing is counted."""
        info = self.world.info(key)
        assert info is not None
        began = last = time.thread_time()
        steps, longest = decide_set(self.world, info, self._profiles, self._now()), 0.0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                now = time.thread_time()
                return end.value, Took((now - began) * 1e3, max(longest, now - last) * 1e3)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()

    def count(self, batch: Batch) -> int:
        """Count the decisions in one step, as the controller does; return the placed units."""
        if batch.conclusion is not None:
            batch.conclusion.note()
        for decision in batch.decisions:
            self.world.assume(decision.workload, decision.placements)
        return sum(sum(decision.placements.values()) for decision in batch.decisions)


def _meta(name: str, space: str) -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00Z"
    return {"name": name, "namespace": space, "uid": f"{space}/{name}", "creationTimestamp": stamp}


def _spec(name: str, units: int, asks: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": asks}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "schedulerName": DEFAULT_SCHEDULER,
        "replicas": units,
        "distribution": "Divided",
        "targetDeployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"template": template},
        },
    }


def _apart(group: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {LABEL_GROUP: group}}, "topologyKey": "region"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _gang(name: str, space: str, asks: Mapping[str, str], units: int = UNITS) -> Gang:
    request = {r: quantities.amount(r, text) for r, text in asks.items()}
    pods = [Pod(space, name, f"{name}-{number}") for number in range(units)]
    return Gang(space, name, units, {**request, "pods": 1}, pods)


def _names() -> Iterator[tuple[str, str]]:
    return ((f"gang-{n}", f"team-{n // IN_A_NAMESPACE}") for n in range(GANGS))


def median(values: Iterable[float]) -> float:
    """Return the upper median."""
    found = sorted(values)
    return found[len(found) // 2]


def timed(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return (time.thread_time() - began) * 1e3


def line(title: str, taken: Sequence[Took], theirs: Sequence[float]) -> None:
    """Print a line, with the ratio to the other way where `theirs` is not empty."""
    each = sorted(took.all for took in taken)
    p50, p99 = median(each), each[len(each) * 99 // 100]
    longest = max(took.longest for took in taken)
    beside = ""
    if theirs:
        beside = f"  unit by unit {median(theirs):7.2f} ms  ratio {median(theirs) / p50:7.1f}"
    print(
        f"{SIZE} clusters  {title:44}  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms"
        f"  longest step {longest:5.2f} ms{beside}"
    )


def arrivals(members: Sequence[MemberCluster]) -> UnitByUnit:
    """Measure all gangs in turn, both ways; return the other way with all gangs placed."""
    gangs = [_gang(name, space, SMALL) for name, space in _names()]
    other = UnitByUnit(members, gangs)
    theirs = [timed(partial(other.place, gang)) for gang in gangs]
    placed = sum(bool(pod.cluster) for gang in gangs for pod in gang.pods)
    for workloads in (1, 5):
        ours, taken, units = Ours(members), list[Took](), 0
        for name, space in _names():
            batch, took = ours.decide(ours.take(name, space, workloads, SMALL))
            began = time.thread_time()
            units += ours.count(batch)
            counting = (time.thread_time() - began) * 1e3
            taken.append(Took(took.all + counting, max(took.longest, counting)))
        if units < placed:
            raise SystemExit(f"{units} units placed, unit by unit {placed}")
        line(f"{GANGS} gangs in {workloads} Workloads each", taken, theirs)
    return other


def growth(members: Sequence[MemberCluster]) -> None:
    """Measure one gang in more and more Workloads, on clusters without other gangs."""
    gangs = [_gang("gang", "team", SMALL) for _ in range(ROUNDS // 4)]
    theirs = [timed(partial(UnitByUnit(members, [gang]).place, gang)) for gang in gangs]
    for workloads in WORKLOADS:
        ours = Ours(members)
        key = ours.take("gang", "team", workloads, SMALL)
        line(f"one gang in {workloads} Workloads", repeated(ours, key), theirs)


def repeated(ours: Ours, key: Key) -> list[Took]:
    """Repeat the same decision; return the times without the first."""
    taken: list[Took] = []
    for _ in range(1 + ROUNDS):
        ours.look_again()
        taken.append(ours.decide(key)[1])
    return taken[1:]


def refused(members: Sequence[MemberCluster]) -> None:
    """Measure a gang without room for its quorum, and once more while it is denied."""
    tight = [_fuller(each) for each in members]
    gang = _gang("gang", "team", LARGE, MANY)
    other = UnitByUnit(tight, [gang])
    first = timed(lambda: other.place(gang))
    again = timed(lambda: other.place(gang, now=1.0))
    for title, workloads, apart in (
        ("refused before any pass", 2, False),
        ("refused after a pass on each", MANY, True),
    ):
        ours = Ours(tight)
        asks = SMALL if apart else LARGE
        key = ours.take("gang", "team", workloads, asks, units=MANY, apart=apart)
        line(f"{title}, {workloads} Workloads", repeated(ours, key), [] if apart else [first])
        batch, _ = ours.decide(key)
        if ours.count(batch):
            raise SystemExit(f"{title}: {batch.decisions[0].message}")
        denied = [
            ours.decide(key)[1] for _ in range(ROUNDS)
        ]  # on the same snapshot: a cluster that changes would end the denial
        line("  and once more while it is denied", denied, [] if apart else [again])


def _fuller(cluster: MemberCluster) -> MemberCluster:
    """Return the cluster with its fuller nodes alone."""
    status = msgspec.structs.replace(cluster.status, node_groups=cluster.status.node_groups[:1])
    return msgspec.structs.replace(cluster, status=status)


def gate_sizes() -> None:
    """Print sizes of the largest group, each Workload on ten clusters; none ran before, or some."""
    for title, ran in (("all of it new", 0), ("100 ran before", 100)):
        members = [_standing(number, ran=number < ran) for number in range(MOST_WORKLOADS)]
        group = CompiledGroup(
            ("team", "gang"), "0", "", 1, MOST_WORKLOADS * CLUSTERS, phase="Scheduled"
        )
        gate = gate_of(group, members, NOW)
        noted = {"decisions": dict(gate.released), "retained": dict(gate.retained)}
        stored = _stored(noted, gate)
        members[7] = replace(members[7], decision=decision_of({"elsewhere": CLUSTERS}))
        after = gate_of(compile_group(stored), members, NOW)
        fields = {"decisions": after.released, "retained": after.retained}
        one = len(msgspec.json.encode({"status": changes(fields, stored)}))
        listed = [
            {"name": f"worker-{number:04}", "uid": each.uid, "decision": each.decision}
            for number, each in enumerate(members)
        ]
        before = len(msgspec.json.encode(listed))
        if gate.state is not GateState.OPEN or gate.large:
            raise SystemExit(f"{title}: {gate.large}")
        print(
            f"gate of {MOST_WORKLOADS} Workloads on {CLUSTERS} clusters each, {title:15}"
            f"  noted {gate.size:7} B  one change {one:6} B"
            f"  as a list {before:7} B, and each change so many  ratio {before / one:8.1f}"
        )


def _standing(number: int, *, ran: bool) -> Standing:
    shares = {f"cluster-{cluster}": 1 for cluster in range(CLUSTERS)}
    return Standing(
        f"worker-{number:04}",
        f"0f8fad5b-d9cb-469f-a165-70867728{number:04x}",
        placed=True,
        replicas=CLUSTERS,
        shares=shares,
        decision=decision_of({**shares, "cluster-0": number}),
        seen=shares if ran else {},
    )


def _stored(noted: Mapping[str, Any], gate: Gate) -> WorkloadGroup:
    """Return the group as the hub has it after the first write."""
    status = {**noted, "gate": gate.state, "phase": "Scheduled"}
    spec = {"minMember": MOST_WORKLOADS * CLUSTERS}
    document = {"metadata": {"name": "gang", "namespace": "team"}, "spec": spec, "status": status}
    return msgspec.convert(document, WorkloadGroup)


def main() -> None:
    members = clusters(SIZE)
    with garbage.tended():  # as in the controller
        looks = arrivals(members).looks
        growth(members)
        refused(members)
    print(
        f"unit by unit, one of {GANGS} gangs looks at {looks.clusters // GANGS} clusters"
        f" and walks over {looks.pods // GANGS} pods"
    )
    gate_sizes()


if __name__ == "__main__":
    main()
