"""Several processes that share out the members, between a hub and members in memory."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from itertools import pairwise
from typing import Any, cast

import pytest

from crds.groups.gate import decision_of
from crds.names import LABEL_GROUP, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CONFIG_MAPS,
    LEASES,
    MEMBER_CLUSTERS,
    WORKLOAD_GROUPS,
    WORKLOADS,
)
from machinery.errors import Conflict
from machinery.types import conditions
from machinery.types.shards import lease_name, owner
from propagator.app import Propagator
from propagator.groups.starting import Contacts, Starting
from propagator.settings import PropagatorSettings
from propagator.shards.membership import OneShard
from stowage.setup.rename import Rename, rename
from tests.propagator.contexts import Context
from tests.propagator.memory import PROCESS, SPACE, STEP, World
from tests.propagator.test_one_shard import runs, workload

MEMBERS = tuple(f"m{n}" for n in range(1, 5))
ALL = dict.fromkeys(MEMBERS, 1)


class Fleet(World):
    """A hub, members and processes, which a test begins and ends."""

    def __init__(self, *members: str) -> None:
        super().__init__(*members)
        self.processes: dict[str, Propagator] = {}
        self.lag = 0.0
        """Seconds that the hub takes for a write of a status."""
        self.lost: list[str] = []
        """The paths of writes that lost a race."""
        self.renewed: dict[str, float] = {}
        """When the last renewal of each process began."""
        self.lands: list[tuple[str, float]] = []
        """The process of each write of a term, and how long after that it may still land."""

    async def _attempt(self, client: ApiClient, call: Any, token: str | None) -> bytes:
        began, process = self.clock.monotonic(), PROCESS.get()
        if call.method != "GET" and client._before_write is not None:
            left = int(client._ending(call).query["timeout"].removesuffix("ms")) / 1000
            self.lands.append((process, began + left - self.renewed[process]))
        answer = await super()._attempt(client, call, token)
        if call.method != "GET" and LEASES.path(SYSTEM_NAMESPACE) in call.url.path:
            self.renewed[process] = began
        return answer

    async def _of_hub(self, method: str, url: Any, body: Any) -> bytes:
        if self.lag and method == "PATCH" and url.path.endswith("/status"):
            await self.clock.sleep(self.lag)
        try:
            return await super()._of_hub(method, url, body)
        except Conflict:
            self.lost.append(url.path)
            raise

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

    def written(self, since: int = 0) -> list[tuple[str, str]]:
        """Server and path of each write but those of Leases, and what is only tried."""
        return [
            (server, path.partition("?")[0])
            for server, method, path, _, _ in self.sent[since:]
            if method not in ("GET", "WATCH") and "/leases/" not in path and "dryRun" not in path
        ]

    async def calm(self, seconds: float) -> None:
        """Let time pass, and see that no two processes may write to one member."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self.clock.advance(STEP)
            for name in self.members:
                assert len(self.serving(name)) < 2, name
            for name, process in self.processes.items():
                electors = process._election._electors.values()
                assert sum(each.leading for each in electors) < 2, name

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


def gang(world: Fleet, *members: str) -> None:
    """One Workload on these members, whose group has released it."""
    world.put(WORKLOADS, workload("web"))
    label = {"metadata": {"labels": {LABEL_GROUP: "batch"}}}
    world.hub.edit(WORKLOADS, "web", label)
    placed = dict.fromkeys(members, 1)
    world.place("web", **placed)
    meta = {"name": "batch", "namespace": SPACE}
    kind = {"apiVersion": WORKLOAD_GROUPS.api_version, "kind": WORKLOAD_GROUPS.kind}
    world.put(WORKLOAD_GROUPS, {**kind, "metadata": meta, "spec": {"minMember": len(members)}})
    uid = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
    status = {"gate": "Open", "decisions": {uid: decision_of(placed)}}
    world.hub.edit(WORKLOAD_GROUPS, "batch", {"status": status}, status=True)


def reached(world: Fleet) -> dict[str, str]:
    found: dict[str, str] = world.hub.read(WORKLOAD_GROUPS, "batch")["status"].get("reached", {})
    return found


@pytest.mark.proves("SC16")
async def test_a_gang_over_three_shards_starts_once_each_of_them_is_held(steady: None) -> None:
    names = [next(f"m{n}" for n in range(99) if owner(f"m{n}", 3) == shard) for shard in range(3)]
    world = Fleet(*names)
    world.shards(3)
    async with world.running("a", "b", "c") as ends:
        await world.until(lambda: world.served(3))
        await ends[world.holder(1)].aclose()
        gang(world, *names)
        await world.calm(30)
        assert not any(map(world.deployments, names))
        assert "1" not in reached(world)
        async with world.running("d"):
            for _ in range(600):
                await world.calm(STEP)
                assert len(reached(world)) == 3 or not any(map(world.deployments, names))
                if all(map(world.deployments, names)):
                    break
            assert set(reached(world)) == {"0", "1", "2"}
            assert len({*reached(world).values()}) == 3, "each names its own term"


@pytest.mark.proves("SC16")
def test_what_a_former_holder_of_a_shard_told_starts_no_gang() -> None:
    """Nor what was told of other decisions, or by another number of shards."""

    class Three(OneShard):
        several, shards = True, 3
        terms = dict.fromkeys(range(3), 7)

        def owner(self, member: str) -> int:
            return owner(member, self.shards)

        def term(self, shard: int) -> int:
            return self.terms[shard]

    shards = Three()
    contacts = Contacts(cast("Any", Context(membership=shards, clock=None)))
    mine = next(n for n in MEMBERS if shards.owner(n) == 0)
    starting = Starting({"u": "d"}, {mine, *MEMBERS}, 0.0)
    told = {str(each): contacts.reach(starting, each) for each in range(3)}
    others = {shards.owner(name) for name in MEMBERS}
    assert contacts.awaited(starting, told) == set()
    assert contacts.awaited(starting, {}) == others
    assert contacts.awaited(Starting({"u": "d"}, {mine}, 0.0), {}) == set(), "its own alone"
    assert contacts.awaited(Starting({"u": "e"}, {*MEMBERS}, 0.0), told) == others
    shards.terms[max(others)] += 1
    assert contacts.awaited(starting, told) == {max(others)}
    shards.shards = 2
    now = {shards.owner(name) for name in MEMBERS}
    assert contacts.awaited(starting, told) == now


def renamed(world: Fleet, old: str, new: str) -> None:
    """As the controller does with each Workload once the old MemberCluster is gone, in one write."""
    there = {each["metadata"]["name"] for each in world.hub.all(MEMBER_CLUSTERS)}
    status = world.status("web")
    if old in there or new not in there or old not in json.dumps(status):
        return
    footprint = status.get("footprint") or {}
    patch = {
        "placements": [{**each, "cluster": new} for each in status["placements"]],
        "clusters": [{**each, "name": new} for each in status["clusters"]],
        "footprint": json.loads(json.dumps(footprint).replace(old, new)),
    }
    world.hub.edit(WORKLOADS, "web", {"status": patch}, status=True)


@pytest.mark.proves("SC20")
async def test_a_member_with_a_new_name_of_another_shard_stays_as_it_is(steady: None) -> None:
    old = next(f"oslo-{n}" for n in range(99) if owner(f"oslo-{n}", 2) == 0)
    new = next(f"rome-{n}" for n in range(99) if owner(f"rome-{n}", 2) == 1)
    world = Fleet(old)
    world.shards(2)
    async with world.running("a", "b"):
        await world.until(lambda: world.served(2))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **{old: 2})
        await world.until(lambda: runs(world, "web", **{old: 2}))
        await world.calm(5)
        kinds = ("deployments", "configmaps")
        before = {kind: deepcopy(world.members[old].objects[kind]) for kind in kinds}
        since = len(world.sent)
        plan = Rename(old=old, new=new, namespace=SYSTEM_NAMESPACE)
        renaming = asyncio.create_task(rename(cast("Any", world.hub), plan, say=lambda _: None))
        while not renaming.done():
            await world.calm(STEP)
            await asyncio.sleep(0.02)  # the command waits by the clock of its machine
            renamed(world, old, new)
        await renaming
        await world.calm(20)
        assert runs(world, "web", **{new: 2})
        assert world.cluster(new)["shard"] == 1
        assert {kind: world.members[old].objects[kind] for kind in kinds} == before
        written = [path for server, path in world.written(since) if server == old]
        assert not written, "nothing but the Lease of the hub"


CHANGES = 1000


@pytest.mark.proves("SC11")
async def test_a_workload_over_all_shards_loses_few_races(steady: None) -> None:
    """Numbers of replicas change on all members, sometimes of several shards in one moment."""
    given = random.Random(11)
    world = Fleet(*MEMBERS)
    world.shards(3)
    async with world.running("a", "b", "c"):
        await world.until(lambda: world.served(3))
        world.put(WORKLOADS, workload("web"))
        world.place("web", **dict.fromkeys(MEMBERS, 9))
        await world.until(lambda: runs(world, "web", **dict.fromkeys(MEMBERS, 9)))
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
    world.shards(2)
    async with world.running("a", "b"):
        await world.until(lambda: world.served(2))
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
    world.shards(3)
    async with world.running("a", "b", "c", "d", "e") as ends:
        await world.until(lambda: world.served(3))
        terms = {shard: world.lease(shard)["spec"]["leaseTransitions"] for shard in (0, 2)}
        held = [world.holder(1)]
        for _ in range(2):
            world.cut.add(held[-1])  # a process that is killed releases nothing
            await ends[held[-1]].aclose()
            del world.processes[held[-1]]
            await world.until(lambda: world.holder(1) not in (*held, ""))
            held.append(world.holder(1))
            await world.calm(5)
            for shard, term in terms.items():
                assert world.lease(shard)["spec"]["leaseTransitions"] == term
                assert world.holder(shard) not in held
        assert len(set(held)) == 3
