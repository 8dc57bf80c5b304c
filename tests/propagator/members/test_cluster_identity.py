"""Which cluster a MemberCluster leads to, on real API servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES
from stowage.playground.controlplanes import Cluster
from tests.propagator.waits import until

Rigs = Callable[..., Any]


async def uid_of(member: Cluster) -> str:
    async with ApiClient(member.connection()) as client:
        return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


@pytest.mark.proves("N3b")
async def test_a_member_is_served_through_one_registration(rig_on: Rigs, m1: Cluster):
    async with rig_on() as rig:
        await rig.register("old", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("old", "Connected")
        assert (await rig.cluster("old"))["status"]["clusterID"] == await uid_of(m1)
        await rig.register("young", {"kubeconfig": m1.admin_kubeconfig})
        told = await rig.becomes("young", "AlreadyRegistered")
        assert "registered as old" in told
        status = (await rig.cluster("young"))["status"]
        assert not {"capacity", "clusterID", "nodeGroups"} & status.keys()
        assert (await rig.ready("old"))[0] == "True"
        session = rig.registry.get("young")
        assert session is not None
        assert not session.ready
        await rig.marked("old")
        await rig.hub.delete(MEMBER_CLUSTERS, "old")
        await rig.becomes("young", "Connected")
        assert (await rig.cluster("young"))["status"]["clusterID"] == await uid_of(m1)


@pytest.mark.proves("N3")
async def test_a_former_name_that_another_cluster_has_is_taken_back(
    rig_on: Rigs, m1: Cluster, m2: Cluster
):
    """Not by the one that still has it while it is renamed, which is older."""
    async with rig_on() as rig:
        await rig.register("old", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("old", "Connected")
        await asyncio.sleep(1.1)  # a time of creation has no parts of seconds
        made = {
            "apiVersion": MEMBER_CLUSTERS.api_version,
            "kind": "MemberCluster",
            "metadata": {"name": "new"},
            "spec": {"formerNames": ["old", "older"]},
        }
        await rig.hub.create(MEMBER_CLUSTERS, made)
        await rig.becomes("new", "SecretNotFound")
        assert (await rig.cluster("new"))["spec"]["formerNames"] == ["old", "older"]
        await asyncio.sleep(1.1)
        await rig.register("older", {"kubeconfig": m2.admin_kubeconfig})
        await rig.becomes("older", "Connected")

        async def taken() -> bool:
            return bool((await rig.cluster("new"))["spec"]["formerNames"] == ["old"])

        await until(taken)


@pytest.mark.proves("N3b")
async def test_another_cluster_is_left_alone_until_a_person_confirms(
    rig_on: Rigs, m1: Cluster, m2: Cluster
):
    async with rig_on() as rig:
        await rig.register("one", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("one", "Connected")
        first, second = await uid_of(m1), await uid_of(m2)
        await rig.change("one", {"kubeconfig": m2.admin_kubeconfig})
        told = await rig.becomes("one", "ClusterChanged")
        assert first in told
        assert second in told
        assert (await rig.cluster("one"))["status"]["clusterID"] == first
        session = rig.registry.get("one")
        assert session is not None
        assert not session.ready
        await rig.change("one", {"kubeconfig": m1.admin_kubeconfig})
        await rig.becomes("one", "Connected")

        await rig.change("one", {"kubeconfig": m2.admin_kubeconfig})
        await rig.becomes("one", "ClusterChanged")
        off = {"status": {"clusterID": None}}
        await rig.hub.merge_patch(MEMBER_CLUSTERS, "one", off, subresource="status")
        await rig.becomes("one", "Connected")

        async def noted() -> bool:
            return bool((await rig.cluster("one"))["status"].get("clusterID") == second)

        await until(noted)
