"""A real hub whose etcd is set back to a copy: what its member has that is younger stays."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crds.names import SYSTEM_NAMESPACE
from e2e.chaos.hub_etcd import HubEtcd
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, MEMBER_CLUSTERS
from propagator.members import hub_lease
from propagator.members.hub_lease import HUB_LEASE
from stowage.playground.cluster import Cluster
from stowage.playground.controlplanes import ControlPlanes, Parts
from stowage.setup import install
from stowage.setup import restore as restoring
from tests.propagator.stage import deployment, staged
from tests.propagator.waits import until

TERMS = {"lease_seconds": 20.0, "renew_deadline": 15.0, "lease_retry": 1.0}


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[ControlPlanes]:
    """A hub with the kinds, and a member, on an etcd of their own."""
    made = ControlPlanes(tmp_path / "planes")
    etcd: HubEtcd | None = None
    try:
        made.start()
        for name in ("hub", "m1"):
            made.create(name, Parts())
        asyncio.run(_installed(made.clusters["hub"]))
        made.clusters["m1"].kubectl("create", "namespace", SYSTEM_NAMESPACE)
        etcd = HubEtcd(made)
        yield made
    finally:
        if etcd is not None:
            etcd.end()
        made.stop()


async def _installed(hub: Cluster) -> None:
    objects = install.manifests(namespace=SYSTEM_NAMESPACE, image="example/stowage:1")
    async with ApiClient(hub.connection()) as client:
        await install.apply(client, objects, say=lambda _: None)


@pytest.mark.long
@pytest.mark.stops_api_servers
@pytest.mark.proves("PK33")
async def test_a_hub_whose_etcd_is_set_back_sets_nothing_back(
    planes: ControlPlanes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hub_lease, "HELD_SECONDS", 8)
    monkeypatch.setattr(hub_lease, "RENEW_SECONDS", 1.0)
    hub, etcd = planes.clusters["hub"], HubEtcd(planes)
    async with staged(hub, {"m1": planes.clusters["m1"]}, terms=TERMS) as stage:
        await stage.push("web")
        copy = await asyncio.to_thread(etcd.copy)
        await stage.patch("web", {"spec": {"targetDeployment": deployment("web", image="newer")}})
        await stage.refused("web", "Propagated", within=60)

        async def newer() -> bool:
            return await image() == "newer"

        async def image() -> str:
            found = await stage.on("m1", "web") or {}
            (container,) = found["spec"]["template"]["spec"]["containers"]
            return str(container["image"])

        await until(newer)
        await stage.push("later")
        before = await renewed(stage.members["m1"])
        await until(lambda: _later(stage.members["m1"], before), seconds=60)
        await asyncio.to_thread(etcd.put_back, copy)
        for _ in range(2):  # over a restart as well
            await stage.refused("web", "HubRestored", "image (pause here, newer there)", within=200)
            await until(lambda: _held(stage.hub), seconds=120)
            assert await image() == "newer"
            assert await stage.on("m1", "later")
            await stage.restart()
            await stage.ready()
        await restoring.accept(stage.hub, ["web"], stage.namespace, say=lambda _: None)
        await until(lambda: _is(image, "pause"), seconds=60)
        assert await stage.on("m1", "later")


async def renewed(member: ApiClient) -> str:
    found = await member.get(LEASES, HUB_LEASE, namespace=SYSTEM_NAMESPACE)
    return str(found["spec"]["renewTime"])


async def _later(member: ApiClient, before: str) -> bool:
    return await renewed(member) > before


async def _is(asked: Any, value: str) -> bool:
    return bool(await asked() == value)


async def _held(hub: ApiClient) -> bool:
    status = (await hub.get(MEMBER_CLUSTERS, "m1")).get("status", {})
    told = [each for each in status.get("conditions", ()) if each["type"] == "SweepHeld"]
    # TooMany once the hub's versions have passed what was seen: it was held before.
    return [each["reason"] for each in told] in (["HubWentBack"], ["TooMany"])
