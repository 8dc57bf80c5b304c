"""A new leader decides on all that was written before its term, however far its watches are behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.app import Controller
from machinery.api.resources import (
    LEASES,
    MEMBER_CLUSTERS,
    WORKLOAD_POLICIES,
    WORKLOADS,
    Resource,
)
from machinery.errors import Unreachable
from tests.controller.features.workloadquota.quota import QUOTA, arranged, ask

from .memory import Stage

pytestmark = pytest.mark.proves("L15")
PREDECESSOR = "predecessor"


@asynccontextmanager
async def standing_by(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    """A controller that sees the hub while another one holds the lease, for some seconds more."""
    lease = {
        "metadata": {"name": "stowage-controller", "namespace": "stowage-system"},
        "spec": {
            "holderIdentity": PREDECESSOR,
            "leaseDurationSeconds": 10,
            "leaseTransitions": 1,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    stage.hub.put(LEASES, lease)
    seen: list[Controller] = []
    run = Controller.run

    async def noted(self: Controller) -> None:
        seen.append(self)
        await run(self)

    with monkeypatch.context() as patch:
        patch.setattr(Controller, "run", noted)
        leading = stage.leading()
        entering = asyncio.create_task(leading.__aenter__())
        await stage.until(lambda: seen and not seen[0].unready())
        assert not seen[0].leading
        try:
            yield seen[0]
            await entering
        finally:
            await leading.__aexit__(None, None, None)


def holder(stage: Stage) -> str:
    (lease,) = stage.hub.all(LEASES)
    return str(lease["spec"]["holderIdentity"])


async def led(stage: Stage) -> None:
    await stage.until(lambda: holder(stage) == "one", seconds=30)


@pytest.mark.parametrize("kind", [WORKLOADS, WORKLOAD_POLICIES], ids=["placed", "claimed"])
async def test_quota_that_its_predecessor_gave_away_is_not_given_again(
    kind: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = arranged()
    ask(stage, "first", "another")
    async with standing_by(stage, monkeypatch) as controller:
        ask(stage, "other", "stowage")
        await stage.calm(1)
        release = stage.hub.hold(kind)
        share = {"cluster": "h1", "replicas": QUOTA}
        if kind is WORKLOADS:
            stage.hub.edit(WORKLOADS, "first", {"status": {"placements": [share]}}, status=True)
        else:
            claim: dict[str, Any] = {
                "workload": "shop/first",
                "uid": stage.hub.read(WORKLOADS, "first")["metadata"]["uid"],
                "placements": [share],
                "holder": PREDECESSOR,
                "time": "2026-01-01T00:00:00.000000Z",
            }
            stage.hub.edit(WORKLOAD_POLICIES, "demo", {"status": {"claims": [claim]}}, status=True)
        await led(stage)
        await stage.calm(5)
        assert not controller.leading
        release()
        await stage.until(lambda: stage.says("other")[0] == "False")
        assert controller.leading
        assert stage.placed("other") == {}


async def test_a_cluster_that_went_is_known_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("a")
    async with standing_by(stage, monkeypatch) as controller:
        release = stage.hub.hold(MEMBER_CLUSTERS)
        stage.hub.remove(MEMBER_CLUSTERS, "a")
        stage.workload("demo")
        await led(stage)
        await stage.calm(5)
        assert not controller.leading
        release()
        await stage.until(lambda: stage.says("demo")[0] == "False")
        assert stage.placed("demo") == {}


async def test_who_does_not_come_up_to_it_gives_the_lease_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.app.SURRENDER_SECONDS", 5.0)
    stage = Stage("a")
    async with standing_by(stage, monkeypatch) as controller:
        release = stage.hub.hold(WORKLOADS)
        stage.workload("demo")
        await led(stage)
        await stage.until(lambda: holder(stage) != "one", seconds=8)
        assert not controller.leading
        release()
        await stage.until(lambda: stage.placed("demo"))


async def test_each_kind_is_asked_for_once_and_again_where_the_hub_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage("a")
    stage.workload("demo")
    async with standing_by(stage, monkeypatch):
        kinds = (WORKLOADS, MEMBER_CLUSTERS, WORKLOAD_POLICIES)
        paths = [kind.path(None) for kind in kinds]
        failures = [0]

        async def fails_once(method: str, path: str, _body: Any) -> None:
            if method == "GET" and path == paths[0] and failures[0] < 1:
                failures[0] += 1
                raise Unreachable("no answer")

        stage.hub.faults.append(fails_once)
        stage.hub.requests.clear()
        await stage.until(lambda: stage.placed("demo"))
        asked = [path for method, path, _ in stage.hub.requests if method == "GET"]
        assert [asked.count(path) for path in paths] == [2, 1, 1]
