"""Several processes share out the members, and follow each other."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.simulated_members import Member
from crds.groups.gate import decision_of
from crds.names import (
    ANNOTATION_CLUSTERS,
    ANNOTATION_REPORTED,
    ANNOTATION_SET_BACK,
    ANNOTATION_SWEEP,
    ANNOTATION_UNJOIN,
    ANNOTATION_WENT_BACK,
    GIVEN_UP,
    LABEL_GROUP,
    SYSTEM_NAMESPACE,
)
from machinery.api.resources import (
    CONFIG_MAPS,
    MEMBER_CLUSTERS,
    WORKLOAD_GROUPS,
    WORKLOADS,
)
from machinery.api.verbs import ServerHistory
from machinery.clock import timestamp
from machinery.errors import LeaseLost, Unreachable
from machinery.types import conditions
from machinery.types.shards import owner
from propagator.groups.starting import Contacts, Starting
from propagator.members.cluster_identity import Identities
from propagator.shards.election import SetBack, ShardElection, set_back_on
from propagator.shards.membership import OneShard
from stowage.setup.rename import Rename, rename
from tests.fakeclock import FakeClock
from tests.propagator.contexts import Context
from tests.propagator.fleet import ALL, HERE, MEMBERS, THERE, Fleet
from tests.propagator.memory import PROCESS, SPACE, STEP
from tests.propagator.test_one_shard import runs, start, starts, statefulset, workload
from tests.propagator.test_restored import accept, once_free


@pytest.mark.proves("SC2")
async def test_each_member_is_served_by_its_shard_alone(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(3, "a", "b", "c", "d"):
        assert len({world.holder(shard) for shard in range(3)}) == 3
        await start(world, **ALL)
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
        await start(world, **ALL)
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


@pytest.mark.proves("SC14")
async def test_members_are_compared_anew_with_each_number(steady: None) -> None:
    """Also those that stay: while there was one shard, nobody was told of them."""
    world = Fleet("m1", "m2")
    async with world.running("a", "b"):
        await world.until(lambda: world.served(1))
        await start(world, m1=1, m2=1)
        for number in (2, 1, 2):
            world.shards(number)
            await world.until(lambda number=number: world.served(number))
            if number > 1:
                await world.until(lambda: world.reported(2))


@pytest.mark.proves("SC14")
async def test_a_lease_that_cannot_be_read_lapses(steady: None) -> None:
    world = Fleet("m1", "m2")
    async with world.shared(2, "a", "b"):
        await world.until(lambda: world.reported(2))
        sees = world.processes[world.holder(0)]._membership
        await world.until(lambda: sees.tells(1) and sees.held(1))
        world.blind.add(world.holder(0))
        await world.calm(12)
        assert not sees.tells(1)
        assert not sees.held(1)
        world.blind.clear()
        await world.until(lambda: sees.tells(1) and sees.held(1))
        assert world.served(2)


@pytest.mark.proves("SC22", "SC27")
async def test_a_spare_takes_the_shard_of_a_process_that_ends(steady: None) -> None:
    """No member changes its shard, and nothing is written for members of other shards."""
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b", "c") as ends:
        await start(world, **ALL)
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
    async with world.shared(2, "a", "b", "c"):
        await start(world, **ALL)
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
        spare = world.processes[old].manager
        assert spare is not None
        assert not spare.registry.names(), "it looks at no member that another one serves"
        for name, marks in world.writers().items():
            terms = ["shard/0 term/1"] if name in before else ["shard/1 term/1", "shard/1 term/2"]
            assert marks == terms


@pytest.mark.proves("SC10")
async def test_a_number_that_is_none_changes_nothing(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        for said in ("x", "0", "65", ""):
            world.shards(said)
            await world.calm(3)
            assert world.served(2)
        world.hub.remove(CONFIG_MAPS, "stowage-propagator", SYSTEM_NAMESPACE)
        await world.calm(3)
        assert world.served(2)


@pytest.mark.proves("SC18")
async def test_one_cluster_under_two_names_of_two_shards_is_served_once(steady: None) -> None:
    world = Fleet(HERE, THERE)
    world.same[THERE] = HERE
    world.shards(2)

    def reason(name: str) -> str:
        return str(conditions.find(world.cluster(name), "Ready").get("reason"))

    async with world.running("a", "b"):
        await world.until(
            lambda: {reason(HERE), reason(THERE)} == {"Connected", "AlreadyRegistered"}
        )
        world.put(WORKLOADS, workload("web"))
        world.place("web", **{HERE: 1, THERE: 1})
        await world.calm(30)
        assert {reason(HERE), reason(THERE)} == {"Connected", "AlreadyRegistered"}
        assert len([name for name in (HERE, THERE) if world.deployments(name)]) == 1


@pytest.mark.proves("SC3")
async def test_a_term_that_ends_while_a_cluster_is_noted_is_no_fault_of_its_member(
    steady: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def lost(*_: Any) -> None:
        raise LeaseLost("a does not hold the lease stowage-propagator")

    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        monkeypatch.setattr(Identities, "note_first", lost)
        await world.calm(60)
        assert world.served(2)
    assert "session failed" not in caplog.text


@pytest.mark.proves("SC17")
async def test_the_shard_of_the_last_member_ends_a_workload(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(3, "a", "b", "c"):
        await start(world, **ALL)
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not any(map(world.deployments, MEMBERS))


@pytest.mark.proves("SC17")
async def test_a_cluster_that_is_given_up_is_waited_for_no_more(steady: None) -> None:
    """By a process that begins after that, and so has no session with it."""
    world = Fleet(THERE, HERE)
    mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
    async with world.shared(2, "a", "b") as processes:
        await start(world, **{THERE: 1, HERE: 1})
        world.away.add(THERE)
        world.delete("web")
        await world.until(lambda: not world.deployments(HERE))
        await processes[world.holder(1)].aclose()
        world.hub.edit(MEMBER_CLUSTERS, THERE, mark)
        async with world.running("c"):
            await world.until(lambda: world.holder(1) == "c")
            await world.calm(5)
            await world.until(lambda: not world.hub.all(WORKLOADS))


@pytest.mark.proves("SC17")
async def test_a_workload_that_may_be_anywhere_ends(steady: None) -> None:
    """Whoever may write its annotations may say that each member was sent something."""
    world = Fleet(HERE, THERE)
    async with world.shared(2, "a", "b"):
        world.put(WORKLOADS, workload("web"))
        world.hub.edit(WORKLOADS, "web", {"metadata": {"annotations": {ANNOTATION_CLUSTERS: "*"}}})
        world.place("web", **{HERE: 1})
        await world.until(lambda: runs(world, "web", **{HERE: 1}))
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not world.deployments(HERE)


@pytest.mark.proves("CT8")
async def test_each_shard_counts_pods_that_another_tool_brings(steady: None) -> None:
    world = Fleet(HERE, THERE)
    for name in (HERE, THERE):
        by = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d7f", "uid": "r"}
        meta = {"name": "web-5d7f-1", "namespace": SPACE, "uid": "p", "resourceVersion": "1"}
        labels = {"app": "web", "pod-template-hash": "5d7f"}
        meta |= {"labels": labels, "ownerReferences": [{**by, "controller": True}]}
        pod = {"metadata": meta, "spec": {"nodeName": "n1", "containers": [{"name": "main"}]}}
        world.members[name].objects["pods"][SPACE, meta["name"]] = pod
    async with world.shared(2, "a", "b"):
        made = workload("web")
        world.put(WORKLOADS, {**made, "spec": {**made["spec"], "delivery": "None"}})
        world.place("web", **{HERE: 2, THERE: 1})

        def counted() -> dict[str, int]:
            return {e["name"]: e["scheduled"] for e in world.status("web").get("clusters", [])}

        await world.until(lambda: counted() == {HERE: 1, THERE: 1})
        await world.calm(5)
        assert counted() == {HERE: 1, THERE: 1}


@pytest.mark.proves("SC13")
async def test_a_share_leaves_once_another_shard_tells_that_its_successor_runs(
    steady: None,
) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        await start(world, **{HERE: 3})
        world.place("web", **{THERE: 3})
        await world.until(lambda: runs(world, "web", **{THERE: 3}))
        assert not world.deployments(HERE)


@pytest.mark.proves("SC13")
async def test_shares_of_several_shards_are_lowered_at_once(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        await start(world, **{HERE: 3, THERE: 3})
        world.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 2}})
        world.place("web", **{HERE: 2, THERE: 2})
        await world.until(lambda: runs(world, "web", **{HERE: 2, THERE: 2}))


@pytest.mark.proves("SC13")
async def test_a_share_stays_while_nobody_tells_that_its_successor_runs(steady: None) -> None:
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b") as ends:
        await start(world, **{HERE: 3})
        await ends[world.holder(1)].aclose()
        world.place("web", **{THERE: 3})
        await world.calm(40)
        assert world.deployments(HERE)
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
    async with world.shared(3, "a", "b", "c") as ends:
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
            assert reached(world)["1"] != reached(world)["0"], "each names its own term"


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
    """As the controller does with each Workload once the old MemberCluster is gone."""
    there = {each["metadata"]["name"] for each in world.hub.all(MEMBER_CLUSTERS)}
    status = world.status("web")
    if old in there or new not in there or old not in json.dumps(status["placements"]):
        return
    patch = {
        "placements": [{**each, "cluster": new} for each in status["placements"]],
        "footprint": {"clusters": f"{old},{new}"},  # no member shows that the old one is empty
    }
    world.hub.edit(WORKLOADS, "web", {"status": patch}, status=True)


@pytest.mark.proves("SC20")
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("late", [0, 20], ids=("at-once", "late"))
async def test_a_member_with_a_new_name_of_another_shard_stays_as_it_is(
    steady: None, shards: int, late: int
) -> None:
    """The Workload too: no write says that it does not run, however late the controller is."""
    old = next(f"oslo-{n}" for n in range(99) if owner(f"oslo-{n}", 2) == 0)
    new = next(f"rome-{n}" for n in range(99) if owner(f"rome-{n}", 2) == 1)
    world = Fleet(old)
    world.shards(shards)
    async with world.running("a", "b"):
        await world.until(lambda: world.served(shards))
        world.put(WORKLOADS, workload("web"))
        decided = {"observed": {"controller": 1}, "footprint": {"clusters": old}}
        world.hub.edit(WORKLOADS, "web", {"status": decided}, status=True)
        world.place("web", **{old: 2})
        await world.until(lambda: runs(world, "web", **{old: 2}))
        await world.calm(5)
        before, since = standing(world.members[old]), len(world.sent)
        plan = Rename(old=old, new=new, namespace=SYSTEM_NAMESPACE)
        renaming = asyncio.create_task(rename(cast("Any", world.hub), plan, say=lambda _: None))
        steps = 0
        while not renaming.done():
            await world.calm(STEP)
            await asyncio.sleep(0.02)  # the command waits by the clock of its machine
            steps += 1
            if steps > late:
                renamed(world, old, new)
        await renaming
        await world.calm(20)
        assert runs(world, "web", **{new: 2})
        assert world.cluster(new).get("shard") == (1 if shards > 1 else None)
        assert standing(world.members[old]) == before
        sent = world.sent[since:]
        written = [m for s, m, *_ in sent if s == old and m not in ("GET", "WATCH")]
        assert set(written) == {"PATCH"}, "nothing is removed, to be made again"
        told = [json.loads(b or "") for *_, path, _, b in sent if "web/status" in path]
        assert told
        assert len(told) < 5
        assert all(conditions.holds(each["status"], "Ready") for each in told)


def standing(member: Member) -> dict[str, Any]:
    """All objects of ours but for the marks in their metadata, which name the MemberCluster."""
    found = {}
    for kind in ("deployments", "configmaps"):
        for key, body in member.objects[kind].items():
            rest = {k: v for k, v in body.items() if k not in ("metadata", "status")}
            found[kind, *key] = {**rest, "uid": body["metadata"]["uid"]}
    return deepcopy(found)


@pytest.mark.proves("K28", "KD52", "SC15")
async def test_shards_do_not_wait_for_each_other_before_a_statefulset_is_made(steady: None) -> None:
    """Each tells what stands on its members also while it writes nothing there yet."""
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        world.put(WORKLOADS, statefulset("db"))
        world.place("db", m1=1, m2=1, m3=1)
        first = {"m1": (0, "pause"), "m2": (1000, "pause"), "m3": (2000, "pause")}
        await world.until(lambda: starts(world, "db") == first)
        world.hub.edit(WORKLOADS, "db", {"spec": statefulset("db", "other")["spec"]})
        world.place("db", **ALL)
        await world.until(
            lambda: starts(world, "db") == {n: (i * 1000, "other") for i, n in enumerate(MEMBERS)}
        )


@pytest.mark.proves("K28", "KD52", "SC15")
async def test_clusters_of_no_replicas_do_not_wait_for_each_other(steady: None) -> None:
    """What is not there and is to have no replicas is told as looked at, too."""
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        world.put(WORKLOADS, statefulset("db"))
        world.place("db", m1=0, m2=0, m3=1)
        first = {"m1": (0, "pause"), "m2": (1000, "pause"), "m3": (2000, "pause")}
        await world.until(lambda: starts(world, "db") == first)


def forgotten(world: Fleet, *names: str) -> set[str]:
    """The Workloads that the status of these members names in a held sweep."""
    told = [world.cluster(name).get("sweepHeld", {}).get("workloads", []) for name in names]
    return {each["name"] for listed in told for each in listed}


def dated(world: Fleet, member: str, name: str) -> None:
    """Give what is there of a StatefulSet the time of now, as an API server does."""
    server, now = world.members[member], timestamp(world.clock.now())
    for plural, called in (("statefulsets", name), ("configmaps", f"{name}-conf")):
        server.objects[plural][SPACE, called]["metadata"]["creationTimestamp"] = now
        server.report(plural, (SPACE, called))


async def made_and_forgotten(world: Fleet, member: str, *, replicas: int = 1) -> None:
    """Have the StatefulSet `db` made there, and set the hub back to before it."""
    snapshot = world.hub.snapshot()
    await world.calm(3)  # each Lease is renewed since
    world.put(WORKLOADS, statefulset("db"))
    world.place("db", **{member: replicas})
    await world.until(lambda: {*starts(world, "db")} == {member})
    dated(world, member, "db")
    world.hub.set_back(snapshot)


def reasons(world: Fleet, *names: str) -> set[str | None]:
    return {conditions.find(world.cluster(name), "SweepHeld").get("reason") for name in names}


@pytest.mark.proves("N11", "SC15", "KD52")
async def test_each_shard_holds_what_a_hub_has_forgotten_and_no_other_starts_its_ordinals(
    steady: None,
) -> None:
    """One process has seen the hub go back; the others begin after that, and are behind it."""
    world = Fleet(HERE, THERE)
    async with world.shared(2, "a", "b") as ends:
        await world.until(lambda: world.reported(2))
        snapshot = world.hub.snapshot()
        await world.calm(3)  # each Lease is renewed since
        for name, member in (("db", HERE), ("web", THERE)):
            world.put(WORKLOADS, statefulset(name))
            world.place(name, **{member: 2})
            await world.until(lambda name=name, member=member: member in starts(world, name))
            dated(world, member, name)
        await ends[world.holder(1)].aclose()
        world.hub.set_back(snapshot)
        for name, member in (("db", THERE), ("web", HERE)):
            world.hub.put(WORKLOADS, statefulset(name))
            world.place(name, **{member: 2})
        for _ in range(300):
            world.hub.bookmark()  # it soon passes all versions of before
        async with world.running("c"):
            await world.until(lambda: forgotten(world, HERE, THERE) == {"db", "web"})
            await world.calm(30)
            assert world.served(2)
            assert reasons(world, HERE, THERE) == {"HubWentBack"}
            assert {*starts(world, "db")} == {HERE}
            assert {*starts(world, "web")} == {THERE}
            (share,) = world.status("db")["clusters"]
            assert f"see `stowage sweep {HERE}`" in share["message"]
            (held,) = world.cluster(HERE)["sweepHeld"]["workloads"]
            confirmed = {"metadata": {"annotations": {ANNOTATION_SWEEP: held["uid"]}}}
            world.hub.edit(MEMBER_CLUSTERS, HERE, confirmed)
            await world.until(lambda: {*starts(world, "db")} == {THERE})
            assert {*starts(world, "web")} == {THERE}


@pytest.mark.proves("SC14", "SC15")
async def test_nothing_counts_that_a_shard_has_told_before_the_hub_was_set_back(
    steady: None,
) -> None:
    """Its Lease says that it has compared its members, as it had then, and nobody renews it."""
    world = Fleet(HERE, THERE)
    async with world.shared(2, "a", "b") as ends:
        await world.until(lambda: world.reported(2))
        await start(world, **{HERE: 2})
        world.away.add(HERE)
        world.place("web", **{THERE: 2})
        await world.until(lambda: world.deployments(THERE))
        await world.calm(3)
        snapshot = world.hub.snapshot()
        await world.calm(3)  # each Lease is renewed since
        await ends[world.holder(1)].aclose()
        world.members[THERE].delete("deployments", (SPACE, "web"))
        world.hub.set_back(snapshot)
        await world.until(lambda: world.lease(0)["metadata"]["annotations"]["stowage.dev/set-back"])
        sees = world.processes[world.holder(0)]._membership
        world.away.discard(HERE)
        world.put(WORKLOADS, statefulset("db"))
        world.place("db", **{HERE: 2})
        for _ in range(150):
            await world.calm(STEP)
            assert world.deployments(HERE), "the copy elsewhere ran then, and is gone since"
            assert not sees.tells(1)
            assert not starts(world, "db"), "another may run where nobody has looked"
        async with world.running("c"):
            await world.until(lambda: world.served(2) and world.reported(2))
            await world.until(lambda: {*starts(world, "db")} == {HERE})
            await world.until(lambda: runs(world, "web", **{THERE: 2}))
        first, second = (world.lease(shard)["metadata"]["annotations"] for shard in (0, 1))
        assert SetBack.on(first) == SetBack.on(second)
        assert SetBack.on(first).version is not None


@pytest.mark.proves("SC14", "PK33")
async def test_all_shards_tell_of_a_set_back_by_the_version_of_the_first_who_noted_it() -> None:
    clock, history = FakeClock(), ServerHistory()
    lease: Any = SimpleNamespace(annotations={}, version=None)
    shared: Any = {"number": SimpleNamespace(), "history": history, "clock": clock}
    ours = ShardElection(lambda *_: lease, **shared)
    before = SetBack("2025-01-01T00:00:00Z", 70)
    assert ours.set_back([]) == SetBack()
    assert ours.set_back([before]) == before
    history.end(history.number)
    assert ours.set_back([before]).version is None, "its Lease was not read since"
    lease.version = 210
    found = ours.set_back([before])
    assert found.version == 210
    assert found.time > before.time
    lease.version = 300
    assert ours.set_back([before]) == found, "it was renewed since"
    await clock.advance(60)
    theirs = SetBack(timestamp(clock.now()), 205)
    assert ours.set_back([before, theirs]) == theirs
    earlier = SetBack("2025-06-01T00:00:00Z", 205)
    assert ours.set_back([before, earlier]) == SetBack(found.time, 205)
    begins = ShardElection(lambda *_: lease, **shared)
    assert begins.set_back([before, found, theirs]) == theirs, "it has seen none itself"
    told = {ANNOTATION_SET_BACK: found.time, ANNOTATION_WENT_BACK: "210", ANNOTATION_REPORTED: "1"}
    assert not set_back_on(told, found)
    assert not set_back_on(told, earlier)
    assert set_back_on(told, found._replace(version=205)) == {
        ANNOTATION_SET_BACK: found.time,
        ANNOTATION_WENT_BACK: "205",
    }
    assert set_back_on(told, theirs)[ANNOTATION_REPORTED] is None


@pytest.mark.proves("PK33")
async def test_leases_on_members_tell_of_a_set_back_by_the_version_that_all_shards_tell(
    steady: None,
) -> None:
    world = Fleet(HERE, THERE)

    def told(shard: int, member: str) -> int | None:
        manager = world.processes[world.holder(shard)].manager
        session = manager.registry.get(member) if manager is not None else None
        return session.went_back_to if session is not None else None

    async with world.shared(2, "a", "b"):
        await world.until(lambda: world.reported(2))
        snapshot = world.hub.snapshot()
        await world.calm(40)  # each Lease on a member is renewed since
        world.hub.set_back(snapshot)
        await world.until(lambda: told(0, HERE) and told(1, THERE))
        found = SetBack.on(world.lease(0)["metadata"]["annotations"]).version
        assert told(0, HERE) == told(1, THERE) == found


@pytest.mark.proves("PK33", "SC27")
async def test_a_process_that_takes_over_long_after_a_set_back_finds_nothing_younger(
    steady: None,
) -> None:
    """It has led before that, and has seen it as a standby."""
    here = MEMBERS[0]
    world = Fleet(here)

    async def taken_over(leader: str) -> str:
        world.cut.add(leader)
        await world.until(lambda: world.held(1) and world.holder(0) != leader)
        world.cut.clear()
        await world.calm(10)
        return world.holder(0)

    def said() -> dict[str, str]:
        told: dict[str, str] = world.lease(0)["metadata"]["annotations"]
        return {key: told.get(key, "") for key in (ANNOTATION_SET_BACK, ANNOTATION_WENT_BACK)}

    async with world.running("a", "b"):
        await world.until(lambda: world.served(1))
        await taken_over(world.holder(0))
        snapshot = world.hub.snapshot()
        await world.calm(3)
        world.hub.set_back(snapshot)
        await world.until(lambda: all(said().values()))
        await start(world, **{here: 2})
        await world.calm(10)
        (before,), told = world.deployments(here), said()
        world.hub._version += 1000
        await taken_over(world.holder(0))
        await world.until(lambda: world.served(1))
        await world.calm(30)
        assert said() == told
        assert world.deployments(here) == [before]


@pytest.mark.proves("SC15", "KD52")
async def test_what_one_shard_takes_over_and_what_another_makes_have_ordinals_of_their_own(
    steady: None,
) -> None:
    world = Fleet(HERE, THERE)
    async with world.shared(2, "a", "b"):
        await world.until(lambda: world.reported(2))
        await made_and_forgotten(world, THERE)
        await world.until(lambda: forgotten(world, HERE, THERE) == {"db"})
        world.hub.put(WORKLOADS, statefulset("db"))
        world.lag = 1.0  # each tells late what it has made
        world.place("db", **{HERE: 1, THERE: 1})
        await world.until(lambda: {*starts(world, "db")} == {HERE, THERE})
        await world.calm(10)
        assert {name: start for name, (start, _) in starts(world, "db").items()} == {
            THERE: 0,
            HERE: 1000,
        }


@pytest.mark.proves("SC15", "KD52")
async def test_what_is_told_before_an_object_is_taken_over_says_nothing_of_its_ordinals(
    steady: None,
) -> None:
    world = Fleet(HERE, THERE)
    world.shards(2)

    async def late(method: str, path: str, _body: Any) -> None:
        """It is taken over after a first report; the next comes through after the held sweep's."""
        if method == "PATCH" and path.endswith("/db"):
            await world.clock.sleep(5)
        elif path.endswith("/db/status") and PROCESS.get() == world.holder(1):
            (found,) = world.members[THERE].objects["statefulsets"].values()
            taken_over = world.hub.read(WORKLOADS, "db")["metadata"]["uid"] in str(found)
            if taken_over and forgotten(world, THERE):
                raise Unreachable("not now")

    async with world.running("a", "b"):
        await world.until(lambda: world.served(2) and world.reported(2))
        await made_and_forgotten(world, THERE)
        await world.until(lambda: forgotten(world, THERE) == {"db"})
        world.hub.faults.append(late)
        world.hub.put(WORKLOADS, statefulset("db"))
        world.place("db", **{HERE: 1, THERE: 1})
        await world.until(lambda: {*starts(world, "db")} == {HERE, THERE}, seconds=300)
        assert {name: start for name, (start, _) in starts(world, "db").items()} == {
            THERE: 0,
            HERE: 1000,
        }


@pytest.mark.proves("SC15")
async def test_a_shard_has_looked_once_the_hub_has_its_held_sweeps(steady: None) -> None:
    world = Fleet(HERE, THERE)
    world.shards(2)

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith(f"/{HERE}/status"):
            await world.clock.sleep(20)

    async with world.running("a", "b"):
        await world.until(lambda: world.served(2) and world.reported(2))
        await made_and_forgotten(world, HERE, replicas=2)
        world.hub.faults.append(slow)
        world.hub.put(WORKLOADS, statefulset("db"))
        world.place("db", **{THERE: 2})
        await world.calm(60)
        assert {*starts(world, "db")} == {HERE}
        assert forgotten(world, HERE) == {"db"}


@pytest.mark.parametrize("decides", ["an edit", "stowage restore --accept", "a deletion"])
@pytest.mark.proves("SC13", "PK33")
async def test_a_shard_tells_of_a_copy_that_nothing_of_the_hub_names(
    decides: str, steady: None
) -> None:
    """It has moved there in the history that the hub has lost, and the place of before is away."""
    world = Fleet(*MEMBERS)
    async with world.shared(2, "a", "b"):
        await start(world, **{HERE: 3})
        snapshot = world.hub.snapshot()
        world.place("web", **{THERE: 3})
        await world.until(lambda: runs(world, "web", **{THERE: 3}))
        await world.calm(60)
    world.away.add(HERE)
    world.hub.set_back(snapshot)
    async with world.running("a", "b"):

        def left() -> dict[str, Any]:
            told = world.status("web").get("clusters", [])
            return next((each for each in told if each["name"] == THERE), {})

        await once_free(world, lambda: left().get("state") == "Leaving")
        assert left()["message"] == "kept until the other clusters are ready"
        world.away.discard(HERE)
        await once_free(world, lambda: "an edit of the Workload decides" in left()["message"])
        if decides == "an edit":
            world.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 3}})
        elif decides == "stowage restore --accept":
            accept(world, "web")
        if decides != "a deletion":
            await world.until(lambda: runs(world, "web", **{HERE: 3}) and not left())
        else:
            world.away.add(THERE)
            world.delete("web")
            await world.until(lambda: not world.deployments(HERE))
            await world.calm(5)
            assert world.hub.all(WORKLOADS), "its end waits for the copy, too"
            world.away.discard(THERE)
            await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not world.deployments(THERE)
