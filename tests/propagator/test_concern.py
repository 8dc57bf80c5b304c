"""Of several shards each keeps whole what concerns its members, and of other Workloads UID and key."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from benchmarks.memory import running
from crds.names import LABEL_GROUP
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS
from machinery.config.kubeconfig import Connection
from machinery.types.shards import owner
from propagator.hub.workloads import HubWorkloads
from propagator.removal.deletions import DeletionBrake
from propagator.shards.concern import Concern
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context
from tests.propagator.fleet import MEMBERS, Fleet
from tests.propagator.memory import SPACE
from tests.propagator.test_one_shard import runs, workload

MANY = 3000
WORKLOAD_BYTES = 400


def workloads_of(world: Fleet, process: str) -> HubWorkloads:
    term = world.processes[process].term
    assert term is not None
    return term.workloads._workloads


def whole(world: Fleet, process: str) -> set[str]:
    return {each.metadata.name for each in workloads_of(world, process).informer.values()}


def names_of(shard: int, shards: int, members: Iterable[str] = MEMBERS) -> set[str]:
    return {f"on-{each}" for each in members if owner(each, shards) == shard}


def placed(world: Fleet, members: Iterable[str] = MEMBERS) -> None:
    """One Workload on each member, `on-m1`."""
    for each in members:
        world.put(WORKLOADS, workload(f"on-{each}"))
        world.place(f"on-{each}", **{each: 1})


def all_run(world: Fleet) -> bool:
    return all(runs(world, f"on-{each}", **{each: 1}) for each in MEMBERS)


@pytest.mark.proves("SC25")
async def test_each_shard_keeps_whole_what_its_members_have(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        placed(world)
        await world.until(lambda: all_run(world))
        uids = {each["metadata"]["uid"] for each in world.hub.all(WORKLOADS)}
        for shard in range(2):
            process = world.holder(shard)
            assert whole(world, process) == names_of(shard, 2)
            assert all(map(workloads_of(world, process).known, uids))
        moved = next(each for each in MEMBERS if owner(each, 2) != owner("m1", 2))
        world.place("on-m1", **{moved: 2})
        await world.until(lambda: runs(world, "on-m1", **{moved: 2}))
        await world.until(
            lambda: not world.members["m1"].objects["deployments"].get((SPACE, "on-m1"))
        )
        await world.calm(3)
        assert "on-m1" not in whole(world, world.holder(owner("m1", 2)))
        assert "on-m1" in whole(world, world.holder(owner(moved, 2)))
        gone = uid_of(world, f"on-{moved}")
        world.delete(f"on-{moved}")
        await world.until(lambda: len(world.hub.all(WORKLOADS)) == len(MEMBERS) - 1)
        await world.calm(3)
        assert not any(workloads_of(world, each).known(gone) for each in "ab")


def uid_of(world: Fleet, name: str) -> str:
    return str(world.hub.read(WORKLOADS, name)["metadata"]["uid"])


@pytest.mark.proves("SC25")
async def test_another_number_of_shards_is_read_before_it_is_announced(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b", "c"):
        placed(world)
        await world.until(lambda: all_run(world))
        before = world.written()
        for number in (3, 1, 2, 3):
            world.shards(number)
            await world.until(lambda n=number: world.served(n) and world.held(n))
            await world.calm(5)
            for shard in range(number) if number > 1 else ():
                assert whole(world, world.holder(shard)) == names_of(shard, number)
        assert len(whole(world, world.holder(0))) < len(MEMBERS)
        now = [each for each in world.written()[len(before) :] if each[0] != "hub"]
        assert not now, "nothing on a member is written for it"


class Slow(Fleet):
    """A hub whose lists of Workloads take that long."""

    seconds = 0.0

    async def _of_hub(self, method: str, url: Any, body: Any) -> bytes:
        if self.seconds and method == "GET" and url.path.endswith("/workloads"):
            await self.clock.sleep(self.seconds)
        return await super()._of_hub(method, url, body)


@pytest.mark.proves("SC25", "SC5")
async def test_members_are_served_as_before_while_the_workloads_of_others_are_read(
    steady: None,
) -> None:
    world = Slow(*MEMBERS)
    async with world.shared(2, "a", "b", "c"):
        placed(world)
        await world.until(lambda: all_run(world))
        world.seconds = 20.0
        world.shards(3)
        await world.calm(5)
        for each in MEMBERS:
            world.place(f"on-{each}", **{each: 2})
        await world.until(
            lambda: all(runs(world, f"on-{each}", **{each: 2}) for each in MEMBERS), seconds=10
        )
        said = {world.lease(n)["metadata"]["annotations"]["stowage.dev/shards"] for n in range(2)}
        assert said == {"2"}
        await world.until(lambda: world.served(3) and world.reported(3))
        for shard in range(3):
            assert names_of(shard, 3) <= whole(world, world.holder(shard))


@pytest.mark.proves("SC25")
async def test_a_shard_that_another_process_takes_is_read_anew(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b", "c") as ends:
        placed(world)
        await world.until(lambda: all_run(world))
        first = world.holder(1)
        await ends[first].aclose()
        del world.processes[first]
        await world.until(lambda: world.holder(1) not in ("", first))
        await world.until(lambda: world.reported(2))
        assert whole(world, world.holder(1)) == names_of(1, 2)
        for each in MEMBERS:
            world.place(f"on-{each}", **{each: 2})
        await world.until(lambda: all(runs(world, f"on-{each}", **{each: 2}) for each in MEMBERS))


@pytest.mark.proves("SC25", "SC14")
async def test_what_a_member_has_of_a_workload_that_names_it_no_more_is_read_and_goes(
    steady: None,
) -> None:
    """As after a hub was set back: the objects there are no stranger's, and are lowered by rule."""
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        placed(world)
        await world.until(lambda: all_run(world))
        other = next(each for each in MEMBERS if owner(each, 2) != owner("m1", 2))
        sees = workloads_of(world, world.holder(owner(other, 2)))
        assert "on-m1" not in whole(world, world.holder(owner(other, 2)))
        # What another holder of the shard wrote there, before the hub was set back.
        written = world.members["m1"].objects["deployments"][SPACE, "on-m1"]
        there = world.members[other].objects["deployments"]
        mark = there[SPACE, f"on-{other}"]["metadata"]["annotations"]["stowage.dev/member"]
        meta = {key: written["metadata"][key] for key in ("name", "namespace", "labels")}
        meta["annotations"] = written["metadata"]["annotations"] | {"stowage.dev/member": mark}
        body = {key: value for key, value in written.items() if key != "status"}
        world.members[other].apply("deployments", (SPACE, "on-m1"), {**body, "metadata": meta})
        await world.until(lambda: (SPACE, "on-m1") not in there)
        asked = [path for server, method, path, _, _ in world.sent if method == "GET"]
        assert any(path.endswith("/workloads/on-m1") for path in asked)
        assert sees.known(uid_of(world, "on-m1"))
        assert world.deployments("m1")


@pytest.mark.perf
@pytest.mark.proves("SC25")
def test_a_workload_without_a_share_here_takes_400_bytes() -> None:
    """With what the brake on deletions knows of it. Counted, at two sizes."""
    sizes = [_measured(number) for number in (MANY, 2 * MANY)]
    each = (sizes[1] - sizes[0]) / MANY
    assert each <= WORKLOAD_BYTES, f"{each:.0f} bytes"


def _measured(number: int) -> int:
    hub = ApiClient(Connection(server="https://hub.invalid"), name="hub")
    registry = SimpleNamespace(holders=lambda _: ())
    context: Any = Context(hub=hub, registry=registry, clock=FakeClock())
    workloads = HubWorkloads(context)
    brake = DeletionBrake(context, workloads)
    mine = {owner(f"member-{each}", 64) for each in range(3)}
    shard = next(each for each in range(1, 64) if each not in mine)
    workloads.concern.begin(shard, frozenset({64}))
    answers = [msgspec.json.encode(running(each)) for each in range(number)]
    workloads.informer._learn(msgspec.Raw(answers[0]), workloads.informer.observe)
    gc.collect()
    tracemalloc.start()
    try:
        for answer in answers[1:]:
            workloads.informer._learn(msgspec.Raw(answer), workloads.informer.observe)
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(workloads.informer.put_aside) == number
    assert len(brake._standing) == number
    return size


def raw(**status: Any) -> msgspec.Raw:
    body = workload("web")
    body["metadata"] |= {"uid": "uid-web", "resourceVersion": "7"}
    return msgspec.Raw(msgspec.json.encode({**body, "status": status}))


@pytest.mark.proves("SC25")
def test_what_names_a_member_of_ours_anywhere_is_kept_whole() -> None:
    ours = next(f"m{n}" for n in range(99) if owner(f"m{n}", 4) == 2)
    theirs = next(f"m{n}" for n in range(99) if owner(f"m{n}", 4) == 1)
    at = [{"cluster": ours, "replicas": 1}]
    held = {"cluster": ours, "kind": "ConfigMap", "name": "a", "state": "Drifted"}
    holders: set[str] = set()
    concern = Concern(lambda _: holders)
    concern.begin(2, frozenset({4}))
    for status in (
        {"placements": at},
        {"leaving": at},
        {"clusters": [{"name": ours}]},
        {"kept": [held]},
        {"drift": [held]},
        {"footprint": {"clusters": f"{theirs},{ours}"}},
        {"footprint": {"clusters": "#0a0b0c0d"}},
        {"footprint": {"clusters": "*"}},
        {"placements": "which nobody can read"},
    ):
        assert concern.aside(raw(**status)) is None, status
    elsewhere = raw(placements=[{"cluster": theirs, "replicas": 1}])
    assert concern.aside(elsewhere) is not None
    holders.add(ours)
    assert concern.aside(elsewhere) is None, "a member of ours has something of it"
    holders.clear()
    named = msgspec.json.decode(bytes(elsewhere))
    named["metadata"]["labels"] = {LABEL_GROUP: "batch"}
    assert concern.aside(msgspec.Raw(msgspec.json.encode(named))) is None
    assert concern.aside(raw()) is not None, "what is nowhere is the first shard's"
    concern.begin(0, frozenset({4}))
    assert concern.aside(raw()) is None
    concern.begin(2, frozenset({1}))
    assert concern.aside(elsewhere) is None, "with one shard everything is"


@pytest.mark.proves("SC25")
async def test_deletions_are_held_by_their_part_of_all_workloads(steady: None) -> None:
    """Of those that are put aside too: a shard with few Workloads is no smaller fleet."""
    world = Fleet("m1", "m2")
    first, other = sorted(("m1", "m2"), key=lambda name: owner(name, 2))
    async with world.shared(2, "a", "b"):
        for number in range(12):
            world.put(WORKLOADS, workload(f"few-{number}"))
            world.place(f"few-{number}", **{first: 1})
        for number in range(120):
            world.put(WORKLOADS, workload(f"many-{number}"))
            world.place(f"many-{number}", **{other: 1})
        await world.until(lambda: len(world.deployments(first)) == 12)
        await world.until(lambda: len(world.deployments(other)) == 120)
        for number in range(12):
            old = {"creationTimestamp": "2020-01-01T00:00:00Z"}
            world.hub.edit(WORKLOADS, f"few-{number}", {"metadata": old})
            world.delete(f"few-{number}")
        await world.until(lambda: not world.deployments(first))
