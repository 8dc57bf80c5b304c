"""A noisy tenant of each sort beside a quiet one: what the quiet one waits for is counted.

Times with and without the noise are measured in one run and printed; noise and controller share
this process and its loop, so they are the worst case, and nothing is asserted of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from statistics import median
from typing import Any

import pytest

from machinery.errors import ApiError
from machinery.runtime import fair_queue
from machinery.runtime.heap import HeapEntry
from machinery.types.metadata import Key

from .live import World, deciding, deployment

LOOPED = 60
ROUNDS = 3
NOISY = "noisy"


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many keys of others were handed out between a quiet key's arrival and its turn."""
    between: dict[str, int] = {}
    waiting: dict[Key, int] = {}
    put, take, handed_out = fair_queue.Flows.put, fair_queue.Flows.take, [0]

    def putting(self: Any, entry: HeapEntry[Any]) -> None:
        if isinstance(entry.key, tuple) and entry.key[0] == "shop" and not self.get(entry.key):
            waiting.setdefault(entry.key, handed_out[0])
        put(self, entry)

    def taking(self: Any) -> Any:
        entry = take(self)
        if entry is not None and isinstance(entry.key, tuple):
            if entry.key[0] == "shop":
                passed = handed_out[0] - waiting.pop(entry.key, handed_out[0])
                between[entry.key[1]] = max(passed, between.get(entry.key[1], 0))
            handed_out[0] += entry.key[0] == NOISY
        return entry

    monkeypatch.setattr(fair_queue.Flows, "put", putting)
    monkeypatch.setattr(fair_queue.Flows, "take", taking)
    return between


async def placing(world: World, prefix: str) -> float:
    """Seconds until a Workload of the quiet tenant has its clusters: the median of some."""
    took = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        await world.workload(f"{prefix}-{number}", replicas=2, distribution="Divided")
        await world.placed(f"{prefix}-{number}", seconds=60)
        took.append(time.perf_counter() - started)
    return median(took)


@asynccontextmanager
async def noise(edit: Callable[[int], Awaitable[None]], *, loops: int = 6) -> AsyncIterator[None]:
    """Edits in a loop until the block ends."""

    async def loop(first: int) -> None:
        number = first
        while True:
            with suppress(ApiError):
                await edit(number)
            number += loops

    tasks = [asyncio.create_task(loop(n)) for n in range(loops)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.long
@pytest.mark.proves("S2")
async def test_one_tenant_costs_only_itself(
    world: World, line: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("m1", "m2", "m3"):
        await world.cluster(name, cpu="4000", memory="4000Gi", pods="5000")
    noisy = await world.space(NOISY)
    template = deployment("large", "1m")
    variables = [{"name": f"V{n}", "value": "x" * 60} for n in range(3000)]
    template["spec"]["template"]["spec"]["containers"][0]["env"] = variables
    absurd = deployment("absurd", "9E")
    await asyncio.gather(*(noisy.workload(f"looped-{n}", priority=1000) for n in range(LOOPED)))
    await noisy.workload("large", targetDeployment=template, distribution="Divided")
    await noisy.workload("absurd", targetDeployment=absurd, replicas=2**31 - 1)
    await noisy.workload("external", schedulerName="somebody-else")
    shares = [{"cluster": f"c-{n:05}", "replicas": 2**31 - 1} for n in range(10_000)]

    async def looped(number: int) -> None:
        await noisy.edit(f"looped-{number % LOOPED}", {"spec": {"replicas": number % 5}})

    async def large(number: int) -> None:
        await noisy.edit("large", {"spec": {"replicas": number % 50}})

    async def extremes(number: int) -> None:
        await noisy.edit("absurd", {"spec": {"priority": number % 100}})
        told = shares[: 9000 + number % 1000]
        await noisy.edit("external", {"status": {"placements": told}}, status=True)

    told = []
    async with deciding(world):
        await world.settle()
        alone = await placing(world, "alone")
        for what, edit, loops in (
            (f"{LOOPED} Workloads edited in a loop", looped, 6),
            ("a template of 300 KB edited in a loop", large, 1),
            ("requests of 9E, 10,000 placements of 2**31-1 units", extremes, 1),
        ):
            async with noise(edit, loops=loops):
                beside = await placing(world, f"beside-{edit.__name__}")
            told.append(f"{what}: placed in {beside:.3f} s, alone {alone:.3f} s")
        refused = await noisy.refused("absurd", "InvalidWorkload")
    with capsys.disabled():
        print("\n" + "\n".join(told))
        print(f"keys of the noisy tenant that went before one of the quiet: {max(line.values())}")
    assert "more than any node offers" in refused["message"]
    assert max(line.values()) <= fair_queue.TURN_SECONDS / fair_queue.LEAST_SECONDS / 10, line
