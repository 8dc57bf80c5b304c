"""Whose turn it is, with a whole controller on a hub in memory: who is woken, and what they say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS

from .memory import Stage
from .test_gang_waits import LABEL

PATIENCE = 20
pytestmark = pytest.mark.proves("G8", "G16")


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "scheduler.yaml"
    found.write_text(
        "apiVersion: stowage.dev/v1alpha1\n"
        "kind: SchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: stowage\n"
        f"  pluginConfig: [{{name: Coscheduling, args: {{patienceSeconds: {PATIENCE}}}}}]\n"
    )
    return found


def gang(stage: Stage, name: str, units: int, quorum: int | None = None, **spec: object) -> None:
    about = {"minMember": quorum or units, **spec}
    meta = {"name": name, "namespace": "shop", "generation": 1}
    stage.hub.put(WORKLOAD_GROUPS, {"metadata": meta, "spec": about})
    stage.workload(name, replicas=units, labels={LABEL: name}, distribution="Divided")


def units(stage: Stage, name: str) -> int:
    return sum(stage.placed(name).values())


def end(stage: Stage, name: str) -> None:
    for resource in (WORKLOADS, WORKLOAD_GROUPS):
        stage.hub.remove(resource, name)


async def test_a_later_one_gives_up_what_it_holds_within_a_second(stage: Stage, file: Path) -> None:
    stage.cluster("a", cpu="9")
    gang(stage, "late", 10)
    async with stage.configured(file):
        await stage.until(lambda: stage.says("late")[1] == "WaitingForGroup")
        meta = {"name": "early", "namespace": "shop", "generation": 1}
        meta["creationTimestamp"] = "2020-01-01T00:00:00Z"
        stage.hub.put(WORKLOAD_GROUPS, {"metadata": meta, "spec": {"minMember": 9}})
        stage.workload("early", replicas=9, labels={LABEL: "early"}, distribution="Divided")
        await stage.until(lambda: units(stage, "early") == 9, seconds=2)
        await stage.until(lambda: stage.says("late")[1] != "WaitingForGroup", seconds=5)
        assert units(stage, "late") == 0
        await stage.calm(30)
        assert units(stage, "early") == 9


async def test_a_later_one_gives_up_also_what_a_member_holds_that_came_later(
    stage: Stage, file: Path
) -> None:
    stage.cluster("a", cpu="19")
    async with stage.configured(file):
        gang(stage, "late", 18, 20, scheduleTimeoutSeconds=300)
        stage.workload("none", replicas=2, cpu="50", labels={LABEL: "late"}, distribution="Divided")
        await stage.until(lambda: stage.says("late")[1] == "WaitingForGroup")
        await stage.calm(2)
        stage.workload("more", replicas=1, labels={LABEL: "late"}, distribution="Divided")
        await stage.calm(3)
        meta = {"name": "early", "namespace": "shop", "generation": 1}
        meta["creationTimestamp"] = "2020-01-01T00:00:00Z"
        stage.hub.put(WORKLOAD_GROUPS, {"metadata": meta, "spec": {"minMember": 19}})
        stage.workload("early", replicas=19, labels={LABEL: "early"}, distribution="Divided")
        await stage.until(lambda: units(stage, "early") == 19, seconds=10)


async def test_a_big_one_gets_its_turn_and_the_others_go_on_behind_it(
    stage: Stage, file: Path
) -> None:
    stage.cluster("a", cpu="12")
    async with stage.configured(file):
        gang(stage, "runs", 6)
        await stage.until(lambda: units(stage, "runs") == 6)
        await stage.calm(1)
        gang(stage, "big", 8)
        await stage.until(lambda: stage.says("big")[0] == "False")
        gang(stage, "first", 2)
        await stage.until(lambda: units(stage, "first") == 2)
        await stage.calm(PATIENCE + 1)
        gang(stage, "small", 2)
        await stage.until(lambda: "kept for WorkloadGroup shop/big" in stage.says("small")[2])
        stage.workload("alone", replicas=1)
        await stage.until(lambda: units(stage, "alone") == 1)
        end(stage, "first")
        await stage.calm(20)
        assert (units(stage, "small"), units(stage, "big")) == (0, 0)
        end(stage, "runs")
        await stage.until(lambda: units(stage, "big") == 8, seconds=15)
        await stage.until(lambda: units(stage, "small") == 2, seconds=15)


async def big_has_the_turn(stage: Stage) -> None:
    """A gang of 6 runs on 10 cpu, and one of 8 has waited for long enough."""
    gang(stage, "runs", 6)
    await stage.until(lambda: units(stage, "runs") == 6)
    await stage.calm(1)
    gang(stage, "big", 8)
    await stage.until(lambda: stage.says("big")[0] == "False")
    await stage.calm(PATIENCE + 1)


async def small_behind_big(stage: Stage) -> None:
    """So it is, and one of 2 stands behind that."""
    await big_has_the_turn(stage)
    gang(stage, "small", 2)
    await stage.until(lambda: "kept for WorkloadGroup shop/big" in stage.says("small")[2])


async def test_those_behind_one_that_is_deleted_start(stage: Stage, file: Path) -> None:
    stage.cluster("a", cpu="10")
    async with stage.configured(file):
        await small_behind_big(stage)
        stage.hub.remove(WORKLOAD_GROUPS, "big")
        await stage.until(lambda: units(stage, "small") == 2, seconds=10)


@pytest.mark.parametrize("edit", ["replicas", "minMember"])
async def test_those_behind_one_that_asks_for_too_few_units_start(
    stage: Stage, file: Path, edit: str
) -> None:
    stage.cluster("a", cpu="10")
    async with stage.configured(file):
        await small_behind_big(stage)
        resource, spec = (
            (WORKLOADS, {edit: 7}) if edit == "replicas" else (WORKLOAD_GROUPS, {edit: 9})
        )
        stage.hub.edit(resource, "big", {"metadata": {"generation": 2}, "spec": spec})
        await stage.until(lambda: units(stage, "small") == 2, seconds=2)


async def test_a_restart_forgets_nobody(stage: Stage, file: Path) -> None:
    stage.cluster("a", cpu="10")
    async with stage.configured(file):
        await big_has_the_turn(stage)
    gang(stage, "small", 2)
    async with stage.configured(file, identity="two"):
        await stage.until(lambda: "kept for WorkloadGroup shop/big" in stage.says("small")[2])
        await stage.calm(20)
        assert units(stage, "small") == 0


async def test_what_does_not_fit_in_one_preferred_domain_goes_elsewhere(
    stage: Stage, file: Path
) -> None:
    zone = "topology.kubernetes.io/zone"
    for name, cpu in (("a", "5"), ("b", "4")):
        stage.cluster(name, cpu=cpu, **{zone: name})
    async with stage.configured(file):
        topology = {"topologyKey": zone, "mode": "Preferred"}
        gang(stage, "crew", 7, 4, topology=topology)
        await stage.until(lambda: stage.placed("crew") == {"a": 5, "b": 2}, seconds=10)


async def test_everybody_runs_though_gangs_hold_room_and_leaders_change(
    stage: Stage, file: Path
) -> None:
    """Gangs of all sizes on forty cpu; each that has its units ends after a while."""
    rng, coming = random.Random(7), [f"g{i}" for i in range(20)]
    wanted: dict[str, int] = {}
    ends: dict[str, float] = {}
    for name in "abcd":
        stage.cluster(name, cpu="10")

    def step(now: float) -> None:
        if coming and rng.random() < 0.2:
            name = coming.pop()
            wanted[name] = rng.choice([2, 3, 12, 20, 30, 38])
            gang(stage, name, wanted[name], scheduleTimeoutSeconds=15)
        for name in [n for n, least in wanted.items() if units(stage, n) == least]:
            ends[name] = now + rng.randint(10, 40)
            del wanted[name]
        for name in [n for n, at in ends.items() if at <= now]:
            end(stage, name)
            del ends[name]
        assert all(not units(stage, name) for name in wanted), "no half of a gang"

    for term in range(10):
        async with stage.configured(file, identity=f"term-{term}"):
            for _ in range(100):
                step(stage.clock.monotonic())
                await stage.calm(1)
        if not (coming or wanted or ends):
            return
    pytest.fail(f"they wait for ever: {[(n, stage.says(n)) for n in wanted]}")
