"""What a member in mode Pull gets of a rollout and of a Reservation is what one in mode Push gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crds.admission.placeholder import PLACEHOLDER_CLASS, PLACEHOLDER_SCHEDULER
from crds.names import API_VERSION
from machinery.api.resources import CONTROLLER_REVISIONS, WORKLOADS
from machinery.kinds.revisions import digest_of, revision_data, revision_name
from tests.propagator.memory import SPACE, World
from tests.propagator.pulling import PullWorld
from tests.propagator.stage import deployment
from tests.propagator.test_one_shard import propagated, ready, runs, starts, statefulset, workload
from tests.propagator.test_pull import objects, serving, uid_of

Json = dict[str, Any]
_OWN = ("name", "capacityVersion")


def told(world: PullWorld, name: str = "web") -> list[Json]:
    """What the status says of each member, without what tells the two apart."""
    entries = world.status(name)["clusters"]
    return [{k: v for k, v in each.items() if k not in _OWN} for each in entries]


def alike(world: PullWorld) -> bool:
    one, other = objects(world, "m1"), objects(world, "paris")
    return bool(one) and one == other


def image(world: PullWorld, member: str) -> str:
    (found,) = world.deployments(member)
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def keep(world: PullWorld) -> str:
    """Keep the present revision, as the controller does; return it."""
    data = revision_data(world.hub.read(WORKLOADS, "web")["spec"])
    meta = {"name": revision_name("web", digest_of(data)), "namespace": SPACE}
    kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision"}
    world.put(
        CONTROLLER_REVISIONS, {**kind, "metadata": meta, "data": {"spec": data}, "revision": 1}
    )
    return digest_of(data)


def say(world: PullWorld, revision: str, **exceptions: str) -> None:
    """Say what is rolled out; `exceptions`: the revision by cluster."""
    named = [{"revision": of, "clusters": [name]} for name, of in exceptions.items()]
    rollout = {"phase": "Progressing", "revision": revision}
    world.hub.edit(
        WORKLOADS, "web", {"status": {"rollout": rollout, "revisions": named}}, status=True
    )


def edit(world: PullWorld, image: str) -> str:
    """Another image; its revision."""
    world.hub.edit(WORKLOADS, "web", {"spec": {"targetDeployment": deployment("web", image=image)}})
    return keep(world)


@pytest.mark.proves("PL2")
async def test_a_rollout_goes_over_both_modes_and_back() -> None:
    async with serving("m1") as world:
        body = workload("web")
        waves = [{"name": "canary", "clusterSelector": {"matchLabels": {"tier": "canary"}}}]
        body["spec"] |= {"rollout": {"waves": waves}, "replicas": 4}
        body["spec"]["targetDeployment"] = deployment("web", image="one")
        world.put(WORKLOADS, body)
        first = keep(world)
        world.place("web", m1=2, paris=2)
        await world.until(lambda: propagated(world, "web") == "Propagating")
        assert not world.deployments("m1")
        assert not world.deployments("paris"), "nothing before it is said what is rolled out"
        say(world, first)
        await world.until(lambda: runs(world, "web", m1=2, paris=2) and alike(world))
        second = edit(world, "two")
        await world.calm(5)
        assert {image(world, each) for each in ("m1", "paris")} == {"one"}

        def at(**has: tuple[str, str]) -> Callable[[], bool]:
            """Whether each member runs that image, and is told to have that revision."""

            def holds() -> bool:
                entries = world.status("web")["clusters"]
                told = {e["name"]: (image(world, e["name"]), e.get("revision")) for e in entries}
                return told == has

            return holds

        # Each of them has its wave first, once.
        old, new = ("one", first), ("two", second)
        say(world, first, paris=second)
        await world.until(at(m1=old, paris=new))
        say(world, first, m1=second)
        await world.until(at(m1=new, paris=old))
        for revision, wanted in ((second, new), (first, old)):
            say(world, revision)
            await world.until(at(m1=wanted, paris=wanted))
            await world.until(lambda: runs(world, "web", m1=2, paris=2) and alike(world))
            await world.calm(3)
            one, other = told(world)
            assert one == other


@pytest.mark.proves("PL2")
async def test_what_keeps_the_room_of_a_reservation_is_the_same_in_both_modes() -> None:
    async with serving("m1") as world:
        body = workload("launch-hold")
        owner = {"apiVersion": API_VERSION, "kind": "Reservation", "name": "launch", "uid": "uid-r"}
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        pods = deployment("launch-hold")
        pods["spec"]["template"]["spec"]["priorityClassName"] = PLACEHOLDER_CLASS
        body["spec"] = {"schedulerName": PLACEHOLDER_SCHEDULER, "targetDeployment": pods}
        world.put(WORKLOADS, body)
        for replicas in (3, 1):  # an owner takes two of them
            world.place("launch-hold", m1=replicas, paris=replicas)
            shares = {"m1": replicas, "paris": replicas}
            await world.until(lambda s=shares: runs(world, "launch-hold", **s) and alike(world))
        await world.calm(3)
        one, other = told(world, "launch-hold")
        assert one == other
        # Nobody but a Reservation's own placeholder has that class, in either mode.
        mine = workload("mine")
        mine["spec"]["targetDeployment"] = deployment("mine")
        template = mine["spec"]["targetDeployment"]["spec"]["template"]
        template["spec"]["priorityClassName"] = PLACEHOLDER_CLASS
        world.put(WORKLOADS, mine)
        world.place("mine", m1=1, paris=1)
        await world.until(lambda: propagated(world, "mine") not in ("Propagated", "Propagating"))
        await world.calm(5)
        assert len(world.deployments("m1")) == len(world.deployments("paris")) == 1
        world.delete("launch-hold")
        await world.until(lambda: not objects(world, "m1") and not objects(world, "paris"))


def job(distribution: str) -> Json:
    """A Workload of ten completions, four at once."""
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause"}]}
    spec = {"template": {"spec": pods}, "completions": 10, "parallelism": 4}
    main = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bill"}, "spec": spec}
    body = workload("bill")
    del body["spec"]["targetDeployment"]
    body["spec"] |= {"template": main, "distribution": distribution}
    return body


def jobs(world: PullWorld, name: str = "bill") -> dict[str, int]:
    """The completions of that Job on each member that has it."""
    found = {n: m.objects["jobs"].get((SPACE, name)) for n, m in world.members.items()}
    return {name: each["spec"]["completions"] for name, each in found.items() if each}


@pytest.mark.proves("KD18", "KD19")
async def test_a_job_is_made_in_neither_mode_before_its_part_of_the_work_is_known() -> None:
    """It would do all of it: what a leaving share has done is counted first."""
    async with serving("m1", "m2") as world:
        world.put(WORKLOADS, job("Divided"))
        left = {"cluster": "m1", "replicas": 2, "completions": 5, "cause": "Drained"}
        leaving = [left | {"since": "2026-01-01T00:00:00Z"}]
        shares = [{"cluster": name, "replicas": 2} for name in ("m2", "paris")]
        status: Json = {"placements": shares, "leaving": leaving}
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.calm(10)
        assert jobs(world) == {}
        parts = [each | {"completions": n} for each, n in zip(shares, (2, 3), strict=True)]
        status = {"placements": parts, "leaving": []}
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.until(lambda: jobs(world) == {"m2": 2, "paris": 3})


@pytest.mark.proves("KD19", "KD32")
async def test_a_job_is_made_in_neither_mode_with_the_parts_of_the_run_before() -> None:
    """The controller divides the work of an object of another name anew."""
    async with serving("m1", "m2") as world:
        world.put(WORKLOADS, job("Divided"))
        parts = [{"cluster": n, "replicas": 2, "completions": 5} for n in ("m2", "paris")]
        status: Json = {"placements": parts, "run": f"Job {SPACE}/before"}
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.calm(10)
        assert jobs(world) == {}
        status = {"run": f"Job {SPACE}/bill"}
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.until(lambda: jobs(world) == {"m2": 5, "paris": 5})
        named = {"spec": {"template": {"metadata": {"name": "again"}}}}
        world.hub.edit(WORKLOADS, "bill", named)
        await world.calm(10)
        assert jobs(world, "again") == {}
        status = {"run": f"Job {SPACE}/again"}
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.until(lambda: jobs(world, "again") == {"m2": 5, "paris": 5})


@pytest.mark.proves("KD29")
@pytest.mark.parametrize("member", ["m2", "paris"])
async def test_a_job_that_has_ended_on_another_cluster_runs_in_neither_mode(member: str) -> None:
    """As when it ended while it was to leave, and the controller has not heard of that yet."""
    async with serving("m1", "m2") as world:
        world.put(WORKLOADS, job("Single"))
        counts = dict.fromkeys(("scheduled", "current", "ready", "unschedulable", "updated"), 0)
        ended = {"result": "Succeeded", "time": "2026-01-01T00:00:00Z"}
        of_m1 = {"name": "m1", "replicas": 4, **counts, "state": "Complete", "message": ""}
        status = {
            "placements": [{"cluster": member, "replicas": 4}],
            "clusters": [of_m1 | {"ended": ended}],
        }
        world.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)
        await world.calm(10)
        assert jobs(world) == {}


def claims(world: World, member: str) -> dict[Any, Json]:
    """Those on that member, to be changed."""
    found: dict[Any, Json] = world.members[member].objects["persistentvolumeclaims"]
    return found


def with_claims(world: World, member: str) -> Json:
    """A StatefulSet of two replicas, whose claims are on that member."""
    body = statefulset("db")
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    template = {"metadata": {"name": "data"}, "spec": asked}
    body["spec"]["template"]["spec"]["volumeClaimTemplates"] = [template]
    for name in ("data-db-0", "data-db-1"):
        meta = {"name": name, "namespace": SPACE, "uid": name, "resourceVersion": "3"}
        claims(world, member)[SPACE, name] = {"metadata": meta, "spec": asked}
    return body


def stands(world: World, *members: str) -> bool:
    return starts(world, "db").keys() == {*members}


def left(world: World, name: str = "db") -> list[str]:
    kept = world.status(name).get("kept", [])
    return [f"{each['cluster']}/{each['name']}" for each in kept]


@pytest.mark.proves("A7", "KD47")
@pytest.mark.parametrize("member", ["m1", "paris"])
async def test_claims_that_a_statefulset_leaves_are_named_in_both_modes(member: str) -> None:
    """From before its object goes until they are gone, over a restart of the agent."""
    world = PullWorld("m1", "m2")
    sets = world.members[member].objects["statefulsets"]
    there: list[bool] = []

    def named(*claims: str) -> bool:
        told = world.assignment(uid_of(world, "db")) or {}
        noted = left(world) or told.get("status", {}).get("kept")
        there.append(bool(noted or (SPACE, "db") in sets))
        return left(world) == [f"{member}/{each}" for each in claims]

    async with world.propagating():
        async with world.agent():
            await ready(world)
            world.put(WORKLOADS, with_claims(world, member))
            world.place("db", **{member: 2})
            await world.until(lambda: stands(world, member))
            world.place("db", m2=2)
            await world.until(lambda: named("data-db-0", "data-db-1"))
            await world.until(lambda: stands(world, "m2"))
            await world.calm(15)
            assert named("data-db-0", "data-db-1")
            assert all(there), "the object went before they were named"
            assert not sets
        async with world.agent():
            await world.calm(15)
            assert named("data-db-0", "data-db-1")
            del claims(world, member)[SPACE, "data-db-0"]
            await world.until(lambda: named("data-db-1"))
            # One that comes back uses them, and names them anew when it leaves again.
            world.place("db", **{member: 2})
            await world.until(lambda: stands(world, member))
            await world.until(lambda: not left(world))
            world.place("db", m2=2)
            await world.until(lambda: stands(world, "m2") and named("data-db-1"))
            del claims(world, member)[SPACE, "data-db-1"]
            await world.until(lambda: not left(world))
            await world.calm(15)
            assert not left(world)
            assert world.assignment(uid_of(world, "db")) is None


@pytest.mark.proves("A7", "KD47")
async def test_a_workload_whose_claims_an_agent_names_ends() -> None:
    async with serving("m1", "m2") as world:
        world.put(WORKLOADS, with_claims(world, "paris"))
        world.place("db", paris=2)
        await world.until(lambda: stands(world, "paris"))
        world.place("db", m2=2)
        await world.until(lambda: stands(world, "m2") and len(left(world)) == 2)
        uid = uid_of(world, "db")
        world.delete("db")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        await world.until(lambda: world.assignment(uid) is None)
        assert len(claims(world, "paris")) == 2
