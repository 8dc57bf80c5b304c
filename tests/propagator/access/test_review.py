"""A hub that judges no Workload itself: nothing unreviewed, and nothing refused, reaches a member."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import crds
from controller.app import Controller, ControllerSettings
from crds.names import ADMISSION_POLICY
from machinery.api.client import ApiClient
from machinery.api.resources import CRDS, MEMBER_CLUSTERS, WORKLOADS
from stowage.playground.controlplanes import Cluster
from stowage.setup import install
from tests import inforce
from tests.propagator.stage import CONFIGMAPS, configmap, deployment, staged, swept
from tests.propagator.waits import until

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "all"},
    "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
}


@pytest.fixture
def bare_hub(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A hub with our kinds and no policies."""
    cluster = make_cluster("review-hub")
    kinds = [each for each in crds.manifests() if each["kind"] == CRDS.kind]

    async def prepare() -> None:
        async with ApiClient(cluster.connection()) as client:
            await install.apply(client, kinds, say=lambda _: None)
            await install.ensure_namespace(client, "stowage-system")
            await inforce.served(client, WORKLOADS, MEMBER_CLUSTERS)

    asyncio.run(prepare())
    return cluster


@asynccontextmanager
async def controlled(hub: Cluster) -> AsyncIterator[None]:
    """A controller at work."""
    settings = ControllerSettings(connection=hub.connection(), http_port=0, identity="one")
    async with ApiClient(settings.connection, name="hub") as client:
        running = asyncio.create_task(Controller(settings, client).run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.long
@pytest.mark.proves("S7", "C22")
async def test_only_what_was_reviewed_reaches_a_member(bare_hub: Cluster, m1: Cluster):
    with swept(bare_hub):
        async with staged(bare_hub, {"m1": m1}) as stage:
            await stage.run("demo", {"m1": 1})
            message = await stage.refused("demo", "NotReviewed")
            assert "generation 1 waits for the controller's review" in message
            assert await stage.on("m1") is None
            async with controlled(bare_hub):
                await stage.propagated("demo")
                edit = {"manifests": [configmap("conf"), ROLE], "targetDeployment": deployment()}
                container = {"name": "main", "image": "evil"}
                edit["targetDeployment"]["spec"]["template"]["spec"]["containers"] = [container]
                await stage.patch("demo", {"spec": edit})
                message = await stage.refused("demo", "InvalidWorkload")
                assert "may not use clusterscopedobjects.stowage.dev" in message
                assert await stage.on("m1", "conf", kind=CONFIGMAPS) is None
                [running] = (await stage.on("m1"))["spec"]["template"]["spec"]["containers"]
                assert running["image"] == "pause"
                await stage.patch("demo", {"spec": {"manifests": [configmap("conf")]}})
                await stage.propagated("demo")
                [running] = (await stage.on("m1"))["spec"]["template"]["spec"]["containers"]
                assert running["image"] == "evil"


@pytest.mark.long
@pytest.mark.proves("S7", "C1")
async def test_with_the_policy_in_force_the_controller_may_be_away(bare_hub: Cluster, m1: Cluster):
    parts = [
        each
        for each in crds.manifests()
        if each["kind"].startswith("ValidatingAdmissionPolicy")
        and each["metadata"]["name"] == ADMISSION_POLICY
    ]
    try:
        with swept(bare_hub):
            async with staged(bare_hub, {"m1": m1}) as stage:
                await stage.run("demo", {"m1": 1})
                await stage.refused("demo", "NotReviewed")
                older = json.loads(json.dumps(parts))
                older[0]["metadata"]["annotations"]["stowage.dev/rules"] = "older"
                for each in older:
                    bare_hub.kubectl("apply", "-f", "-", input=json.dumps(each))
                await asyncio.sleep(1)
                said = await stage.condition("demo", "Propagated")
                assert said["reason"] == "NotReviewed", "a policy with other rules is none"
                bare_hub.kubectl("apply", "-f", "-", input=json.dumps(parts[0]))
                await stage.propagated("demo")
                await stage.patch("demo", {"spec": {"manifests": [configmap("conf")]}})

                async def there() -> bool:
                    return await stage.on("m1", "conf", kind=CONFIGMAPS) is not None

                await until(there)
    finally:
        for each in parts:
            bare_hub.kubectl("delete", each["kind"], each["metadata"]["name"])
