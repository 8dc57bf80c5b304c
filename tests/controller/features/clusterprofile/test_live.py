"""ClusterProfiles by the upstream definition, on a real API server, with the rights of rbac.yaml."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import LOADER
from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import CLUSTER_PROFILES, CRDS, MEMBER_CLUSTERS
from machinery.config.kubeconfig import Connection
from machinery.errors import NotFound
from stowage.setup import install
from tests import inforce
from tests.controller.live import World, condition, deciding
from tests.letting_go import let_go
from tests.patience import until

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "examples" / "clusterprofiles"
DEFINITION = yaml.load(
    (ROOT / "tests" / "data" / "crds" / "clusterprofiles.yaml").read_text(), Loader=LOADER
)
ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:stowage-controller"


async def applied(world: World, *objects: dict[str, Any]) -> None:
    for each in objects:
        await install.apply_one(world.client, each, manager="test")


@pytest.fixture
async def rights(world: World) -> AsyncIterator[Connection]:
    """The controller's own account, with all that rbac.yaml and the example give it."""
    await install.ensure_namespace(world.client, "fleet")
    given = install.load("rbac.yaml", namespace=SYSTEM_NAMESPACE)
    await applied(world, *given, *yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text()))
    inforce.until_may(world.hub, ACCOUNT, "create memberclusters.stowage.dev")
    what = f"delete clusterprofiles.multicluster.x-k8s.io -n {SYSTEM_NAMESPACE}"
    inforce.until_may(world.hub, ACCOUNT, what)
    groups = ("system:authenticated", "system:serviceaccounts")
    yield replace(world.hub.connection(), impersonate=ACCOUNT, impersonate_groups=groups)
    with suppress(NotFound):
        await world.client.delete(CRDS, DEFINITION["metadata"]["name"])


async def exported(client: ApiClient, name: str) -> dict[str, Any]:
    with suppress(NotFound):
        return await client.get(CLUSTER_PROFILES, name, namespace=SYSTEM_NAMESPACE)
    return {}


async def healthy(client: ApiClient, name: str) -> str:
    return said((await exported(client, name)).get("status", {}), "ControlPlaneHealthy")


def said(status: Mapping[str, Any], kind: str) -> str:
    """The status of a condition; empty without."""
    with suppress(KeyError):
        return str(condition(status, kind)["status"])
    return ""


@pytest.mark.long
@pytest.mark.proves("CT9", "CT10")
async def test_in_and_out_by_the_upstream_definition_which_comes_later(
    world: World, rights: Connection
):
    client = world.client
    await world.cluster("rome")
    configuration = EXAMPLE / "scheduler.yaml"
    async with deciding(world, config_file=configuration, connection=rights):
        await world.workload("demo", replicas=1)
        assert await world.placed("demo") == {"rome": 1}
        await applied(world, DEFINITION)
        await inforce.served(client, CLUSTER_PROFILES)

        async def follows() -> bool:
            return await healthy(client, "rome") == "True"

        await until(follows, seconds=60)
        found = await exported(client, "rome")
        assert found["metadata"]["labels"] == {"x-k8s.io/cluster-manager": "stowage"}
        assert found["spec"]["clusterManager"] == {"name": "stowage"}

        profile = yaml.safe_load((EXAMPLE / "clusterprofile.yaml").read_text())
        await client.create(CLUSTER_PROFILES, profile, namespace="fleet")
        patch = {"status": profile["status"]}
        await client.merge_patch(
            CLUSTER_PROFILES, "paris", patch, namespace="fleet", subresource="status"
        )

        async def imported() -> bool:
            with suppress(NotFound):
                labels = (await client.get(MEMBER_CLUSTERS, "paris"))["metadata"]["labels"]
                return bool(labels.get("properties.stowage.dev/tier") == "gold")
            return False

        await until(imported, seconds=30)
        await client.delete(CLUSTER_PROFILES, "paris", namespace="fleet")

        async def told() -> bool:
            status = (await client.get(MEMBER_CLUSTERS, "paris")).get("status", {})
            return said(status, "InventoryUnhealthy") == "True"

        await until(told, seconds=30)
        await let_go(client, "rome")

        async def gone() -> bool:
            return not await exported(client, "rome")

        await until(gone, seconds=30)
        assert await healthy(client, "paris") == "Unknown"
