"""A member whose shard nobody holds is told, and it alone."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from controller.features.shards.feature import UNHELD, ShardController
from controller.framework.runtime.feature import Term
from controller.model.objects import MemberCluster
from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import LEASES, MEMBER_CLUSTERS
from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types import conditions
from machinery.types.shards import lease_name, owner
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

MEMBERS = ("m1", "m2", "m3", "m4")


class Stage:
    def __init__(self, *, shards: int) -> None:
        self.clock = FakeClock()
        self.hub = MemoryHub(clock=self.clock)
        self.renewed = 0
        for name in MEMBERS:
            kind = {"apiVersion": "stowage.dev/v1alpha1", "kind": "MemberCluster"}
            status = {"status": {"shard": owner(name, shards)}} if shards > 1 else {}
            self.hub.put(MEMBER_CLUSTERS, {**kind, "metadata": {"name": name}, **status})
            self.hub.edit(MEMBER_CLUSTERS, name, status, status=True)
        for shard in range(shards):
            meta: dict[str, Any] = {"name": lease_name(shard), "namespace": SYSTEM_NAMESPACE}
            meta["annotations"] = {"stowage.dev/shards": str(shards)}
            spec = {"holderIdentity": f"p{shard}", "leaseDurationSeconds": 10}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            self.hub.put(LEASES, {**lease, "metadata": meta, "spec": spec})

    async def pass_seconds(self, seconds: int, *, held: tuple[int, ...]) -> None:
        """While the holders of these shards renew."""
        for _ in range(seconds // 2):
            self.renewed += 1
            for shard in held:
                spec = {"spec": {"renewTime": str(self.renewed)}}
                self.hub.edit(LEASES, lease_name(shard), spec, namespace=SYSTEM_NAMESPACE)
            await self.clock.advance(2)

    def unserved(self) -> set[str]:
        found = ((name, self.hub.read(MEMBER_CLUSTERS, name)) for name in MEMBERS)
        said = {n: conditions.find(each.get("status", {}), "Served") for n, each in found}
        assert {each["reason"] for each in said.values() if each} <= {"ShardUnheld"}
        return {name for name, each in said.items() if each.get("status") == "False"}


async def play(stage: Stage, *, lost: int) -> None:
    clusters = Informer(cast("Any", stage.hub), MEMBER_CLUSTERS, MemberCluster, clock=stage.clock)
    nobody: Any = None
    term = Term(stage.hub, stage.clock, lambda: None, lambda _: clusters, nobody)
    controller = ShardController(term)
    running = [asyncio.create_task(clusters.run())]
    await clusters.wait_synced()
    running.append(asyncio.create_task(controller.run()))
    try:
        await stage.pass_seconds(20, held=(0, 1))
        assert not stage.unserved()
        held = tuple({0, 1} - {lost})
        await stage.pass_seconds(24, held=held)
        assert not stage.unserved(), "a rolling update takes no longer"
        await stage.pass_seconds(20, held=held)
        assert stage.unserved() == {name for name in MEMBERS if owner(name, 2) == lost}
        assert UNHELD._value.get() == 1  # type: ignore[attr-defined] # of the library
        await stage.pass_seconds(20, held=(0, 1))
        assert not stage.unserved()
    finally:
        await end(running)


@pytest.mark.proves("SC8")
@pytest.mark.parametrize("lost", [0, 1])
async def test_members_of_a_shard_that_nobody_holds_are_told(lost: int) -> None:
    assert {owner(name, 2) for name in MEMBERS} == {0, 1}
    await play(Stage(shards=2), lost=lost)


@pytest.mark.proves("SC1")
async def test_of_one_shard_no_lease_is_read() -> None:
    stage = Stage(shards=1)
    clusters = Informer(cast("Any", stage.hub), MEMBER_CLUSTERS, MemberCluster, clock=stage.clock)
    nobody: Any = None
    controller = ShardController(
        Term(stage.hub, stage.clock, lambda: None, lambda _: clusters, nobody)
    )
    running = [asyncio.create_task(each.run()) for each in (clusters, controller)]
    try:
        await stage.pass_seconds(20, held=())
    finally:
        await end(running)
    assert not any("/leases/" in path for _, path, _ in stage.hub.requests)
    assert not stage.hub.writes()
