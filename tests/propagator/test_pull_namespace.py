"""A MemberCluster is served in the namespace whose label names it, and in no other.

Who may edit MemberClusters, and no Secret, writes its annotation as they like.
"""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import (
    AGENT_ACCOUNT,
    ANNOTATION_INVITED,
    ANNOTATION_MEMBER_NAMESPACE,
    ANNOTATION_REVOKED,
    API_VERSION,
    LABEL_MEMBER_NAMESPACE,
)
from machinery.api.resources import (
    ASSIGNMENTS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    WORKLOADS,
)
from machinery.errors import NotFound
from machinery.types import conditions
from tests.propagator.pulling import PullWorld, namespace_of
from tests.propagator.test_one_shard import ready, runs, workload
from tests.propagator.test_pull import secret, serving, uid_of, versions


def verdict(world: PullWorld, member: str) -> tuple[str, str]:
    """Status and reason of Ready."""
    found = conditions.find(world.cluster(member), "Ready")
    return str(found.get("status")), str(found.get("reason"))


def uids(world: PullWorld) -> dict[Any, Any]:
    return {key: uid for key, (uid, _) in versions(world).items()}


def names(world: PullWorld, member: str, of: str, **more: str) -> None:
    """The MemberCluster, made if there is none, names the namespace of another one."""
    notes = {ANNOTATION_MEMBER_NAMESPACE: namespace_of(of), **more}
    patch = {"metadata": {"annotations": notes}, "spec": {"mode": "Pull"}}
    try:
        world.hub.edit(MEMBER_CLUSTERS, member, patch)
    except NotFound:
        meta = {"name": member, "annotations": notes}
        body = {"apiVersion": API_VERSION, "kind": "MemberCluster", "metadata": meta}
        world.put(MEMBER_CLUSTERS, {**body, "spec": {"mode": "Pull"}})


@pytest.mark.proves("PL4")
async def test_a_membercluster_that_names_anothers_namespace_is_not_served_there() -> None:
    async with serving() as world:
        ends = {ANNOTATION_INVITED: "2020-01-02T03:04:05Z"}
        names(world, "evil", "paris", **ends)
        await world.until(lambda: verdict(world, "evil") == ("False", "AgentRevoked"))
        world.put(WORKLOADS, workload("web"))
        world.place("web", evil=1)
        await world.calm(10)
        assert not world.hub.all(ASSIGNMENTS)
        notes = {"metadata": {"annotations": {ANNOTATION_REVOKED: "2026-01-02T03:04:05Z"}}}
        world.hub.edit(MEMBER_CLUSTERS, "evil", notes)
        await world.calm(10)
        assert world.hub.read(SERVICE_ACCOUNTS, AGENT_ACCOUNT, namespace_of("paris"))
        assert verdict(world, "paris") == ("True", "Connected")


@pytest.mark.proves("PL4")
async def test_what_a_member_gets_goes_into_no_namespace_of_another_one() -> None:
    world = PullWorld(pulled=("paris", "evil"))
    secret(world, "first")
    async with world.propagating(), world.agent(), world.agent("evil", "agent-2"):
        await ready(world)
        body = workload("web")
        body["spec"]["resources"] = [{"name": "token"}]
        world.put(WORKLOADS, body)
        world.place("web", paris=1)
        await world.until(lambda: runs(world, "web", paris=1))
        names(world, "paris", "evil")
        await world.until(lambda: verdict(world, "paris") == ("False", "AgentRevoked"))
        world.place("web", paris=2)
        await world.calm(10)
        assert world.assignment(uid_of(world, "web"), "evil") is None
        assert not world.copies("evil")
        names(world, "paris", "paris")
        await world.until(lambda: runs(world, "web", paris=2))


@pytest.mark.proves("PL5")
async def test_an_agent_that_tells_another_members_cluster_takes_nothing_from_that() -> None:
    world = PullWorld("london", pulled=("evil",))
    async with world.propagating(), world.agent("evil"):
        await ready(world)
        await world.until(lambda: world.cluster("evil").get("clusterID") == "uid-of-evil")
        lie = {"clusterUID": "uid-of-london", "clusterID": "uid-of-london"}
        world.tell("evil", lie)
        await world.until(lambda: verdict(world, "evil") == ("False", "ClusterChanged"))
        await world.calm(20)
        assert world.cluster("evil")["clusterID"] == "uid-of-evil"
        assert verdict(world, "london")[0] == "True"
        world.put(WORKLOADS, workload("web"))
        world.place("web", evil=1)
        await world.calm(5)
        assert not world.hub.all(ASSIGNMENTS)
        world.tell("evil", {"clusterUID": "uid-of-evil", "clusterID": "uid-of-evil"})
        await world.until(lambda: verdict(world, "evil") == ("True", "Connected"))


async def test_a_pulled_member_that_is_renamed_keeps_what_runs() -> None:
    async with serving(paris=2) as world:
        await world.calm(3)
        before, specs = uids(world), [each["spec"] for each in world.deployments("paris")]
        names(world, "lyon", "paris")
        world.hub.edit(MEMBER_CLUSTERS, "lyon", {"spec": {"formerNames": ["paris"]}})
        await world.calm(30)
        assert verdict(world, "paris") == ("True", "Connected")
        assert verdict(world, "lyon")[0] != "True"
        world.hub.remove(MEMBER_CLUSTERS, "paris", "")
        await world.calm(3)
        label = {"metadata": {"labels": {LABEL_MEMBER_NAMESPACE: "lyon"}}}
        world.hub.edit(NAMESPACES, namespace_of("paris"), label)
        await world.until(lambda: verdict(world, "lyon") == ("True", "Connected"))
        world.place("web", lyon=2)
        await world.until(lambda: runs(world, "web", lyon=2))
        await world.calm(5)
        assert uids(world) == before  # marks alone are rewritten
        assert [each["spec"] for each in world.deployments("paris")] == specs
