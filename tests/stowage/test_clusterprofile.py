"""`stowage join --from-clusterprofile`, and what `join` with a kubeconfig does of it later."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError
from stowage.setup import clusterprofile, join
from stowage.setup.clusterprofile import ProfileJoin
from tests.memoryhub import MemoryHub

PROFILE: dict[str, Any] = {
    "metadata": {"name": "lyon", "namespace": "fleet", "labels": {"env": "prod"}},
    "spec": {"clusterManager": {"name": "inventory"}},
    "status": {
        "properties": [{"name": "tier", "value": "gold"}, {"name": "cost", "value": "9"}],
        "accessProviders": [{"name": "exec", "cluster": {"server": "https://lyon.example"}}],
    },
}


@pytest.fixture
def hub() -> MemoryHub:
    made = MemoryHub(clock=SystemClock(), admission=False)
    made.put(CLUSTER_PROFILES, PROFILE)
    return made


async def joined(hub: MemoryHub, profile: str = "fleet/lyon", **more: Any) -> str:
    """What it says."""
    said: list[str] = []
    plan = ProfileJoin(profile=profile, namespace=SYSTEM_NAMESPACE, **more)
    await clusterprofile.join(cast("ApiClient", hub), plan, say=said.append)
    return "\n".join(said)


@pytest.mark.proves("CT9")
async def test_a_cluster_of_an_inventory_joins_without_credentials(hub: MemoryHub) -> None:
    said = await joined(hub, properties=("tier",))
    assert "`stowage join lyon --member-kubeconfig …`" in said
    assert "the Secret stowage-system/lyon with the label stowage.dev/register=true" in said
    made = hub.read(MEMBER_CLUSTERS, "lyon")
    assert made["metadata"]["labels"] == {"env": "prod", "properties.stowage.dev/tier": "gold"}
    assert made["metadata"]["annotations"]["stowage.dev/cluster-profile"] == "fleet/lyon"
    assert made["spec"] == {"endpoint": {"server": "https://lyon.example"}}
    assert "is there already" in await joined(hub)
    await joined(hub, name="lyon-1")
    assert hub.read(MEMBER_CLUSTERS, "lyon-1")


@pytest.mark.proves("CT9")
async def test_what_cannot_be_joined_is_refused_with_what_to_do(hub: MemoryHub) -> None:
    ours = {"metadata": {"name": "ours", "namespace": "fleet"}}
    hub.put(CLUSTER_PROFILES, {**ours, "spec": {"clusterManager": {"name": "stowage"}}})
    hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "lyon"}})
    for profile, says in (
        ("fleet/ours", "what Stowage has exported"),
        ("fleet/rome", "the hub has no ClusterProfile fleet/rome"),
        ("fleet/lyon", "choose another name"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            await joined(hub, profile)


@pytest.mark.proves("CT9", "D1")
async def test_join_with_a_kubeconfig_takes_the_name_that_has_no_credentials_yet(
    hub: MemoryHub,
) -> None:
    await joined(hub)
    where = Connection("https://member.example")
    plan = join.Join(name="lyon", namespace=SYSTEM_NAMESPACE, member=where)
    asked = cast("ApiClient", hub)
    await join._refuse_another(asked, plan, "uid-of-lyon")
    hub.edit(MEMBER_CLUSTERS, "lyon", {"status": {"clusterID": "another"}}, status=True)
    with pytest.raises(ConfigurationError, match="MemberCluster lyon on the hub"):
        await join._refuse_another(asked, plan, "uid-of-lyon")
