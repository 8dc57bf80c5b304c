"""A large set in a large fleet: decided in steps, true at the last one, and nobody else waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from controller.cache.assumed import PendingAffinity
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.model.unit import WorkloadInfo
from controller.scheduling import sets
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch, Others
from controller.snapshot.builder import SnapshotBuilder
from machinery.api.resources import WORKLOADS
from tests.controller.make import CLUSTER, NOW, REQUIRED, ZONE, beside, cluster, info
from tests.controller.memory import Stage

SET, FLEET = 20, 200


class View:
    """What decisions read, for tests that change it between two steps."""

    def __init__(self, cpus: list[str], units: list[WorkloadInfo]) -> None:
        self.builder, self.index = SnapshotBuilder(), PlacementIndex()
        self.pending_affinity, self.placed_affinity = PendingAffinity(units), PendingAffinity()
        self.info = {each.key: each for each in units}.get
        for number, cpu in enumerate(cpus):
            self.resize(f"m{number}", cpu)
        for each in units:
            self.index.put(each, {})

    def resize(self, name: str, cpu: str) -> None:
        free = {"cpu": cpu, "memory": "320Gi", "pods": "1100"}
        zone = {ZONE: f"z{int(name[1:]) % 10}"}
        self.builder.upsert(cluster(name, zone, groups=[{"count": 1, "free": free}]))

    def snapshot(self) -> Any:
        return self.builder.snapshot()

    def decide(
        self, asked: WorkloadInfo, *, between: Callable[[int], None] = lambda _: None, **others: Any
    ) -> tuple[Batch, int]:
        """The batch, and its number of steps."""
        profile = default_profile()
        profiles = {profile.scheduler_name: profile}
        steps = decide_set(cast("Any", self), asked, profiles, NOW, others=Others(**others))
        number = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                batch: Batch = end.value
                return batch, number
            number += 1
            between(number)


def ring(size: int, *, key: str = CLUSTER) -> list[WorkloadInfo]:
    """Each requires the next one."""
    return [
        info(
            f"w{n}",
            replicas=1,
            workloadAffinity={REQUIRED: [beside(f"w{(n + 1) % size}", key)]},
        )
        for n in range(size)
    ]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Decisions on one of a set, to be counted step by step."""
    counts, decide = [0], sets.decide

    def counted(*about: object) -> object:
        counts[-1] += 1
        return decide(*about)  # type: ignore[arg-type]

    monkeypatch.setattr(sets, "decide", counted)
    return counts


@pytest.mark.proves("L7")
@pytest.mark.parametrize("key", [CLUSTER, ZONE])
@pytest.mark.parametrize("room", ["100", "1"])
def test_fifty_in_a_fleet_take_short_steps_linear_in_the_set(
    passes: list[int], key: str, room: str
) -> None:
    units = ring(SET, key=key)
    view = View([room] * FLEET, units)
    batch, steps = view.decide(units[0], between=lambda _: passes.append(0))
    assert len(batch.decisions) == SET
    assert all(each.scheduled for each in batch.decisions) == (room == "100" or key == ZONE)
    assert max(passes) <= 2
    assert steps < 12 * SET


@pytest.mark.proves("L7")
def test_room_that_goes_between_two_steps_is_not_given_away() -> None:
    units = ring(3)
    view = View(["2", "8", "4"], units)

    def shrink(number: int) -> None:
        if number == 4:
            view.resize("m0", "0")

    batch, _ = view.decide(units[0], between=shrink)
    assert {tuple(each.placements) for each in batch.decisions} == {("m1",)}
    assert all(each.scheduled for each in batch.decisions)


@pytest.mark.proves("L7")
def test_a_world_that_never_rests_does_not_keep_a_set_from_its_place() -> None:
    units = ring(3)
    view = View(["2", "8", "4"], units)

    def heartbeat(number: int) -> None:
        view.resize("m2", str(4 + number % 2))

    batch, _ = view.decide(units[0], between=heartbeat)
    assert {tuple(each.placements) for each in batch.decisions} == {("m0",)}


@pytest.mark.proves("L7")
def test_a_refusal_that_was_overtaken_says_so() -> None:
    units = ring(3)
    view = View(["0", "0"], units)
    calm, _ = view.decide(units[0])
    assert not calm.moved
    batch, _ = view.decide(units[0], between=lambda _: view.resize("m0", "8"))
    assert batch.moved or batch.decisions[0].scheduled


@pytest.mark.proves("L7")
def test_one_that_was_edited_meanwhile_is_not_decided_on_its_old_words() -> None:
    units = ring(2)
    view = View(["8"], units)
    batch, _ = view.decide(units[0], current=lambda info: info.name != "w1")
    assert [each.workload.name for each in batch.decisions] == ["w0"]
    assert not batch.decisions[0].scheduled


@pytest.mark.proves("L7")
def test_a_set_that_is_being_decided_is_announced_before_its_first_step() -> None:
    units = ring(2)
    view = View(["8"], units)
    begun: list[Any] = []
    batch, _ = view.decide(units[0], begin=begun.append)
    assert begun == [[("shop", "w0"), ("shop", "w1")]]
    assert len(batch.decisions) == 2


@pytest.mark.proves("L7", "C18")
async def test_live_a_large_set_is_placed_and_the_loop_goes_on() -> None:
    stage = Stage()
    for number in range(40):
        stage.cluster(f"m{number}", cpu="8")
    names = [f"w{n:02}" for n in range(20)]
    for number, name in enumerate(names):
        after = names[(number + 1) % len(names)]
        affinity = {REQUIRED: [beside(after)]}
        stage.workload(name, replicas=1, cpu="100m", workloadAffinity=affinity)
    turns, over = 0, False

    async def others() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    try:
        async with stage.leading():
            await stage.until(lambda: all(map(stage.placed, names)))
    finally:
        over = True
        await running
    assert len({tuple(stage.placed(name)) for name in names}) == 1
    assert turns > 10
    written = [path for _, path, _ in stage.hub.writes("/status") if "/workloads/" in path]
    assert len(written) <= 2 * len(names)
    assert WORKLOADS.path("shop", "w00", "status") in written


@pytest.mark.proves("L13")
async def test_each_of_a_set_is_looked_at_again_at_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of a set by name has nothing to learn; the other one has, every five seconds."""
    stage = Stage("a")
    for name, other in (("back", "front"), ("front", "back")):
        stage.workload(name, workloadAffinity={REQUIRED: [beside(other)]})
    looks: list[str] = []

    def next_look(_profile: Any, info: WorkloadInfo, _now: Any) -> float | None:
        looks.append(info.name)
        return 5.0 if info.name == "front" else None

    monkeypatch.setattr("controller.framework.runtime.framework.next_look", next_look)
    async with stage.leading():
        await stage.until(lambda: stage.placed("front") and stage.placed("back"))
        await stage.calm(1)  # whoever came meanwhile has had its turn
        looks.clear()
        await stage.calm(11)
        assert looks == ["front", "front"]


@pytest.mark.proves("L7")
def test_nothing_is_decided_while_another_of_the_set_is_being_decided() -> None:
    units = ring(3)
    view = View(["8"], units)
    with_w1 = {"busy": lambda key: key[1] == "w1"}
    batch, _ = view.decide(units[0], **with_w1, deciding=lambda key: key[1] == "w1")
    assert (batch.decisions, batch.busy) == ([], {("shop", "w1")})
    batch, _ = view.decide(units[0], **with_w1)
    assert [each.scheduled for each in batch.decisions] == [False]
