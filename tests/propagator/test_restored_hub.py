"""Backup and restore of a real hub with real members: pods, UIDs and fields of members stay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crds.names import ANNOTATION_SWEEP, RESTORED, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, LEASES, MEMBER_CLUSTERS
from machinery.errors import NotFound
from propagator.members.hub_lease import HUB_LEASE
from stowage.playground.controlplanes import Cluster
from stowage.setup import restore as restoring
from stowage.setup.backup import Backup
from stowage.setup.backup_file import private
from tests.propagator.stage import Stage, deployment
from tests.propagator.waits import until

Json = Mapping[str, Any]


async def saved(stage: Stage, folder: Path) -> Path:
    file = folder / "backup.json"
    with private(file) as opened:
        await Backup(stage.hub, opened, home=SYSTEM_NAMESPACE, secrets=True).write()
    return file


async def forgotten(stage: Stage, *names: str) -> None:
    """The hub without these Workloads, and members with all that they have."""
    for name in names:
        await stage.patch(name, {"metadata": {"finalizers": None}})
        with suppress(NotFound):
            await stage.delete(name)
        await stage.gone(name)


async def restored(stage: Stage, file: Path) -> None:
    await restoring.Restore(
        stage.hub, restoring.content(file), SYSTEM_NAMESPACE, lambda _: None
    ).run()


async def over(stage: Stage) -> None:
    with suppress(NotFound):
        await stage.hub.delete(CONFIG_MAPS, RESTORED, namespace=SYSTEM_NAMESPACE)


def kept(found: Json | None) -> tuple[Any, ...]:
    """What a restart of pods would change."""
    assert found is not None
    return found["metadata"]["uid"], found["spec"]


async def held(stage: Stage, reason: str) -> None:
    async def said() -> bool:
        status = (await stage.hub.get(MEMBER_CLUSTERS, "m1")).get("status", {})
        told = [each for each in status.get("conditions", ()) if each["type"] == "SweepHeld"]
        return [each["reason"] for each in told] == ([reason] if reason else [])

    await until(said, seconds=90)


async def running(stage: Stage, *names: str) -> None:
    for name in names:
        await stage.run(name, {"m1": 2}, targetDeployment=deployment(name), replicas=2)
        await stage.make_ready("m1", name)
        await stage.fares(name, "m1", "Running")


@pytest.mark.long
@pytest.mark.proves("PK29", "PK31", "PK32")
async def test_a_hub_that_is_restored_sets_nothing_on_real_members_back(
    stage: Stage, tmp_path: Path
):
    await running(stage, "same", "web", "other")
    file = await saved(stage, tmp_path)
    before = await stage.status("same")
    for name in ("web", "other"):
        newer = {"targetDeployment": deployment(name, image="newer"), "replicas": 3}
        await stage.patch(name, {"spec": newer})
        await stage.place(name, m1=3)
        await stage.becomes("m1", name, 3, "replicas")
    await running(stage, "later")
    names = ("same", "web", "other", "later")
    was = {name: kept(await stage.on("m1", name)) for name in names}
    await stage.stop()
    await forgotten(stage, *names)
    await restored(stage, file)
    assert (await stage.status("same"))["placements"] == before["placements"]
    stage.start()
    await stage.propagated("same")
    for name in ("web", "other"):
        told = await stage.refused(name, "HubRestored", "image (pause here, newer there)")
        assert "spec.replicas (2 here, 3 there)" in told
    await held(stage, "HubRestored")
    await stage.restarted()
    await held(stage, "HubRestored")
    assert {name: kept(await stage.on("m1", name)) for name in names} == was
    await restoring.accept(stage.hub, ["web"], stage.namespace, say=lambda _: None)
    await stage.becomes("m1", "web", 2, "replicas")
    await stage.propagated("web")
    assert kept(await stage.on("m1", "other")) == was["other"]
    await stage.patch("other", {"spec": {"targetDeployment": deployment("other", image="a")}})
    await stage.becomes("m1", "other", 2, "replicas")
    assert await stage.on("m1", "later"), "it runs until a person lets it go"
    found = await stage.hub.get(MEMBER_CLUSTERS, "m1")
    uids = ",".join(each["uid"] for each in found["status"]["sweepHeld"]["workloads"])
    confirmed = {"metadata": {"annotations": {ANNOTATION_SWEEP: uids}}}
    await stage.hub.merge_patch(MEMBER_CLUSTERS, "m1", confirmed)
    await stage.goes("m1", "later")
    await over(stage)


@pytest.fixture
def m1(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A member with our namespace, and so with a Lease."""
    cluster = make_cluster("m1-with-lease")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(space))
    return cluster


async def renewed(member: ApiClient) -> None:
    """Renew the Lease there as the propagator of the former hub does."""
    number = 0
    while True:
        number += 1
        spec = {
            "holderIdentity": "the-former https://former p1",
            "leaseTransitions": 3,
            "renewTime": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z",
        }
        await member.merge_patch(LEASES, HUB_LEASE, {"spec": spec}, namespace=SYSTEM_NAMESPACE)
        await asyncio.sleep(1)
