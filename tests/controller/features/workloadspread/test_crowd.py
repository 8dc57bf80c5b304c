"""Many spreads, and several processes: no cap is passed, no write is lost, nobody waits in line."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from machinery.api.resources import WORKLOAD_SPREADS, WORKLOADS
from machinery.errors import Conflict
from tests.controller.features.workloadspread.spreading import (
    adaptive,
    arranged,
    numbers,
    quiet,
    report,
    scale,
    spread,
    subset,
    told,
)
from tests.controller.memory import Stage


def crowd(number: int, *, cap: int = 3, **spec: Any) -> tuple[Stage, list[str]]:
    """So many Workloads, each with a spread of its own over the same two clusters."""
    stage = Stage()
    for pool in ("normal", "elastic"):
        stage.cluster(pool[0], cpu="4000", pods="9999", pool=pool)
    names = [f"w{n}" for n in range(number)]
    for name in names:
        pools = (subset("normal", cap), subset("elastic"))
        spread(stage, *pools, name=f"ws-{name}", target=name, **spec)
    return stage, names


class Watched:
    """Every state of the hub between two writes: whether a cap was passed in one of them."""

    def __init__(self, stage: Stage, cap: int) -> None:
        self.stage, self.cap = stage, cap
        self.conflicts = 0
        self.passed: list[str] = []
        self.wrong: list[str] = []
        stage.hub.after.append(self.looks)
        whole = stage.hub.request

        async def counts(method: str, path: str, **how: Any) -> bytes:
            try:
                return await whole(method, path, **how)
            except Conflict:
                self.conflicts += "/workloadspreads/" in path
                raise

        stage.hub.request = counts  # type: ignore[method-assign]

    async def looks(self, method: str, path: str, _body: Any) -> None:
        if method != "PATCH":
            return
        name = path.split("/")[-2]
        if path.endswith("/status") and "/workloads/" in path:
            placed = self.stage.placed(name)
            wanted = self.stage.hub.read(WORKLOADS, name)["spec"]["replicas"]
            if placed.get("n", 0) > self.cap or sum(placed.values()) > wanted:
                self.passed.append(f"{name}: {placed} of {wanted}")
        elif path.endswith("/status") and "/workloadspreads/" in path:
            told = numbers(self.stage, name)
            self.wrong += [f"{name}: {told}"] if told.get("normal", (0,))[0] > self.cap else []


def slow(stage: Stage, *seconds: float) -> None:
    """Writes of statuses take one of these times."""
    dice = random.Random(9)

    async def waits(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/status"):
            await stage.clock.sleep(dice.choice(seconds))

    stage.hub.faults.append(waits)


def settled(stage: Stage, names: list[str], each: int, cap: int = 3) -> bool:
    placed = {"n": min(each, cap), **({"e": each - cap} if each > cap else {})}
    return all(stage.placed(name) == placed for name in names)


@pytest.mark.proves("W19")
async def test_two_schedulers_at_once_assign_nothing_twice() -> None:
    """Both decide them all, as after a lease that was lost without anybody noticing."""
    stage, names = crowd(8)
    slow(stage, 0.0, 0.1, 0.3)
    watched = Watched(stage, 3)
    async with (
        stage.leading(identity="one", elect=False),
        stage.leading(identity="two", elect=False),
    ):
        for name in names:
            stage.workload(name, replicas=5, cpu="1m")
        await stage.until(lambda: settled(stage, names, 5), seconds=120)
        for name in names:
            report(stage, name, n=3, e=2)
            scale(stage, 7, name)
        await stage.until(lambda: settled(stage, names, 7), seconds=120)
        for name in names:
            report(stage, name, n=3, e=4)
        await stage.calm(10)
        assert watched.conflicts > 0, "they did meet"
        assert watched.passed == watched.wrong == []
        for name in names:
            assert numbers(stage, f"ws-{name}") == {"normal": (3, 0), "elastic": (4, -1)}
    assert not stage.hub.events("CreateFailed")


@pytest.mark.proves("W20")
async def test_one_spread_is_written_once_at_a_time_and_others_meanwhile() -> None:
    under_way: Counter[str] = Counter()
    most: Counter[str] = Counter()
    stage, names = crowd(3)

    async def watches(method: str, path: str, _body: Any) -> None:
        if method != "PATCH" or "/workloadspreads/" not in path:
            return
        under_way[path] += 1
        most["one"] = max(most["one"], under_way[path])
        most["all"] = max(most["all"], sum(1 for n in under_way.values() if n))
        try:
            await stage.clock.sleep(0.2)
        finally:
            under_way[path] -= 1

    stage.hub.faults.append(watches)
    for name in names:
        stage.workload(name, replicas=4, cpu="1m")
    async with stage.leading():
        for turn in range(4):
            for name in names:
                scale(stage, 4 + turn % 3, name)
                meddled = {"status": {"summary": f"x{turn}"}}
                stage.hub.edit(WORKLOAD_SPREADS, f"ws-{name}", meddled, status=True)
            await stage.calm(0.5)
    assert most["one"] == 1, "never two writes of one spread"
    assert most["all"] > 1, "different ones side by side"


@pytest.mark.proves("W20")
async def test_a_burst_of_reports_costs_one_write() -> None:
    stage = arranged()
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo"))
        await stage.calm(2)
        before = len(stage.hub.writes("/workloadspreads/ws/status"))
        for pods in range(60, 81):
            report(stage, n=pods)
            await asyncio.sleep(0)
        await stage.calm(5)
        assert numbers(stage)["normal"] == (80, 20)
        assert len(stage.hub.writes("/workloadspreads/ws/status")) - before <= 2


@pytest.mark.proves("W2", "W36")
async def test_the_books_touch_nothing_but_the_status_of_the_spread() -> None:
    stage = arranged(scheduleStrategy=adaptive(5, blind=True))
    stage.workload("demo", replicas=80, cpu="1m")
    async with stage.leading():
        await stage.until(lambda: stage.placed("demo"))
        generation = stage.hub.read(WORKLOADS, "demo")["metadata"]["generation"]
        report(stage, n=80)
        await quiet(stage, 120)
        assert stage.hub.read(WORKLOADS, "demo")["metadata"]["generation"] == generation
        assert stage.hub.read(WORKLOAD_SPREADS, "ws")["metadata"]["generation"] == 1
        written = {path for method, path, _ in stage.hub.requests if method in ("PATCH", "PUT")}
        ours = {path for path in written if "/namespaces/shop/" in path and "/events" not in path}
        assert all(path.endswith("/status") for path in ours), "no spec is written"
        stage.hub.remove(WORKLOAD_SPREADS, "ws")
        await stage.calm(20)
        assert stage.placed("demo") == {"n": 80}, "running shares stay"
        assert not told(stage, "DeleteFailed")
