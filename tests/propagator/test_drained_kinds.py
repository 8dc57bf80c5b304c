"""A drain by both processes, on real members, of what tells in its own way whether it runs.

The test plays the members' controllers: it writes the statuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controller.app import Controller, ControllerSettings
from machinery.api.client import ApiClient
from machinery.api.resources import WORKLOADS, Resource
from machinery.tasks import end
from stowage.cli import cli
from stowage.playground.controlplanes import Cluster

from .stage import KINDS, MakeStage, Stage, settled
from .test_known_kinds import main, serving
from .waits import until

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
SETS = KINDS["DaemonSet"]
AGENT = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "main", "image": "pause"}]},
        },
    },
}


@asynccontextmanager
async def scheduled(hub: Cluster) -> AsyncIterator[None]:
    """A controller that decides, beside the stage's propagator."""
    async with ApiClient(hub.connection(), limit=48) as client:
        asked = ControllerSettings(connection=hub.connection(), http_port=0)
        controller = Controller(asked, client)
        running = asyncio.create_task(controller.run())
        try:
            await until(lambda: running.done() or controller.leading)
            yield
        finally:
            await end([running])


async def placed(stage: Stage, name: str, template: dict[str, Any], **spec: Any) -> list[str]:
    """The members where the controller has placed it, and the propagator made it."""
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": stage.namespace},
        "spec": {"template": template, **spec},
    }
    await stage.hub.create(WORKLOADS, body)
    await stage.propagated(name)
    return [each["cluster"] for each in (await stage.status(name))["placements"]]


async def says(stage: Stage, member: str, of: Resource, name: str, **status: Any) -> None:
    found = await stage.appears(member, name, kind=of)
    status["observedGeneration"] = found["metadata"]["generation"]
    where: Any = {"namespace": stage.namespace, "subresource": "status"}
    await stage.members[member].merge_patch(of, name, {"status": status}, **where)


async def drained(hub: Cluster, member: str, *more: str) -> Result:
    args = ["drain", "--kubeconfig", str(hub.kubeconfig), member, *more]
    return await asyncio.to_thread(CliRunner().invoke, cli, args)


async def stays_until_another_runs(
    stage: Stage, hub: Cluster, of: Resource, name: str, *, silent: Any, runs: Any
) -> None:
    """The only copy that runs stays through a drain until the other one says that it runs, too."""
    member = (await stage.status(name))["placements"][0]["cluster"]
    other = "m2" if member == "m1" else "m1"
    await says(stage, member, of, name, **runs)
    await stage.fares(name, member, "Running")
    try:
        result = await drained(hub, member, "--timeout=2s")
        assert result.exit_code == 1, result.output
        await says(stage, other, of, name, **silent)
        await settled(stage)
        result = await drained(hub, member, "--timeout=2s")
        assert result.exit_code == 1, result.output
        assert f"{stage.namespace}/{name}" in result.output
        await settled(stage)
        assert await stage.on(member, name, kind=of) is not None
        await says(stage, other, of, name, **runs)
        await stage.goes(member, name, kind=of)
        result = await drained(hub, member)
        assert result.exit_code == 0, result.output
    finally:
        await drained(hub, member, "--undo")


@pytest.mark.long
@pytest.mark.proves("KD34", "KD35")
async def test_a_kind_that_says_nothing_keeps_its_copy(stage_on: MakeStage, hub: Cluster) -> None:
    async with (
        stage_on() as stage,
        scheduled(hub),
        serving(*stage.members.values(), kinds=[WIDGETS]),
    ):
        await placed(stage, "w", main(WIDGETS, "w"), movement={"maxSurge": 1})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        await stays_until_another_runs(
            stage, hub, WIDGETS, "w", silent={"phase": "Running"}, runs=ready
        )
