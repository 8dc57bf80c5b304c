"""Shards whose processes are killed or cut off, whose members hang, and that write to one Workload."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from machinery.types.shards import owner
from propagator.settings import PropagatorSettings
from tests.propagator.fleet import MEMBERS, Fleet
from tests.propagator.memory import SPACE, STEP
from tests.propagator.test_one_shard import start, workload

CHANGES = 1000


@pytest.mark.proves("SC11")
async def test_a_workload_over_all_shards_loses_few_races(steady: None) -> None:
    """Numbers of replicas change on all members, sometimes of several shards in one moment."""
    given = random.Random(11)
    world = Fleet(*MEMBERS)
    async with world.shared(3, "a", "b", "c"):
        await start(world, **dict.fromkeys(MEMBERS, 9))
        since, world.lag = len(world.sent), 0.01
        ready = dict.fromkeys(MEMBERS, 9)
        for number in range(CHANGES):
            name = given.choice(MEMBERS)
            ready[name] = given.randint(0, 9)
            world.members[name].report("deployments", (SPACE, "web"), readyReplicas=ready[name])
            if number % 4 == 0:
                await world.clock.advance(given.expovariate(1 / STEP))
        await world.until(
            lambda: {e["name"]: e["ready"] for e in world.status("web")["clusters"]} == ready
        )
        path = WORKLOADS.path(SPACE, "web") + "/status"
        written = [(server, at) for server, at in world.written(since) if at == path]
        assert len(written) > 50
        assert world.lost.count(path) < 0.05 * len(written)
        assert all(each["replicas"] == 9 for each in world.status("web")["clusters"])


@pytest.mark.proves("SC7")
async def test_the_last_write_of_a_process_that_is_cut_off_lands_before_its_term_ends(
    steady: None,
) -> None:
    """Each write tells its server how long it may take: one that an admission webhook holds, too."""
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        world.put(WORKLOADS, workload("web"))
        for number in range(6):
            world.place("web", **dict.fromkeys(MEMBERS, 1 + number))
            await world.calm(1)
        since = {process: world.lands[-1:] and len(world.lands) for process in "ab"}
        cut = world.holder(1)
        world.cut.add(cut)
        for name in MEMBERS:  # each has its share repaired, again and again
            for _ in range(6):
                world.members[name].delete("deployments", (SPACE, "web"))
                await world.calm(0.5)
        after = [process for process, _ in world.lands[since[cut] or 0 :]]
        assert cut in after, "it goes on until its deadline"
        deadline = PropagatorSettings().renew_deadline
        assert max(seconds for _, seconds in world.lands) <= deadline + 0.001


@pytest.mark.proves("SC9")
async def test_a_shard_that_kills_its_holder_leaves_the_others_alone(steady: None) -> None:
    """As a memory limit does. Whoever holds it held none before, and holds no other beside it."""
    world = Fleet(*MEMBERS)
    async with world.shared(3, "a", "b", "c", "d", "e") as ends:
        terms = {shard: world.lease(shard)["spec"]["leaseTransitions"] for shard in (0, 2)}
        held = [world.holder(1)]
        for _ in range(2):
            world.cut.add(held[-1])  # a process that is killed releases nothing
            ending = asyncio.create_task(ends[held[-1]].aclose())
            await world.until(ending.done)
            del world.processes[held[-1]]
            await world.until(lambda: world.holder(1) not in (*held, ""))
            held.append(world.holder(1))
            await world.calm(5)
            for shard, term in terms.items():
                assert world.lease(shard)["spec"]["leaseTransitions"] == term
                assert world.holder(shard) not in held
        assert len(set(held)) == 3


@pytest.mark.proves("SC29")
async def test_a_member_that_hangs_and_floods_holds_up_neither_its_shard_nor_others(
    steady: None,
) -> None:
    names = [f"m{n}" for n in range(1, 9)]
    bad, *others = [n for n in names if owner(n, 2) == 0] + [n for n in names if owner(n, 2) == 1]
    world = Fleet(*names)
    world.shards(2)

    async def taken(replicas: int) -> dict[str, float]:
        """Seconds until each of the others has so many replicas."""
        for name in names:
            world.place(f"web-{name}", **{name: replicas})
        began, found = world.clock.monotonic(), dict[str, float]()
        while len(found) < len(others) and world.clock.monotonic() - began < 30:
            await world.clock.advance(STEP)
            for name in others:
                specs = [each["spec"]["replicas"] for each in world.deployments(name)]
                if specs == [replicas] and name not in found:
                    found[name] = world.clock.monotonic() - began
            if bad in world.hung:
                for number in range(100):
                    world.members[bad].tell("deployments", "MODIFIED", flood(number))
        return found

    def slowest(times: list[dict[str, float]], shard: int) -> float:
        """The second slowest of twenty or more: p95."""
        those = [t for each in times for name, t in each.items() if owner(name, 2) == shard]
        return sorted(those)[-2]

    async with world.running("a", "b"):
        await world.until(lambda: world.served(2))
        for name in names:
            world.put(WORKLOADS, workload(f"web-{name}"))
        await taken(1)
        await world.calm(5)
        before = [await taken(number) for number in range(2, 8)]
        world.hung.add(bad)
        after = [await taken(number) for number in range(8, 14)]
    assert all(each.keys() == set(others) for each in (*before, *after))
    assert slowest(after, 0) <= 2 * slowest(before, 0)
    assert slowest(after, 1) <= slowest(before, 1) + STEP


def flood(number: int) -> dict[str, Any]:
    """An object that a member says to have changed, again and again."""
    labels = {"stowage.dev/workload-uid": "u"}
    meta = {"name": f"f{number % 10}", "namespace": SPACE, "uid": "f", "labels": labels}
    meta["resourceVersion"] = str(10**9 + number)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {}}
