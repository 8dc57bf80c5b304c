"""What clusters were seen to run: when a report counts, what is written, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller import catalogue
from controller.binding.statuspatch import patch_of
from controller.cache.placements import PlacementIndex
from controller.config import default_profile, load
from controller.framework.runtime import framework as runtime
from controller.model.load import Load
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo, workload_info
from controller.scheduling.cycle import decide
from controller.snapshot.builder import Snapshot, SnapshotBuilder
from machinery.api.resources import WORKLOADS
from machinery.clock import timestamp
from machinery.errors import ConfigurationError
from tests.controller.make import NOW, cluster, workload
from tests.controller.memory import Stage

PATIENCE = timedelta(seconds=60)
HOLD = timedelta(minutes=5)
PROFILE = default_profile()
POD = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


def report(name: str, asked: int, runs: int, since: datetime | None, **other: Any) -> Any:
    """An entry of status.clusters: what does not run has no node since then."""
    waits = {} if since is None else {"unschedulableSince": timestamp(since)}
    counts = {"replicas": asked, "scheduled": runs, "unschedulable": asked - runs}
    return {"name": name, **counts, "state": "Creating", **waits, **other}


def told(
    placements: Mapping[str, int], *reports: Any, limits: Any = (), shape: str = "", **spec: Any
) -> WorkloadInfo:
    """The unit of a divided Workload with this status."""
    asked = {"distribution": "Divided", "replicas": sum(placements.values()), "pod": POD, **spec}
    first = workload_info(workload(**asked))
    decided = "-".join((first.constraints, first.demand, shape or first.shape))
    found = msgspec.to_builtins(workload(present=placements, decided=decided, **asked))
    found["status"] |= {"clusters": list(reports), "limits": list(limits)}
    return workload_info(msgspec.convert(found, Workload))


def limit(name: str, units: int, until: datetime, **other: Any) -> dict[str, Any]:
    return {"cluster": name, "replicas": units, "until": timestamp(until), "holdSeconds": 300} | {
        **other
    }


def learnt(info: WorkloadInfo, now: datetime = NOW) -> dict[str, int]:
    settled = runtime.settled(PROFILE, info, now, PlacementIndex())
    return {name: each.replicas for name, each in settled.limits.items()}


@pytest.mark.proves("D3")
def test_what_waits_for_a_minute_is_believed_and_not_before() -> None:
    info = told({"a": 5, "b": 2}, report("a", 5, 3, NOW - PATIENCE), report("b", 2, 2, None))
    early = told({"a": 5}, report("a", 5, 3, NOW - PATIENCE / 2))
    assert learnt(info) == {"a": 3}
    assert learnt(early) == {}
    assert runtime.next_look(PROFILE, early, NOW) == PATIENCE.total_seconds() / 2
    assert learnt(early, NOW + PATIENCE / 2) == {"a": 3}


def test_nothing_is_learnt_where_something_else_divides() -> None:
    waits = report("a", 5, 3, NOW - PATIENCE)
    assert learnt(told({"a": 5}, waits, distribution="Single")) == {}
    known = told({"a": 5}, waits, limits=[limit("a", 4, NOW + PATIENCE)])
    assert learnt(known) == {"a": 3}
    assert learnt(replace(known, divided=True)) == {}
    assert runtime.next_look(PROFILE, replace(known, divided=True), NOW) is None


@pytest.mark.parametrize(
    "entry",
    [
        report("a", 4, 2, NOW - HOLD),  # of another number: on its way
        report("a", 5, 3, NOW - HOLD, state="Unreachable"),
        report("a", 5, 5, NOW - HOLD, unschedulable=2),  # two that a rolling update adds
        report("a", 5, 2, None, unschedulable=0),  # being started
        report("elsewhere", 5, 3, NOW - HOLD),
    ],
)
def test_what_says_nothing_about_the_cluster_teaches_nothing(entry: Any) -> None:
    assert learnt(told({"a": 5}, entry)) == {}


def test_capacity_that_is_published_late_is_no_missing_unit() -> None:
    """The report counts pods on nodes only as far as the published room counts them."""
    late = report("a", 5, 0, NOW - HOLD, unschedulable=2)
    assert learnt(told({"a": 5}, late)) == {"a": 3}


@pytest.mark.proves("R13")
@pytest.mark.parametrize("distribution", ["Single", "Divided"])
def test_what_a_policy_divides_learns(distribution: str) -> None:
    bound = {"labels": {"app": "demo", "stowage.dev/workload-policy": "p"}}
    info = told({"a": 5}, report("a", 5, 3, NOW - HOLD), distribution=distribution, **bound)
    assert learnt(info) == {"a": 3}


def test_limits_of_other_pods_are_forgotten() -> None:
    kept = {"limits": [limit("a", 3, NOW + HOLD)]}
    assert learnt(told({"a": 3}, **kept)) == {"a": 3}
    assert learnt(told({"a": 3}, shape="other", **kept)) == {}


def test_a_limit_is_doubted_when_its_time_is_over() -> None:
    info = told({"a": 3}, report("a", 3, 3, None), limits=[limit("a", 3, NOW + HOLD)])
    assert runtime.next_look(PROFILE, info, NOW) == HOLD.total_seconds()
    assert runtime.settled(PROFILE, info, NOW, PlacementIndex()) is info
    assert learnt(info, NOW + HOLD) == {"a": 6}


def test_the_patience_is_in_the_configuration(tmp_path: Any) -> None:
    def configured(seconds: str) -> Any:
        file = tmp_path / "scheduler.yaml"
        file.write_text(
            "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n"
            "- schedulerName: stowage\n  pluginConfig:\n"
            f"  - name: Divided\n    args: {{unschedulableSeconds: {seconds}}}\n"
        )
        return load(file, catalogue.registry()).profiles["stowage"]

    info = told({"a": 5}, report("a", 5, 3, NOW - timedelta(seconds=5)))
    assert runtime.settled(configured("5"), info, NOW, PlacementIndex()).limits["a"].replicas == 3
    assert runtime.settled(configured("6"), info, NOW, PlacementIndex()) is info
    for wrong in ("-1", "soon", "1.5"):
        with pytest.raises(ConfigurationError, match=r"scheduler.yaml:7: .*unschedulableSeconds"):
            configured(wrong)


@dataclass
class Loop:
    """A hub of one Workload and members that run less than they have room for."""

    replicas: int
    rooms: Mapping[str, int]
    true: Mapping[str, int]
    now: datetime = NOW
    since: dict[str, datetime] = field(default_factory=dict)
    writes: int = 0

    def __post_init__(self) -> None:
        asked = workload(replicas=self.replicas, distribution="Divided", pod=POD)
        self.body: dict[str, Any] = msgspec.to_builtins(asked)

    @property
    def workload(self) -> Workload:
        return msgspec.convert(self.body, Workload)

    @property
    def snapshot(self) -> Snapshot:
        """What is free beside the units that run; those that do not yet are on their way."""
        runs, made = self.runs, SnapshotBuilder()
        for name, room in self.rooms.items():
            free = {"cpu": str(max(room - runs.get(name, 0), 0)), "pods": "999"}
            made.upsert(cluster(name, groups=[{"count": 1, "free": free}]))
        for name, units in self.workload.placements.items():
            made.assume(name, Load.of({"cpu": 1000, "pods": 1}), units - runs[name])
        return made.snapshot()

    @property
    def runs(self) -> dict[str, int]:
        return {name: min(n, self.true[name]) for name, n in self.workload.placements.items()}

    def turn(self, seconds: float) -> None:
        """What the propagator reports, the decision on it, and its write."""
        placed, runs = self.workload.placements, self.runs
        self.since = {
            name: self.since.get(name, self.now) for name in placed if runs[name] < placed[name]
        }
        self.now += timedelta(seconds=seconds)
        self.body["status"]["clusters"] = [
            report(name, asked, runs[name], self.since.get(name)) for name, asked in placed.items()
        ]
        current = self.workload
        info = runtime.settled(PROFILE, workload_info(current), self.now, PlacementIndex())
        decision = decide(self.snapshot, info, PlacementIndex(), PROFILE, self.now)
        patch = patch_of(decision, msgspec.structs.replace(current, info=info))
        if patch is not None:
            self.writes += 1
            self.body["status"] |= patch["status"]


def test_units_without_a_node_go_where_there_is_one() -> None:
    loop = Loop(8, {"a": 12, "b": 4}, true={"a": 3, "b": 9})
    loop.turn(1)
    assert loop.workload.placements == {"a": 6, "b": 2}
    loop.turn(30)
    assert loop.workload.placements == {"a": 6, "b": 2}, "the cluster may be growing"
    loop.turn(40)
    assert loop.workload.placements == {"a": 3, "b": 4}
    assert loop.workload.status.pending == 1
    loop.turn(11)
    assert loop.body["status"]["conditions"][-1]["reason"] == "NotReadyThere"
    written = loop.writes
    loop.turn(89)
    assert loop.writes == written, "nothing new, nothing written"
    (told_,) = loop.body["status"]["limits"]
    assert told_ == limit("a", 3, NOW + timedelta(seconds=71) + HOLD, doubted=False)
    loop.true = {"a": 9, "b": 9}
    loop.turn(200)
    assert loop.workload.placements == {"a": 4, "b": 4}, "doubted, tried, and it runs"


def waiting(stage: Stage, runs: int, *, old: timedelta = timedelta()) -> None:
    """Of the six units of a Workload on the first cluster so many run, the others wait."""
    entry: dict[str, Any] = {"name": "a", "replicas": 6, "scheduled": runs}
    if runs < 6:
        since = timestamp(stage.clock.now() - old)
        entry |= {"unschedulable": 6 - runs, "unschedulableSince": since}
    stage.hub.edit(WORKLOADS, "demo", {"status": {"clusters": [entry]}}, status=True)


def stage_of_two() -> Stage:
    """Six units fit on the first cluster and two on the second, which has room for two more."""
    stage = Stage()
    stage.cluster("a", cpu="12")
    stage.cluster("b", cpu="4")
    stage.workload("demo", replicas=8, cpu="1", distribution="Divided")
    return stage


@pytest.mark.parametrize(("grows", "old"), [(True, timedelta()), (False, timedelta(minutes=10))])
async def test_a_cluster_that_grows_in_time_keeps_its_units(*, grows: bool, old: timedelta) -> None:
    """Decided by the clock, as nothing happens when the patience ends.

    A hub that was set back tells since when units waited then: what waited may run by now.
    """
    stage = stage_of_two()
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo") == {"a": 6, "b": 2})
        waiting(stage, 3, old=old)
        await stage.calm(PATIENCE.total_seconds() - 10)
        assert stage.placed("demo") == {"a": 6, "b": 2}
        if grows:
            waiting(stage, 6)
        await stage.calm(20)
        assert stage.placed("demo") == ({"a": 6, "b": 2} if grows else {"a": 3, "b": 4})
        assert ("limits" in stage.hub.read(WORKLOADS, "demo")["status"]) != grows


@pytest.mark.proves("KD62")
async def test_replicas_that_a_member_refuses_for_a_minute_go_elsewhere() -> None:
    """Its pods do not exist, so that none of them has no node."""
    stage = stage_of_two()
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo") == {"a": 6, "b": 2})
        since = timestamp(stage.clock.now())
        entry = {"name": "a", "replicas": 6, "scheduled": 2, "refused": 4, "state": "Creating"}
        entries = [entry | {"unschedulableSince": since}, {"name": "b", "replicas": 2}]
        stage.hub.edit(WORKLOADS, "demo", {"status": {"clusters": entries}}, status=True)
        await stage.calm(PATIENCE.total_seconds() - 10)
        assert stage.placed("demo") == {"a": 6, "b": 2}
        await stage.calm(20)
        assert stage.placed("demo") == {"a": 2, "b": 4}
        (limit_,) = stage.hub.read(WORKLOADS, "demo")["status"]["limits"]
        assert (limit_["cluster"], limit_["replicas"]) == ("a", 2)


async def test_the_patience_begins_anew_with_a_term_and_not_with_a_report() -> None:
    stage, patience = stage_of_two(), PATIENCE.total_seconds()
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo") == {"a": 6, "b": 2})
        waiting(stage, 3)
        await stage.calm(patience - 10)
    async with stage.leading():
        await stage.calm(patience - 10)
        assert stage.placed("demo") == {"a": 6, "b": 2}
        waiting(stage, 4)  # another one of them waits longest by now
        await stage.calm(5)
        waiting(stage, 4, old=timedelta(minutes=10))
        await stage.calm(patience)
        assert stage.placed("demo") == {"a": 4, "b": 4}
