"""Several processes that share out the members, between a hub and members in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import CONFIG_MAPS, LEASES, WORKLOADS
from machinery.types import conditions
from machinery.types.shards import lease_name, owner
from propagator.app import Propagator
from tests.propagator.memory import STEP, World
from tests.propagator.test_one_shard import runs, workload

MEMBERS = tuple(f"m{n}" for n in range(1, 5))
ALL = dict.fromkeys(MEMBERS, 1)


class Fleet(World):
    """A hub, members and processes, which a test begins and ends."""

    def __init__(self, *members: str) -> None:
        super().__init__(*members)
        self.processes: dict[str, Propagator] = {}

    def shards(self, number: Any) -> None:
        meta = {"name": "stowage-propagator", "namespace": SYSTEM_NAMESPACE}
        data = {"data": {"shards": str(number)}}
        if any(each["metadata"]["name"] == meta["name"] for each in self.hub.all(CONFIG_MAPS)):
            self.hub.edit(CONFIG_MAPS, meta["name"], data, namespace=SYSTEM_NAMESPACE)
        else:
            self.put(
                CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta} | data
            )

    def lease(self, shard: int) -> dict[str, Any]:
        return self.hub.read(LEASES, lease_name(shard), SYSTEM_NAMESPACE)

    def holder(self, shard: int) -> str:
        try:
            return self.lease(shard)["spec"].get("holderIdentity") or ""
        except KeyError:
            return ""

    def served(self, shards: int) -> bool:
        """Whether each member is Ready, and told to be served by its shard."""
        told = {name: self.cluster(name) for name in self.members}
        ready = all(conditions.holds(each, "Ready") for each in told.values())
        theirs = {n: None if shards == 1 else owner(n, shards) for n in told}
        return ready and {name: each.get("shard") for name, each in told.items()} == theirs

    def held(self, shards: int) -> bool:
        return all(self.holder(each) for each in range(shards))

    def writers(self) -> dict[str, list[str]]:
        """By member, the shards and terms of its writes in order, each once in a row."""
        found: dict[str, list[str]] = {name: [] for name in self.members}
        for server, method, _, agent, _ in self.sent:
            if server in found and method not in ("GET", "WATCH"):
                words = [word for word in agent.split() if word.startswith(("shard/", "term/"))]
                if found[server][-1:] != [" ".join(words)]:
                    found[server].append(" ".join(words))
        return found

    def written(self) -> list[tuple[str, str]]:
        """Server and path of each write but those of Leases, and what is only tried."""
        return [
            (server, path.partition("?")[0])
            for server, method, path, _, _ in self.sent
            if method not in ("GET", "WATCH") and "/leases/" not in path and "dryRun" not in path
        ]

    async def calm(self, seconds: float) -> None:
        """Let time pass, and see that no two processes may write to one member."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self.clock.advance(STEP)
            for name in self.members:
                assert len(self.serving(name)) < 2, name

    def serving(self, member: str) -> list[str]:
        """The processes that have a session with the member, and the right to write."""
        terms = ((name, process.term) for name, process in self.processes.items())
        held = [(n, t.registry.get(member)) for n, t in terms if t is not None]
        leads = {n for n, each in self.processes.items() if each._election.elector.leading}
        return [n for n, session in held if session is not None and n in leads]

    @asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[dict[str, AsyncExitStack]]:
        """Yield what ends each process, by its name."""
        async with AsyncExitStack() as all_of_them:
            ends = {}
            for name in names:
                ends[name] = await all_of_them.enter_async_context(AsyncExitStack())
                process = await ends[name].enter_async_context(self.propagating(name))
                self.processes[name] = process
            yield ends


@pytest.mark.proves("SC2")
async def test_each_member_is_served_by_its_shard_alone(steady: None) -> None:
    world = Fleet(*MEMBERS)
    world.shards(3)
    async with world.running("a", "b", "c", "d"):
        await world.until(lambda: world.served(3))
        assert len({world.holder(shard) for shard in range(3)}) == 3
        world.put(WORKLOADS, workload("web"))
        world.place("web", **ALL)
        await world.until(lambda: runs(world, "web", **ALL))
        for name, marks in world.writers().items():
            assert marks == [f"shard/{owner(name, 3)} term/1"]
        for shard in range(3):
            said = world.lease(shard)["metadata"]["annotations"]
            assert (said["stowage.dev/shards"], said["stowage.dev/reported"]) == ("3", "1")


@pytest.mark.proves("SC5", "SC19", "SC31")
async def test_members_change_their_shard_with_the_number(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.running("a", "b", "c"):
        await world.until(lambda: world.served(1))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **ALL)
        await world.until(lambda: runs(world, "web", **ALL))
        for number in (3, 2, 1):
            world.shards(number)
            await world.until(lambda number=number: world.served(number) and world.held(number))
            edit = {"spec": {"suspend": None, "manifests": []}}
            world.hub.edit(WORKLOADS, "web", edit)
            await world.calm(3)
        annotations = world.lease(0)["metadata"]["annotations"]
        assert "stowage.dev/shards" not in annotations
        assert "stowage.dev/reported" not in annotations
        for name, marks in world.writers().items():
            assert marks.count("") <= 2, "before there were several, and after"
            (lease,) = world.members[name].objects["leases"].values()
            assert "stowage.dev/shard" not in lease["metadata"].get("annotations", {})
        numbers = (1, 3, 2, 1)
        wanted = {
            (name, f"served by shard {owner(name, of)} of {of}, before by shard {was}")
            for name in MEMBERS
            for before, of in pairwise(numbers)
            if (was := owner(name, before)) != owner(name, of)
        }
        await world.calm(3)
        told = world.hub.events("ShardChanged")
        assert {(each["regarding"]["name"], each["note"]) for each in told} == wanted


@pytest.mark.proves("SC22", "SC27")
async def test_a_spare_takes_the_shard_of_a_process_that_ends(steady: None) -> None:
    """No member changes its shard, and nothing is written for members of other shards."""
    world = Fleet(*MEMBERS)
    world.shards(2)
    async with world.running("a", "b", "c") as ends:
        await world.until(lambda: world.served(2))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **ALL)
        await world.until(lambda: runs(world, "web", **ALL))
        await world.calm(12)
        old, other = world.holder(1), world.holder(0)
        world.sent.clear()
        await ends[old].aclose()
        await world.until(lambda: world.holder(1) not in ("", old))
        await world.calm(12)
        assert world.served(2)
        assert world.holder(0) == other
        assert world.lease(1)["spec"]["leaseTransitions"] == 2
        assert runs(world, "web", **ALL)
        assert not world.written()


@pytest.mark.proves("SC3", "SC4")
async def test_another_serves_the_members_of_a_process_that_is_cut_off(steady: None) -> None:
    world = Fleet(*MEMBERS)
    world.shards(2)
    async with world.running("a", "b", "c"):
        await world.until(lambda: world.served(2))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **ALL)
        await world.until(lambda: runs(world, "web", **ALL))
        old, others = world.holder(1), [n for n in MEMBERS if owner(n, 2) == 0]
        before = {name: world.writers()[name] for name in others}
        world.cut.add(old)
        twice = dict.fromkeys(MEMBERS, 2)
        world.place("web", **twice)
        began = world.clock.monotonic()
        while not runs(world, "web", **twice):
            await world.calm(1)
            assert world.clock.monotonic() - began < 25, "10 s of the Lease, and what follows"
        world.cut.discard(old)
        await world.calm(30)
        assert world.holder(1) not in ("", old)
        for name, marks in world.writers().items():
            terms = ["shard/0 term/1"] if name in before else ["shard/1 term/1", "shard/1 term/2"]
            assert marks == terms


@pytest.mark.long
@pytest.mark.proves("SC6")
async def test_the_number_changes_twice_while_a_process_is_cut_off(steady: None) -> None:
    world = Fleet(*MEMBERS)
    world.shards(3)
    async with world.running("a", "b", "c", "d", "e", "f"):
        await world.until(lambda: world.served(3))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **ALL)
        await world.until(lambda: runs(world, "web", **ALL))
        world.cut.add(world.holder(1))
        for number in (5, 3, 4):
            world.shards(number)
            world.place("web", **dict.fromkeys(MEMBERS, number))
            await world.calm(1)
        world.cut.clear()
        await world.calm(40)
        assert world.served(4)
        assert runs(world, "web", **dict.fromkeys(MEMBERS, 4))
        assert all(len(world.serving(name)) == 1 for name in MEMBERS)


@pytest.mark.proves("SC10")
async def test_a_number_that_is_none_changes_nothing(steady: None) -> None:
    world = Fleet(*MEMBERS)
    world.shards(2)
    async with world.running("a", "b"):
        await world.until(lambda: world.served(2))
        for said in ("x", "0", "65", ""):
            world.shards(said)
            await world.calm(3)
            assert world.served(2)
        world.hub.remove(CONFIG_MAPS, "stowage-propagator", SYSTEM_NAMESPACE)
        await world.calm(3)
        assert world.served(2)


@pytest.mark.proves("SC18")
async def test_one_cluster_under_two_names_of_two_shards_is_served_once(steady: None) -> None:
    one, two = (next(n for n in MEMBERS if owner(n, 2) == shard) for shard in (0, 1))
    world = Fleet(one, two)
    world.same[two] = one
    world.shards(2)

    def reason(name: str) -> str:
        return str(conditions.find(world.cluster(name), "Ready").get("reason"))

    async with world.running("a", "b"):
        await world.until(lambda: {reason(one), reason(two)} == {"Connected", "AlreadyRegistered"})
        world.put(WORKLOADS, workload("web"))
        world.place("web", **{one: 1, two: 1})
        await world.calm(30)
        assert {reason(one), reason(two)} == {"Connected", "AlreadyRegistered"}
        assert len([name for name in (one, two) if world.deployments(name)]) == 1


@pytest.mark.proves("SC17")
async def test_the_shard_of_the_last_member_ends_a_workload(steady: None) -> None:
    world = Fleet(*MEMBERS)
    world.shards(3)
    async with world.running("a", "b", "c"):
        await world.until(lambda: world.served(3))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **ALL)
        await world.until(lambda: runs(world, "web", **ALL))
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not any(map(world.deployments, MEMBERS))


@pytest.mark.proves("SC13")
async def test_a_share_leaves_once_another_shard_tells_that_its_successor_runs(
    steady: None,
) -> None:
    world = Fleet(*MEMBERS)
    world.shards(2)
    here, there = (next(n for n in MEMBERS if owner(n, 2) == shard) for shard in (0, 1))
    async with world.running("a", "b"):
        await world.until(lambda: world.served(2))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **{here: 3})
        await world.until(lambda: runs(world, "web", **{here: 3}))
        world.place("web", **{there: 3})
        await world.until(lambda: runs(world, "web", **{there: 3}))
        assert not world.deployments(here)


@pytest.mark.proves("SC13")
async def test_a_share_stays_while_nobody_tells_that_its_successor_runs(steady: None) -> None:
    world = Fleet(*MEMBERS)
    world.shards(2)
    async with world.running("a", "b") as ends:
        await world.until(lambda: world.served(2))
        here = next(n for n in MEMBERS if world.cluster(n)["shard"] == 0)
        there = next(n for n in MEMBERS if world.cluster(n)["shard"] == 1)
        world.put(WORKLOADS, workload("web"))
        world.place("web", **{here: 3})
        await world.until(lambda: runs(world, "web", **{here: 3}))
        await ends[world.holder(1)].aclose()
        world.place("web", **{there: 3})
        await world.calm(40)
        assert world.deployments(here)
        assert not conditions.holds(world.status("web"), "Ready")
