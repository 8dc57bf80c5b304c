"""A member in mode Pull, and the same in mode Push beside it, on a hub in memory."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import groupby
from typing import Any, cast

import msgspec
import pytest

from crds.groups.gate import decision_of
from crds.names import (
    AGENT,
    ANNOTATION_HUB,
    ANNOTATION_HUB_VERSION,
    ANNOTATION_INVITED,
    ANNOTATION_KEEP,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_REVOKED,
    ANNOTATION_UNJOIN,
    API_VERSION,
    GIVEN_UP,
    LABEL_GROUP,
    LABEL_MANAGED,
    MEMBER_REPORT,
    OWNER_PREFIX,
    SYSTEM_NAMESPACE,
)
from machinery import metrics
from machinery.api.client import ApiClient
from machinery.api.resources import (
    ASSIGNMENTS,
    MEMBER_CLUSTERS,
    MEMBER_REPORTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    WORKLOAD_GROUPS,
    WORKLOADS,
)
from machinery.errors import Forbidden, NotFound, StowageError
from machinery.kinds.revisions import digest_of, revision_data, unstaged_revision
from machinery.runtime.event_recorder import EventRecorder
from machinery.types import conditions
from propagator.credentials.agent_credential import HubAccess, InviteUsed, WrongHub
from propagator.credentials.agent_image import follow_image
from stowage.setup.pull import upgrade
from stowage.setup.sweep import confirm
from tests.memoryhub import MemoryHub
from tests.propagator.memory import SPACE
from tests.propagator.pulling import HUB_UID, Given, PullWorld, contents_of, namespace_of
from tests.propagator.stage import configmap, deployment
from tests.propagator.test_one_shard import (
    propagated,
    ready,
    runs,
    start,
    starts,
    statefulset,
    workload,
)

Json = dict[str, Any]
_TELLS_APART = ("stowage.dev/member", ANNOTATION_HUB_VERSION)


def uid_of(world: PullWorld, name: str) -> str:
    return str(world.hub.read(WORKLOADS, name)["metadata"]["uid"])


def reason(world: PullWorld, member: str = "paris") -> str:
    return str(conditions.find(world.cluster(member), "Ready").get("reason"))


def scraped(metric: str, member: str = "paris") -> Any:
    """What a scrape tells of the member; None without a series."""
    return metrics.REGISTRY.get_sample_value(metric, {"member_cluster": member})


def plain(found: Json) -> Json:
    """An object without what tells the two members, and two writes, apart."""
    meta = found["metadata"]
    notes = {k: v for k, v in meta["annotations"].items() if k not in _TELLS_APART}
    kept = {key: found.get(key) for key in ("spec", "data", "type")}
    return {"labels": meta["labels"], "notes": notes, **kept}


def objects(world: PullWorld, member: str, *plurals: str) -> Json:
    found = world.members[member].objects
    return {
        f"{plural}/{name}": plain(body)
        for plural in plurals or ("deployments", "configmaps", "secrets")
        for (_, name), body in found[plural].items()
    }


def versions(world: PullWorld, member: str = "paris") -> dict[Any, Any]:
    """UID and version of each object there; a Lease is none of ours to count."""
    return {
        (plural, *key): (body["metadata"]["uid"], body["metadata"]["resourceVersion"])
        for plural, held in world.members[member].objects.items()
        if plural not in ("leases", "nodes")
        for key, body in held.items()
    }


def secret(world: PullWorld, value: str) -> None:
    encoded = base64.b64encode(value.encode()).decode()
    meta = {"name": "token", "namespace": SPACE}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"}
    world.put(SECRETS, {**body, "data": {"value": encoded}})


def turn(world: PullWorld, value: str) -> None:
    """The Secret gets another value."""
    encoded = base64.b64encode(value.encode()).decode()
    world.hub.edit(SECRETS, "token", {"data": {"value": encoded}})


async def placed(world: PullWorld, name: str = "web", **shares: int) -> None:
    await ready(world)
    await start(world, name, **shares)


@asynccontextmanager
async def serving(*pushed: str, **shares: int) -> AsyncIterator[PullWorld]:
    """A propagator, and the agent of paris, with the Workload web so placed."""
    world = PullWorld(*pushed)
    async with world.propagating(), world.agent():
        await ready(world)
        if shares:
            await placed(world, **shares)
        yield world


@pytest.mark.proves("PL2")
async def test_a_pulled_member_gets_what_a_pushed_one_gets() -> None:
    world = PullWorld("m1")
    secret(world, "first")
    async with world.propagating(), world.agent():
        await ready(world)
        body = workload("web")
        body["spec"]["resources"] = [{"name": "token"}]
        world.put(WORKLOADS, body)

        def alike(**shares: int) -> Callable[[], bool]:
            def holds() -> bool:
                one, other = objects(world, "m1"), objects(world, "paris")
                return runs(world, "web", **shares) and bool(one) and one == other

            return holds

        world.place("web", m1=1, paris=1)
        await world.until(alike(m1=1, paris=1))
        world.place("web", m1=3, paris=3)
        await world.until(alike(m1=3, paris=3))
        edit = {"spec": {"targetDeployment": deployment("web", image="other")}}
        world.hub.edit(WORKLOADS, "web", edit)
        await world.until(lambda: world.status("web").get("observedGeneration") == 2)
        await world.until(alike(m1=3, paris=3))
        turn(world, "second")
        second = base64.b64encode(b"second").decode()
        where = (SPACE, "token")
        await world.until(
            lambda: world.members["paris"].objects["secrets"][where]["data"]["value"] == second
        )
        await world.until(alike(m1=3, paris=3))
        await world.calm(3)
        one, other = (
            {k: v for k, v in each.items() if k not in ("name", "capacityVersion")}
            for each in world.status("web")["clusters"]
        )
        assert one == other
        uid = uid_of(world, "web")
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert objects(world, "m1") == objects(world, "paris") == {}
        assert world.assignment(uid) is None


@pytest.mark.proves("PL1")
async def test_a_member_that_nobody_connects_to_is_ready_and_runs_a_workload() -> None:
    world = PullWorld()
    async with world.propagating(), world.agent():
        await world.until(lambda: reason(world) == "Connected", seconds=60)
        await world.until(lambda: world.cluster("paris").get("capacity") is not None)
        await placed(world, paris=2)
        assert [each["spec"]["replicas"] for each in world.deployments("paris")] == [2]
    by = {agent.partition("/")[0] for server, _, _, agent, _ in world.sent if server == "paris"}
    assert by == {"stowage-agent"}


@pytest.mark.proves("PL2")
async def test_drift_on_a_pulled_member_is_repaired() -> None:
    async with serving(paris=2) as world:
        member = world.members["paris"]
        before = objects(world, "paris")
        member.delete("configmaps", (SPACE, "web-conf"))
        await world.until(lambda: objects(world, "paris") == before)


@pytest.mark.proves("PL2")
async def test_a_share_leaves_for_a_pulled_member_once_that_is_ready_and_back() -> None:
    async with serving("m1", m1=3) as world:
        world.place("web", paris=3)
        await world.until(lambda: runs(world, "web", paris=3))
        await world.until(lambda: not world.deployments("m1"))
        world.place("web", m1=3)
        await world.until(lambda: bool(world.deployments("m1")))
        await world.until(lambda: runs(world, "web", m1=3))
        await world.until(lambda: not world.deployments("paris"))


@pytest.mark.proves("PL2")
async def test_what_a_pulled_member_keeps_is_told_as_kept_and_as_no_share() -> None:
    world = PullWorld("m1")
    body, keeper = workload("web"), configmap("keeper", a="1")
    keeper["metadata"]["annotations"] = {ANNOTATION_KEEP: "Always"}
    body["spec"]["manifests"] = [keeper]
    kept = {"cluster": "paris", "kind": "ConfigMap", "namespace": SPACE, "name": "keeper"}
    kept["clusterUID"] = "uid-of-paris"

    def moved() -> bool:
        told = world.status("web")
        shares = [each["name"] for each in told.get("clusters", [])]
        return (shares, told.get("kept")) == (["m1"], [kept])

    async with world.agent():
        async with world.propagating():
            await ready(world)
            world.put(WORKLOADS, body)
            world.place("web", paris=2)
            await world.until(lambda: runs(world, "web", paris=2))
            world.place("web", m1=2)
            await world.until(moved)
        async with world.propagating("two"):
            await world.calm(60, step=1.0)
            assert moved()


@pytest.mark.proves("PL22")
async def test_large_manifests_are_small_on_the_hub_and_too_large_ones_leave_the_share() -> None:
    async with serving() as world:
        body = workload("web")
        body["spec"]["manifests"] = [configmap(f"c{n}", a="plain words " * 2500) for n in range(10)]
        world.put(WORKLOADS, body)
        world.place("web", paris=1)
        await world.until(lambda: runs(world, "web", paris=1))
        uid = uid_of(world, "web")
        stored = world.assignment(uid)
        assert stored is not None
        assert len(str(stored)) < 100_000
        assert len(objects(world, "paris", "configmaps")) == 10
        before, names = stored["spec"], string.ascii_letters + string.digits
        noise = "".join(random.Random(1).choices(names, k=300_000))
        body["spec"]["manifests"] = [configmap(f"c{n}", a=noise + str(n)) for n in range(8)]
        body["spec"]["manifests"] += [
            configmap(f"d{n}", a="".join(random.Random(n).choices(names, k=300_000)))
            for n in range(4)
        ]
        edit = {"spec": {"manifests": body["spec"]["manifests"]}}
        world.hub.edit(WORKLOADS, "web", edit)
        await world.until(lambda: propagated(world, "web") == "TooLarge")
        now = world.assignment(uid)
        assert now is not None
        assert now["spec"] == before
        assert len(objects(world, "paris", "configmaps")) == 10


@pytest.mark.proves("PL24")
async def test_values_of_secrets_travel_in_secrets_alone() -> None:
    world = PullWorld()
    secret(world, "canary-one")
    order: list[tuple[str, str]] = []

    async def note(method: str, path: str, body: Any) -> None:
        where = namespace_of("paris")
        if method in ("POST", "PATCH", "DELETE") and where in path:
            kind = "Secret" if "/secrets" in path else "Assignment"
            if "/status" not in path and ("/secrets" in path or "/assignments" in path):
                order.append((method, kind))

    world.hub.faults.append(note)
    async with world.propagating(), world.agent():
        await ready(world)
        body = workload("web")
        body["spec"]["resources"] = [{"name": "token"}]
        world.put(WORKLOADS, body)
        world.place("web", paris=1)
        await world.until(lambda: runs(world, "web", paris=1))
        assert order == [("POST", "Secret"), ("POST", "Assignment")]
        (copy,) = world.copies()
        assert copy["type"] == "Opaque"
        assert base64.b64encode(b"canary-one") in contents_of(copy)
        order.clear()
        turn(world, "canary-two")
        await world.until(lambda: len(order) >= 3)
        assert order == [("POST", "Secret"), ("PATCH", "Assignment"), ("DELETE", "Secret")]
        await world.calm(3)
        told = str([world.hub.all(ASSIGNMENTS), world.hub.events(), world.hub.all(WORKLOADS)])
        bundle = str(world.bundle(uid_of(world, "web")))
        for value in (b"canary-one", b"canary-two"):
            plainly, encoded = value.decode(), base64.b64encode(value).decode()
            assert not {each for each in (plainly, encoded) if each in told + bundle}
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS), seconds=30)
        await world.until(lambda: not world.copies(), seconds=10)


@pytest.mark.proves("PL31")
async def test_an_agent_that_restarts_writes_nothing_but_leases_and_one_report() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await placed(world, paris=2)
            await world.calm(5)
            before = versions(world)
        world.sent.clear()
        async with world.agent(identity="agent-2"):
            await world.until(lambda: any("memberreports" in p for _, _, p in world.writes_of()))
            await world.calm(30, step=1.0)
            assert [path.rsplit("/", 3)[1] for _, _, path in world.writes_of()] == ["memberreports"]
            assert versions(world) == before


@pytest.mark.proves("PL14")
async def test_a_deletion_waits_for_a_silent_agent_and_names_the_member() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await placed(world, paris=1)
        await world.until(lambda: reason(world) == "AgentSilent", seconds=75, step=0.5)
        world.delete("web")
        await world.calm(20, step=1.0)
        assert "paris" in str(world.status("web")["conditions"])
        assert world.deployments("paris")
        async with world.agent():
            await world.until(lambda: reason(world) == "Connected")
            await world.until(lambda: not world.hub.all(WORKLOADS), seconds=10)
            assert not world.deployments("paris")


@pytest.mark.proves("PL14")
async def test_a_member_that_is_given_up_releases_what_ends() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await placed(world, paris=1)
        await world.until(lambda: reason(world) == "AgentSilent", seconds=75, step=0.5)
        world.delete("web")
        await world.calm(5)
        given_up = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
        world.hub.edit(MEMBER_CLUSTERS, "paris", given_up)
        await world.until(lambda: not world.hub.all(WORKLOADS), seconds=30)


@pytest.mark.proves("PL15")
async def test_an_agent_that_stops_is_told_within_75_seconds() -> None:
    world = PullWorld("m1")
    async with world.propagating():
        async with world.agent():
            await placed(world, m1=1, paris=1)
        assert scraped("stowage_agent_silent_seconds") is not None
        await world.until(lambda: reason(world) == "AgentSilent", seconds=75, step=0.5)
        assert scraped("stowage_agent_silent_seconds") >= 60
        await world.until(lambda: propagated(world, "web") == "ClusterUnreachable")
        state = {each["name"]: each["state"] for each in world.status("web")["clusters"]}
        assert state == {"m1": "Running", "paris": "Unreachable"}
        assert world.deployments("paris"), "what runs stays"


@pytest.mark.proves("PL10")
async def test_without_the_hub_a_running_agent_repairs_and_a_restarted_one_writes_nothing() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await placed(world, paris=2)
            await world.calm(3)
            before, told = objects(world, "paris"), versions(world)
            world.cut.add("agent-1")
            await world.calm(100, step=1.0)
            world.members["paris"].delete("configmaps", (SPACE, "web-conf"))
            await world.until(lambda: objects(world, "paris") == before)
            assert versions(world)["deployments", SPACE, "web"] == told["deployments", SPACE, "web"]
        world.cut.add("agent-2")
        world.members["paris"].delete("configmaps", (SPACE, "web-conf"))
        world.sent.clear()
        async with world.agent(identity="agent-2", source=Cut(world, "paris", "agent-2")) as agent:
            await world.calm(120, step=1.0)
            assert not world.writes_of()
            assert agent.unready()
            world.cut.clear()
            await world.until(lambda: objects(world, "paris") == before, seconds=120, step=0.5)
            held = versions(world)["deployments", SPACE, "web"]
            assert held == told["deployments", SPACE, "web"], "nothing that runs was touched"


class Cut(Given):
    """A credential that needs the hub, as it does."""

    def __init__(self, world: PullWorld, member: str, identity: str) -> None:
        super().__init__(member)
        self._world, self._identity = world, identity

    async def obtain(self) -> Any:
        if self._identity in self._world.cut:
            raise NotFound(code=404, reason="NotFound", message="the hub is away")
        return await super().obtain()


@pytest.mark.proves("PL11")
async def test_assignments_that_are_missing_remove_nothing() -> None:
    async with serving(paris=2) as world:
        await world.calm(3)
        before, uid = versions(world), uid_of(world, "web")
        world.hub.remove(ASSIGNMENTS, uid, namespace_of("paris"))
        await world.until(lambda: world.assignment(uid) is not None)
        await world.until(lambda: runs(world, "web", paris=2))
        await world.calm(5)
        assert versions(world) == before


@pytest.mark.proves("PL12")
async def test_an_old_order_to_remove_leaves_what_is_younger() -> None:
    world = PullWorld()
    async with world.agent():
        async with world.propagating():
            await placed(world, paris=2)
            await world.calm(3)
        before, uid = objects(world, "paris"), uid_of(world, "web")

        def order(digest: str, generation: int, **spec: Any) -> None:
            spec |= {"digest": digest, "workload": {"generation": generation}}
            world.hub.edit(ASSIGNMENTS, uid, {"spec": spec}, namespace=namespace_of("paris"))

        def told() -> Json:
            found = world.assignment(uid)
            return (found or {}).get("status", {})

        order("a3", 3)  # of a shard that has not seen the set-back yet
        await world.until(lambda: told().get("digest") == "a3")
        order("a1", 1, order="Remove", decided="5", secrets=[])
        await world.until(lambda: told().get("state") == "Kept")
        assert "younger" in told()["message"]
        await world.calm(10)
        assert objects(world, "paris") == before
        order("a2", 2)
        await world.until(lambda: told().get("state") == "Removed")
        assert not objects(world, "paris"), "an edit has decided"


@pytest.mark.proves("PL19")
async def test_of_two_agents_one_works() -> None:
    world = PullWorld()
    async with world.propagating(), world.agent(identity="agent-1"):
        await ready(world)
        async with world.agent(identity="agent-2"):
            await placed(world, paris=2)
            await world.calm(100, step=1.0)
            lease = world.members["paris"].objects["leases"]["stowage-system", "stowage-hub"]
            assert lease["spec"]["holderIdentity"].endswith("agent/agent-1")
            world.place("web", paris=3)
            await world.until(lambda: runs(world, "web", paris=3))
        world.sent.clear()
    async with world.propagating("two"), world.agent(identity="agent-3"):
        await world.until(lambda: reason(world) == "Connected")
        world.place("web", paris=1)
        await world.until(lambda: runs(world, "web", paris=1), seconds=90)


@pytest.mark.proves("PL13")
async def test_an_agent_writes_nothing_for_another_hub() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await placed(world, paris=2)
            await world.calm(3)
        before = versions(world)
        world.sent.clear()
        async with world.agent(identity="agent-2", source=Given("paris", uid="another")):
            await world.calm(30, step=1.0)
            assert versions(world) == before
            writes = [each for each in world.writes_of() if each[0] == "paris"]
            assert not writes


class Misled(Given):
    """What answers at the address is another hub, or gives no token."""

    def __init__(self, fault: StowageError) -> None:
        super().__init__("paris")
        self._fault = fault

    async def obtain(self) -> HubAccess:
        raise self._fault


@pytest.mark.proves("PL7")
async def test_a_hub_that_is_set_back_to_before_a_revocation_revokes_again() -> None:
    async with serving(paris=1) as world:
        before = world.hub.snapshot()
        await world.calm(3)
        revoked = {"metadata": {"annotations": {ANNOTATION_REVOKED: "2026-01-02T03:04:05Z"}}}
        world.hub.edit(MEMBER_CLUSTERS, "paris", revoked)
        await world.until(lambda: not world.hub.all(SERVICE_ACCOUNTS))
        world.hub.set_back(before)
        assert reason(world) == "Connected"
        assert world.hub.all(SERVICE_ACCOUNTS)
        await world.until(lambda: not world.hub.all(SERVICE_ACCOUNTS))
        await world.until(lambda: reason(world) == "AgentRevoked")
        found = world.hub.read(MEMBER_CLUSTERS, "paris")
        assert ANNOTATION_REVOKED in found["metadata"]["annotations"]


@pytest.mark.proves("PL5", "PL13")
async def test_a_revoked_membercluster_that_names_anothers_namespace_revokes_nothing() -> None:
    async with serving(paris=1) as world:
        notes = {ANNOTATION_MEMBER_NAMESPACE: namespace_of("paris")}
        notes[ANNOTATION_REVOKED] = "2026-01-02T03:04:05Z"
        body = {"metadata": {"name": "evil", "annotations": notes}, "spec": {"mode": "Pull"}}
        world.put(MEMBER_CLUSTERS, body)
        await world.calm(3)
        since = {"metadata": {"annotations": {ANNOTATION_INVITED: "2026-01-01T00:00:00Z"}}}
        world.hub.edit(MEMBER_CLUSTERS, "paris", since)
        await world.calm(10)
        assert reason(world) == "Connected"
        assert len(world.hub.all(SERVICE_ACCOUNTS)) == 1


@pytest.mark.proves("PL13", "PL6")
@pytest.mark.parametrize("fault", [WrongHub("is another hub"), InviteUsed("may be stolen")])
async def test_another_hub_and_a_used_invitation_are_told_on_the_member(
    fault: StowageError,
) -> None:
    world = PullWorld()
    there = MemoryHub(clock=world.clock)
    recorder = EventRecorder(there, controller="c", instance="i", clock=world.clock)
    wrong = isinstance(fault, WrongHub)
    async with world.agent(source=Misled(fault), recorder=recorder) as agent:
        await world.until(there.events)
        await world.calm(10, step=1.0)
        (told,) = there.events()
        assert (told["reason"], told["note"]) == (type(fault).__name__, str(fault))
        assert told["regarding"]["name"] == AGENT
        assert type(fault).__name__ in agent.unready()
        assert metrics.REGISTRY.get_sample_value("stowage_agent_wrong_hub") == wrong
        assert not world.sent


@pytest.mark.proves("PL23")
async def test_a_member_changes_its_mode_and_nothing_there_is_rewritten() -> None:
    world = PullWorld("m1", pulled=())
    async with world.propagating():
        await placed(world, m1=2)
        await world.calm(3)
        before = versions(world, "m1")
        world.invite_pushed("m1")
        async with world.agent("m1"):
            await world.until(lambda: holder(world).startswith("agent/"))
            await world.until(lambda: reason(world, "m1") == "Connected")
            await world.until(lambda: runs(world, "web", m1=2))
            await world.calm(5)
            assert versions(world, "m1") == before
            assert len(world.hub.events("AgentConnected")) == 1
            assert world.cluster("m1")["pull"]["release"]
            world.place("web", m1=3)
            await world.until(lambda: runs(world, "web", m1=3))
            before = versions(world, "m1")
            old = {"type": "AgentOld", "status": "True"}
            said = [*world.cluster("m1")["conditions"], old]
            world.hub.edit(MEMBER_CLUSTERS, "m1", {"status": {"conditions": said}}, status=True)
            world.hub.edit(MEMBER_CLUSTERS, "m1", {"spec": {"mode": "Push"}})
            world.tell_mode("m1", "Push")
            # No renewal of 30 s is waited for.
            await world.until(lambda: holder(world) not in ("", "agent/agent-1"), seconds=15)
            await world.until(lambda: runs(world, "web", m1=3))
            await world.calm(5)
            assert versions(world, "m1") == before
            # Nothing is told of an agent that is no more, and no Workload kept off for it.
            assert "pull" not in world.cluster("m1")
            assert not conditions.holds(world.cluster("m1"), "AgentOld")
            world.place("web", m1=1)
            await world.until(lambda: runs(world, "web", m1=1))
            by = [
                agent.partition("/")[0]
                for server, method, path, agent, _ in world.sent
                if server == "m1" and method == "PATCH" and "/deployments/" in path
            ]
            turns = [each for each, _ in groupby(by)]
        assert turns == ["stowage-propagator", "stowage-agent", "stowage-propagator"]


async def test_a_cluster_that_is_given_up_is_free_for_another_name_at_once() -> None:
    world = PullWorld("m1", pulled=())
    async with world.propagating():
        await ready(world)
        await world.until(lambda: holder(world) != "")
        given_up = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
        world.hub.edit(MEMBER_CLUSTERS, "m1", given_up)
        await world.until(lambda: holder(world) == "", seconds=15)


def holder(world: PullWorld, member: str = "m1") -> str:
    """The process that holds the member."""
    lease = world.members[member].objects["leases"]["stowage-system", "stowage-hub"]
    return "".join((lease["spec"].get("holderIdentity") or "").split(" ")[2:])


@pytest.mark.proves("PL26")
async def test_a_move_between_the_modes_never_has_less_ready_than_wanted() -> None:
    world = PullWorld("m1")
    least: list[int] = []

    def ready_now() -> int:
        found = [*world.deployments("m1"), *world.deployments("paris")]
        return sum(each["status"]["readyReplicas"] for each in found)

    def sampled(**shares: int) -> Callable[[], bool]:
        def holds() -> bool:
            least.append(ready_now())
            return runs(world, "web", **shares) and ready_now() == sum(shares.values())

        return holds

    async with world.propagating(), world.agent():
        await placed(world, m1=3)
        for shares in ({"paris": 3}, {"m1": 1, "paris": 2}, {"m1": 3}):
            world.place("web", **shares)
            await world.until(sampled(**shares))
        assert min(least) == 3
        world.cut.add("agent-1")  # it serves its member, and tells nothing of it
        world.place("web", paris=3)
        await world.calm(45, step=0.5)
        assert world.deployments("m1"), "what is not told to be ready replaces nothing"


@pytest.mark.proves("PL27")
async def test_what_runs_at_most_once_comes_after_the_agent_has_told_that_it_is_gone() -> None:
    world = PullWorld("m1")
    most: list[int] = []

    def sampled(**shares: int) -> Callable[[], bool]:
        def holds() -> bool:
            found = [*world.deployments("m1"), *world.deployments("paris")]
            most.append(sum(each["spec"]["replicas"] for each in found))
            return runs(world, "web", **shares)

        return holds

    async with world.propagating(), world.agent():
        await ready(world)
        body = workload("web")
        body["spec"]["movement"] = {"maxSurge": 0}
        world.put(WORKLOADS, body)
        for shares in ({"paris": 3}, {"m1": 3}, {"paris": 3}):
            world.place("web", **shares)
            await world.until(sampled(**shares))
        world.cut.add("agent-1")
        world.place("web", m1=3)
        await world.calm(45, step=0.5)
        assert not world.deployments("m1"), "the agent has not told that its pods are gone"
        assert max(most) == 3


@pytest.mark.proves("PL2", "KD49")
async def test_a_statefulset_there_keeps_its_ordinals_through_an_edit() -> None:
    async with serving("m1") as world:
        world.put(WORKLOADS, statefulset("db"))
        world.place("db", m1=1, paris=1)
        await world.until(
            lambda: starts(world, "db") == {"m1": (0, "pause"), "paris": (1000, "pause")}
        )
        await world.calm(3)
        world.hub.edit(WORKLOADS, "db", {"spec": statefulset("db", "other")["spec"]})
        world.hub.edit(WORKLOADS, "db", {"status": {"ordinals": []}})
        await world.until(
            lambda: starts(world, "db") == {"m1": (0, "other"), "paris": (1000, "other")}
        )


@pytest.mark.proves("PL25")
async def test_an_agent_at_rest_costs_the_hub_a_renewal_each_20_seconds() -> None:
    async with serving(paris=2) as world:
        await world.calm(30)
        watched = {
            (agent.partition("/")[0], path.partition("?")[0])
            for server, method, path, agent, _ in world.sent
            if server == "hub" and method == "WATCH" and namespace_of("paris") in path
        }
        assert sum(by == "stowage-agent" for by, _ in watched) <= 4
        assert sum(by == "stowage-propagator" for by, _ in watched) == 3
        world.sent.clear()
        await world.calm(100, step=0.5)
        writes = [
            path
            for server, method, path, agent, _ in world.sent
            if server == "hub" and method not in ("GET", "WATCH") and "stowage-member" in path
        ]
        assert len(writes) <= 6, writes


@pytest.mark.proves("SC33")
async def test_agents_whose_watches_end_together_list_one_after_the_other() -> None:
    """And so do the watches of the hub's side. Meanwhile the member counts as there."""
    members = ("paris", "rome", "oslo", "bern")
    world = PullWorld(pulled=members)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.propagating())
        for name in members:
            await stack.enter_async_context(world.agent(name, identity=name))
        await ready(world)
        await world.calm(10)
        world.sent.clear()
        world.hub.set_back(world.hub.snapshot(), bump=1)
        lists: dict[str, list[float]] = {"stowage-agent": [], "stowage-propagator": []}
        for _ in range(80):
            before = len(world.sent)
            await world.clock.advance(0.5)
            for _server, method, path, by, _ in world.sent[before:]:
                if method == "GET" and "/stowage-member-" in path and "limit=" in path:
                    lists[by.partition("/")[0]].append(world.clock.monotonic())
                    assert "limit=50" in path
        assert {by: len(times) for by, times in lists.items()} == dict.fromkeys(lists, 12)
        assert all(max(times) - min(times) >= 5 for times in lists.values()), lists
        assert all(reason(world, name) == "Connected" for name in members)


@pytest.mark.proves("PL32")
async def test_a_clock_that_is_off_is_told() -> None:
    world = PullWorld()
    async with world.propagating(), world.agent(ahead=300):
        await ready(world)
        await world.until(lambda: world.cluster("paris")["pull"].get("skewSeconds") == 300)
        assert reason(world) == "Connected"


@pytest.mark.proves("PL20")
async def test_an_agent_that_is_too_old_keeps_what_it_has_and_gets_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = PullWorld()
    async with world.agent():
        async with world.propagating():
            await placed(world, paris=2)
        monkeypatch.setattr("propagator.hub.cluster_status.oldest_served", lambda _: "9.0.0")
        async with world.propagating("two"):
            world.put(WORKLOADS, workload("new"))
            world.place("new", paris=1)
            await world.until(lambda: conditions.holds(world.cluster("paris"), "AgentOld"))
            assert scraped("stowage_agent_old") == 1
            await world.calm(5)
            assert [each["metadata"]["name"] for each in world.deployments("paris")] == ["web"]
            world.place("web", paris=3)
            await world.until(lambda: runs(world, "web", paris=3))


SINCE = {
    "memberreports": ("upgrade", "kinds", "kindsOmitted", "quotas"),
    "assignments": (
        *("health", "ended", "blocked", "holds", "start", "fields", "reported"),
        *("completed", "succeeded", "failed", "available", "refused", "outdated"),
    ),
}
"""Fields that agents of the first release do not tell."""


@pytest.mark.proves("PL20")
async def test_an_agent_that_tells_less_and_else_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of two releases ago: it lacks what came since, and may tell what is no more."""
    world = PullWorld("m1")
    request, told = world.hub.request, set[str]()

    async def as_it_was(method: str, path: str, **how: Any) -> bytes:
        (kind,) = [k for k in SINCE if f"/{k}/" in path and path.endswith("/status")] or [""]
        if method == "PATCH" and kind:
            patch = how["body"]
            patch = msgspec.json.decode(patch) if isinstance(patch, bytes) else patch
            status = {k: v for k, v in patch["status"].items() if k not in SINCE[kind]}
            if counts := status.get("counts"):
                status["counts"] = {k: v for k, v in counts.items() if k not in SINCE[kind]}
            told.add(kind)
            how["body"] = {**patch, "status": {**status, "former": {"field": [1]}}}
        return await request(method, path, **how)

    monkeypatch.setattr(world.hub, "request", as_it_was)
    async with world.propagating(), world.agent():
        await placed(world, m1=1, paris=1)
        world.place("web", m1=3, paris=3)
        await world.until(lambda: runs(world, "web", m1=3, paris=3))
        edit = {"spec": {"targetDeployment": deployment("web", image="other")}}
        world.hub.edit(WORKLOADS, "web", edit)
        await world.until(lambda: world.status("web").get("observedGeneration") == 2)
        await world.until(lambda: runs(world, "web", m1=3, paris=3))
        world.place("web", m1=2)
        await world.until(lambda: not world.deployments("paris"))
        world.place("web", paris=2)
        await world.until(lambda: runs(world, "web", paris=2) and not world.deployments("m1"))
        world.delete("web")
        await world.until(lambda: not world.hub.all(WORKLOADS))
        assert not world.deployments("paris")
    assert told == {*SINCE}


@pytest.mark.proves("PL11")
async def test_what_stands_without_an_assignment_is_told() -> None:
    world = PullWorld()
    async with world.agent():
        async with world.propagating():
            await placed(world, paris=2)
            await world.calm(3)
        before, uid = versions(world), uid_of(world, "web")
        world.hub.remove(ASSIGNMENTS, uid, namespace_of("paris"))
        await world.until(lambda: world.report().get("unassigned", {}).get("count") == 1)
        (named,) = world.report()["unassigned"]["workloads"]
        assert (named["namespace"], named["name"], named["uid"]) == (SPACE, "web", uid)
        assert versions(world) == before
        async with world.propagating("two"):
            await world.until(lambda: conditions.holds(world.cluster("paris"), "HubForgot"))
            await world.until(lambda: len(world.hub.events("HubForgot")) == 1)
            await world.until(lambda: world.assignment(uid) is not None)
            await world.until(lambda: not conditions.holds(world.cluster("paris"), "HubForgot"))
            assert versions(world) == before


@pytest.mark.proves("PL29")
async def test_a_gang_starts_on_both_or_on_none() -> None:
    world = PullWorld("m1")
    async with world.propagating():
        async with world.agent():
            await ready(world)
        await world.until(lambda: reason(world) == "AgentSilent", seconds=75, step=0.5)
        group = {"apiVersion": API_VERSION, "kind": "WorkloadGroup"}
        meta = {"name": "batch", "namespace": SPACE}
        world.put(WORKLOAD_GROUPS, {**group, "metadata": meta, "spec": {"minMember": 2}})
        body = workload("web")
        body["metadata"]["labels"] = {LABEL_GROUP: "batch"}
        world.put(WORKLOADS, body)
        world.place("web", m1=1, paris=1)
        decisions = {uid_of(world, "web"): decision_of({"m1": 1, "paris": 1})}
        opened = {"status": {"gate": "Open", "decisions": decisions}}
        world.hub.edit(WORKLOAD_GROUPS, "batch", opened, status=True)
        await world.calm(45, step=0.5)
        assert not world.deployments("m1")
        assert not world.deployments("paris")
        async with world.agent(identity="agent-2"):
            await world.until(lambda: runs(world, "web", m1=1, paris=1), seconds=90)


@pytest.mark.proves("PL17")
async def test_another_provider_and_ten_times_the_room_are_not_believed_at_once() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await ready(world)
            await world.until(lambda: "capacity" in world.cluster("paris"))
            before = world.cluster("paris")
            told = world.report()
        lie = {"provider": "elsewhere", "capacity": {"nodes": 1, "allocatable": {"cpu": "80"}}}
        world.tell("paris", {**told, **lie})
        await world.until(lambda: conditions.holds(world.cluster("paris"), "ReportDiffers"))
        now = world.cluster("paris")
        assert (now["provider"], now["capacity"]) == (before["provider"], before["capacity"])
        message = conditions.find(now, "ReportDiffers")["message"]
        assert "elsewhere" in message
        assert str(before["provider"]) in message
        old = before["capacity"]["allocatable"]["cpu"]
        assert f"allocatable cpu is told as 80 and counts as {old}" in message
        world.hub.edit(MEMBER_CLUSTERS, "paris", {"spec": {"reported": "Accepted"}})
        await world.until(lambda: world.cluster("paris")["provider"] == "elsewhere")
        assert world.cluster("paris")["capacity"] == before["capacity"]
        await world.calm(620, step=2.0)
        assert world.cluster("paris")["capacity"]["allocatable"]["cpu"] == "80"
        assert not conditions.holds(world.cluster("paris"), "ReportDiffers")


@pytest.mark.proves("PL17")
async def test_an_agent_that_tells_of_another_cluster_is_refused_and_harms_no_other_member() -> (
    None
):
    world = PullWorld("m1", pulled=("evil",))
    async with world.propagating():
        async with world.agent("evil"):
            await ready(world)
            before = world.cluster("evil")
            told = world.report("evil")
        world.tell("evil", {**told, "clusterID": "uid-of-m1", "clusterUID": "uid-of-m1"})
        await world.until(lambda: reason(world, "evil") == "ClusterChanged")
        now = world.cluster("evil")
        assert now.get("clusterID") == before["clusterID"] == "uid-of-evil"
        assert now["capacity"] == before["capacity"]
    async with world.propagating("two"):
        await world.until(lambda: reason(world, "evil") == "ClusterChanged", step=0.5)
        assert reason(world, "m1") == "Connected"


@pytest.mark.proves("PL13")
async def test_an_agent_in_another_cluster_than_ordered_writes_nothing_there() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await placed(world, paris=2)
        world.same["paris"] = "rome"  # its Secret was copied there
        world.members["paris"].objects["deployments"].clear()
        world.sent.clear()
        async with world.agent(identity="agent-2"):
            await world.until(lambda: reason(world) == "ClusterChanged", seconds=90, step=0.5)
            await world.calm(10)
            assert "rome" in conditions.find(world.cluster("paris"), "Ready")["message"]
            assert not world.deployments("paris")
            assert world.cluster("paris")["clusterID"] == "uid-of-paris"
        world.same.clear()
        async with world.agent(identity="agent-3"):
            await world.until(lambda: runs(world, "web", paris=2), seconds=120, step=0.5)


@pytest.mark.proves("PL11")
async def test_an_assignment_and_a_secret_that_a_person_changed_are_as_ordered_again() -> None:
    world = PullWorld()
    secret(world, "first")
    async with world.propagating():
        async with world.agent():
            await ready(world)
            body = workload("web")
            body["spec"]["resources"] = [{"name": "token"}]
            world.put(WORKLOADS, body)
            world.place("web", paris=2)
            await world.until(lambda: runs(world, "web", paris=2))
            await world.calm(3)
            uid = uid_of(world, "web")
            before = spec_of(world, uid)
            less = {"spec": {"replicas": 1, "order": "Observe"}}
            world.hub.edit(ASSIGNMENTS, uid, less, namespace=namespace_of("paris"))
            await world.until(lambda: spec_of(world, uid) == before)
        (copy,) = world.copies()
        world.hub.remove(SECRETS, copy["metadata"]["name"], namespace_of("paris"))
        async with world.agent(identity="agent-2"):
            world.members["paris"].delete("secrets", (SPACE, "token"))
            await world.until(lambda: bool(objects(world, "paris", "secrets")))
            await world.until(lambda: runs(world, "web", paris=2))
        assert [each["metadata"]["name"] for each in world.copies()] == [copy["metadata"]["name"]]


def spec_of(world: PullWorld, uid: str) -> Json:
    """What is ordered, but for the version that it was decided at."""
    found = world.assignment(uid)
    assert found is not None
    return {key: value for key, value in found["spec"].items() if key != "decided"}


@pytest.mark.proves("PL12")
async def test_what_a_hub_that_was_set_back_has_forgotten_is_told_again() -> None:
    async with serving(paris=2) as world:
        await world.calm(3)
        uid, told = uid_of(world, "web"), world.report()
        where: Json = {"namespace": namespace_of("paris"), "status": True}
        found = world.assignment(uid)
        assert found is not None
        world.hub.edit(ASSIGNMENTS, uid, {"status": dict.fromkeys(found["status"])}, **where)
        world.tell("paris", dict.fromkeys(told))
        await world.until(lambda: runs(world, "web", paris=2))
        began = told["started"]
        await world.until(lambda: world.report()["started"] == began, seconds=400, step=1.0)
        await world.until(lambda: reason(world) == "Connected")


@pytest.mark.proves("PL20")
async def test_an_order_that_the_agent_cannot_read_is_told() -> None:
    world = PullWorld()
    async with world.agent():
        async with world.propagating():
            await placed(world, paris=2)
            await world.calm(3)
        uid, before = uid_of(world, "web"), versions(world)
        odd = {"spec": {"bundle": "of a younger release"}}
        world.hub.edit(ASSIGNMENTS, uid, odd, namespace=namespace_of("paris"))
        await world.until(
            lambda: "cannot read" in (world.assignment(uid) or {})["status"]["message"]
        )
        assert versions(world) == before
        async with world.propagating("two"):
            await world.until(lambda: runs(world, "web", paris=2))


def leave(world: PullWorld, *numbers: int, version: str = "1") -> None:
    """What Workloads left on paris that the hub does not know."""
    for number in numbers:
        found = configmap(f"gone-{number}")
        notes = {
            f"{OWNER_PREFIX}uid-{number}": f"{SPACE}/gone-{number}",
            ANNOTATION_HUB: HUB_UID,
            ANNOTATION_HUB_VERSION: version,
        }
        more = {"namespace": SPACE, "annotations": notes, "labels": {LABEL_MANAGED: "true"}}
        found["metadata"] |= {**more, "creationTimestamp": "2031-01-01T00:00:00Z"}
        world.members["paris"].apply("configmaps", (SPACE, f"gone-{number}"), found)


def left(world: PullWorld) -> int:
    names = [name for _, name in world.members["paris"].objects["configmaps"]]
    return sum(name.startswith("gone-") for name in names)


@pytest.mark.proves("PL30")
async def test_what_workloads_left_that_the_hub_does_not_know_is_swept() -> None:
    world = PullWorld()
    leave(world, *range(3))
    foreign = configmap("anothers")
    notes = {f"{OWNER_PREFIX}uid-9": f"{SPACE}/anothers", ANNOTATION_HUB: "another hub"}
    foreign["metadata"] |= {"namespace": SPACE, "annotations": notes, "labels": {}}
    world.members["paris"].apply("configmaps", (SPACE, "anothers"), foreign)
    async with world.propagating(), world.agent():
        await placed(world, paris=1)
        await world.until(lambda: world.report().get("unassigned", {}).get("count") == 3)
        await world.until(lambda: not left(world))
        await world.until(lambda: len(world.hub.all(ASSIGNMENTS)) == 1)
        await world.until(lambda: "unassigned" not in world.report())
        sent = world.writes_of("stowage-propagator")
        made = [path for _, method, path in sent if method == "POST" and "/assignments?" in path]
        assert len(made) == 4, "each once"
        assert len(objects(world, "paris", "configmaps")) == 2, "another hub's, and web's"
        member = world.members["paris"]
        for plural, name in (("deployments", "web"), ("configmaps", "web-conf")):
            found = member.objects[plural][SPACE, name]
            found["metadata"]["creationTimestamp"] = "2031-01-01T00:00:00Z"
            member.report(plural, (SPACE, name))
        world.hub.remove(WORKLOADS, "web")  # as without its finalizer
        await world.until(lambda: not world.deployments("paris"))
        await world.until(lambda: not world.hub.all(ASSIGNMENTS))
        assert not conditions.holds(world.cluster("paris"), "SweepHeld")


@pytest.mark.proves("PL30")
async def test_a_sweep_of_much_at_once_waits_for_a_person_on_a_pulled_member() -> None:
    world = PullWorld()
    leave(world, *range(12))
    async with world.propagating(), world.agent():
        await ready(world)
        await world.until(lambda: conditions.holds(world.cluster("paris"), "SweepHeld"))
        held = world.cluster("paris")["sweepHeld"]
        assert held["count"] == 12
        await world.calm(30, step=0.5)
        assert left(world) == 12
        assert not world.hub.all(ASSIGNMENTS)
        await confirm(cast("Any", world.hub), "paris", "")
        await world.until(lambda: not left(world))
        await world.until(lambda: not conditions.holds(world.cluster("paris"), "SweepHeld"))
        leave(world, 12, version="9000000000")  # the hub will not be there for years
        await world.until(lambda: conditions.holds(world.cluster("paris"), "SweepHeld"))
        why = conditions.find(world.cluster("paris"), "SweepHeld")["reason"]
        assert (why, left(world)) == ("HubWentBack", 1)


class Upgrading(Given):
    """A credential whose agent is a Deployment on its member."""

    def __init__(self, world: PullWorld, member: str) -> None:
        super().__init__(member)
        self._world = world

    async def follow_image(self, image: str) -> str:
        connection = (await self.member()).connection
        async with ApiClient(connection, clock=self._world.clock) as member:
            return await follow_image(member, image)


@pytest.mark.proves("PL21")
async def test_an_agent_goes_on_and_tells_while_the_image_of_an_upgrade_cannot_start() -> None:
    world = PullWorld()
    member, where = world.members["paris"], (SYSTEM_NAMESPACE, AGENT)
    member.apply("deployments", where, deployment(AGENT, image="old"))

    def image() -> str:
        spec = member.objects["deployments"][where]["spec"]["template"]["spec"]
        return str(spec["containers"][0]["image"])

    async with world.propagating(), world.agent(source=Upgrading(world, "paris")):
        await ready(world)
        await upgrade(cast("Any", world.hub), "none:2", {}, say=print)
        await world.until(lambda: image() == "none:2")
        failed = {"type": "Progressing", "status": "False", "message": "exceeded its deadline"}
        member.report("deployments", where, conditions=[failed])
        told = "the agent of image none:2 does not start: exceeded its deadline"
        await world.until(lambda: world.cluster("paris")["pull"].get("upgrade") == told)
        await placed(world, paris=2)
        await upgrade(cast("Any", world.hub), "old", {}, say=print)
        await world.until(lambda: image() == "old")
        await world.until(lambda: "upgrade" not in world.cluster("paris")["pull"])


@pytest.mark.proves("PL28")
async def test_a_budget_holds_while_the_hub_stops_in_the_middle_of_a_lowering() -> None:
    world = PullWorld("m1")
    member, where = world.members["paris"], (SPACE, "web")
    allows = {"disruptionsAllowed": 1, "observedGeneration": 1}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 3},
        "status": allows,
    }
    member.apply("poddisruptionbudgets", where, budget)

    def asked() -> int:
        (found,) = world.deployments("paris")
        return int(found["spec"]["replicas"])

    async with world.agent():
        async with world.propagating():
            await placed(world, paris=4)
            since = {"since": "2026-01-01T00:00:00Z", "cause": "Drained"}
            leaving = [{"cluster": "paris", "replicas": 4, "replaced": 4, **since}]
            world.hub.edit(WORKLOADS, "web", {"status": {"leaving": leaving}}, status=True)
            world.place("web", m1=4)
            await world.until(lambda: asked() == 3)
            member.report("poddisruptionbudgets", where, disruptionsAllowed=0)
            await world.until(lambda: "budget" in str(world.status("web")["clusters"]))
        await world.calm(60, step=0.5)
        assert asked() == 3
        for left_over in (2, 1):
            member.report("poddisruptionbudgets", where, disruptionsAllowed=1)
            await world.until(lambda n=left_over: asked() == n)
            member.report("poddisruptionbudgets", where, disruptionsAllowed=0)
            await world.calm(30, step=0.5)
            assert asked() == left_over


@pytest.mark.proves("M30", "PL28")
async def test_a_budget_that_the_workload_carries_bounds_a_step_of_an_agent_and_not_the_last() -> (
    None
):
    world = PullWorld("m1")
    member, where = world.members["paris"], (SPACE, "web")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 3},
    }

    def asked() -> int:
        (found,) = world.deployments("paris")
        return int(found["spec"]["replicas"])

    async with world.agent(), world.propagating():
        await ready(world)
        body = workload("web")
        body["spec"]["manifests"].append(budget)
        world.put(WORKLOADS, body)
        world.place("web", paris=4)
        await world.until(lambda: runs(world, "web", paris=4))
        member.report("poddisruptionbudgets", where, disruptionsAllowed=1, observedGeneration=1)
        since = {"since": "2026-01-01T00:00:00Z", "cause": "Rebalanced"}
        leaving = [{"cluster": "paris", "replicas": 3, "replaced": 3, **since}]
        world.hub.edit(WORKLOADS, "web", {"status": {"leaving": leaving}}, status=True)
        world.place("web", paris=1, m1=3)
        await world.until(lambda: asked() < 4)
        assert asked() == 3
        member.report("poddisruptionbudgets", where, disruptionsAllowed=0)
        await world.calm(30, step=0.5)
        assert asked() == 3
        world.place("web", m1=4)
        await world.until(lambda: not world.deployments("paris"))


@pytest.mark.proves("PL28", "M17")
async def test_an_edit_reaches_a_share_that_a_budget_holds() -> None:
    """Else an image that mends pods whose budget allows nothing would never come."""
    world = PullWorld("m1")
    member, where = world.members["paris"], (SPACE, "all")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
    }
    member.apply("poddisruptionbudgets", where, budget)

    def runs_there() -> tuple[str, int]:
        (found,) = world.deployments("paris")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        return container["image"], found["spec"]["replicas"]

    async with world.agent(), world.propagating():
        await placed(world, paris=4)
        since = {"since": "2026-01-01T00:00:00Z", "cause": "Rebalanced"}
        leaving = [{"cluster": "paris", "replicas": 3, "replaced": 3, **since}]
        world.hub.edit(WORKLOADS, "web", {"status": {"leaving": leaving}}, status=True)
        world.place("web", paris=1, m1=3)
        await world.until(lambda: runs_there()[1] == 3)
        member.report("poddisruptionbudgets", where, disruptionsAllowed=0)
        spec = {"targetDeployment": deployment("web", image="mended")}
        world.hub.edit(WORKLOADS, "web", {"spec": spec})
        await world.until(lambda: runs_there() == ("mended", 3))
        await world.calm(30, step=0.5)
        assert runs_there() == ("mended", 3)
        member.report("poddisruptionbudgets", where, disruptionsAllowed=2)
        await world.until(lambda: runs_there() == ("mended", 1))


@pytest.mark.proves("A9")
@pytest.mark.parametrize(("held", "image"), [(False, "one"), (False, "two"), (True, "two")])
async def test_a_rollout_begins_with_what_an_agent_runs(*, held: bool, image: str) -> None:
    """A `held` one has written nothing of late: its Assignment does not tell what runs there."""
    waves = [{"name": "a", "clusterSelector": {"matchLabels": {"tier": "canary"}}}]

    def revision() -> str:
        shares = {each["name"]: each for each in world.status("web").get("clusters", [])}
        return str(shares["paris"].get("revision", ""))

    def runs_there() -> str:
        (found,) = world.deployments("paris")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    async with serving() as world:
        body = workload("web")
        body["spec"]["targetDeployment"] = deployment("web", image="one")
        world.put(WORKLOADS, body)
        world.place("web", paris=2)
        await world.until(lambda: runs(world, "web", paris=2))
        if held:
            uid = world.hub.read(WORKLOADS, "web")["metadata"]["uid"]
            world.hub.edit(WORKLOADS, "web", {"spec": {"suspend": {"clusterSelector": {}}}})
            await world.until(lambda: (world.assignment(uid) or {})["spec"]["order"] == "Observe")
            await world.calm(5)
        edited = {"targetDeployment": deployment("web", image=image), "rollout": {"waves": waves}}
        world.hub.edit(WORKLOADS, "web", {"spec": {**edited, "suspend": None}})
        await world.until(revision, seconds=20)
        await world.calm(5)
        spec = digest_of(revision_data(world.hub.read(WORKLOADS, "web")["spec"]))
        there = spec if image == "one" else unstaged_revision(spec)
        assert (revision(), runs_there()) == (there, "one")
        rollout = {"phase": "Progressing", "revision": spec}
        waits = {"rollout": rollout, "revisions": [{"revision": there, "clusters": ["paris"]}]}
        world.hub.edit(WORKLOADS, "web", {"status": waits}, status=True)
        await world.calm(20)
        assert (revision(), runs_there()) == (there, "one"), "its wave has not come"
        world.hub.edit(WORKLOADS, "web", {"status": {"revisions": []}}, status=True)
        await world.until(lambda: (revision(), runs_there()) == (spec, image))


@pytest.mark.proves("T1", "T23")
@pytest.mark.parametrize("member", ["paris", "m1"])
async def test_a_refusal_leaves_a_share_its_revision(member: str) -> None:
    """Else the rollout would take its cluster for one that was given none, and take it back."""
    world, full = PullWorld("m1"), list[str]()
    attempt = world._attempt

    async def refuses(client: Any, call: Any, token: Any) -> bytes:
        if full and call.method == "PATCH" and "/deployments/" in call.url.path:
            raise Forbidden(code=403, reason="Forbidden", message=full[0])
        return await attempt(client, call, token)

    world._attempt = refuses  # type: ignore[method-assign]
    async with world.propagating(), world.agent():
        await ready(world)
        body = workload("web")
        body["spec"]["rollout"] = {"waves": [{"name": "a", "clusterSelector": {}}]}
        world.put(WORKLOADS, body)
        spec = digest_of(revision_data(world.hub.read(WORKLOADS, "web")["spec"]))
        rollout = {"phase": "Progressing", "revision": spec}
        world.hub.edit(WORKLOADS, "web", {"status": {"rollout": rollout}}, status=True)
        world.place("web", **{member: 2})
        await world.until(lambda: world.status("web")["clusters"][0].get("revision") == spec)
        full.append("no room in the quota")
        world.place("web", **{member: 3})
        await world.until(lambda: full[0] in str(world.status("web")["clusters"]))
        await world.calm(5)
        assert world.status("web")["clusters"][0].get("revision") == spec


@pytest.mark.proves("PL2")
async def test_facts_that_are_gone_from_a_report_are_gone_from_the_member() -> None:
    world = PullWorld()
    async with world.propagating():
        async with world.agent():
            await ready(world)
            await world.until(lambda: "capacity" in world.cluster("paris"))
        quota = {"namespace": SPACE, "name": "most", "free": {"pods": "1"}}
        world.tell("paris", {"quotas": [quota]})
        await world.until(lambda: world.cluster("paris").get("quotas") == [quota])
        world.tell("paris", {"quotas": None, "nodeGroups": None})
        await world.until(lambda: world.cluster("paris")["nodeGroups"] == [])
        assert "quotas" not in world.cluster("paris")


@pytest.mark.proves("PL15")
async def test_a_report_that_is_gone_needs_an_operator() -> None:
    async with serving() as world:
        world.hub.remove(MEMBER_REPORTS, MEMBER_REPORT, namespace_of("paris"))
        await world.until(lambda: reason(world) == "AgentRevoked")
        message = conditions.find(world.cluster("paris"), "Ready")["message"]
        assert "its MemberReport is gone: run `stowage invite paris --renew`" in message
        assert scraped("stowage_agent_silent_seconds") is None, "there is no agent to be silent"


@pytest.mark.proves("KD72", "PL2")
async def test_a_share_that_gets_unhealthy_is_told_as_one_in_mode_push() -> None:
    async with serving("m1") as world:
        body = workload("web")
        world.put(
            WORKLOADS, {**body, "spec": body["spec"] | {"movement": {"unhealthySeconds": 30}}}
        )
        world.place("web", m1=1, paris=1)

        def told() -> dict[str, Json]:
            return {
                e["name"]: e.get("failover", {}) for e in world.status("web").get("clusters", [])
            }

        await world.until(lambda: all(told().values()) and len(told()) == 2)
        for server in world.members.values():
            server.report("deployments", (SPACE, "web"), readyReplicas=0)
        await world.until(lambda: all(each.get("seconds") == 30 for each in told().values()))
