"""What is taken away from members, on real ones: all of it, nothing else, and whoever dies between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.errors import Unreachable
from stowage.playground.controlplanes import Cluster
from tests.propagator.conftest import QUICK
from tests.propagator.stage import (
    MakeStage,
    Stage,
    settled,
)
from tests.propagator.waits import until


class Applies:
    """Stands before every apply of a Deployment that a propagator sends."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stage = stage
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self._apply = Verbs.apply
        self._monkeypatch = monkeypatch
        self._late: set[asyncio.Task[Any]] = set()

    def wait(self) -> None:
        """Have them stay under way until `go_on`."""

        async def held(client: Verbs, res: Resource, obj: Mapping[str, Any], **how: Any) -> Any:
            if res.kind == "Deployment" and how["namespace"] == self._stage.namespace:
                self.begun.set()
                await self.go_on.wait()
            return await self._apply(client, res, obj, **how)

        self._monkeypatch.setattr(Verbs, "apply", held)

    def lose(self) -> None:
        """Have the connection break; the server gets them all the same, after `go_on`."""

        async def lost(client: Verbs, res: Resource, obj: Mapping[str, Any], **how: Any) -> Any:
            ours = res.kind == "Deployment" and how["namespace"] == self._stage.namespace
            if not ours or self.begun.is_set():
                return await self._apply(client, res, obj, **how)
            self.begun.set()
            self._late.add(asyncio.create_task(self._arrive(res, obj, how)))
            raise Unreachable("the connection broke in the middle of the request")

        self._monkeypatch.setattr(Verbs, "apply", lost)

    async def arrived(self) -> None:
        """Let what was lost arrive, and wait for that."""
        self.go_on.set()
        await asyncio.gather(*self._late)

    async def _arrive(self, res: Resource, obj: Any, how: Any) -> None:
        """As if the bytes had been on their way, whatever became of who sent them."""
        await self.go_on.wait()
        await self._apply(self._stage.members["m1"], res, obj, **how)


@pytest.mark.proves("R1", "C30")
async def test_a_workload_waits_for_its_first_apply_before_it_goes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    applies = Applies(stage, monkeypatch)
    applies.wait()
    await stage.run("demo", {"m1": 1})
    await until(applies.begun.is_set)
    noted = (await stage.workload("demo"))["metadata"]
    assert noted["annotations"]["stowage.dev/clusters"] == "m1", "noted before the request"
    await stage.delete("demo")
    await until(lambda: stage.queued("m1", "demo"))
    assert await stage.workload("demo"), "let go while its apply was under way"
    applies.go_on.set()
    await stage.gone("demo")
    assert await stage.on("m1") is None


@pytest.mark.proves("M50")
async def test_what_is_deleted_while_its_member_is_lost_waits_for_it_and_comes_not_back(
    stage_on: MakeStage, m1: Cluster
):
    async with stage_on(sessions=QUICK) as stage:
        await stage.run("demo", {"m1": 2})
        await stage.make_ready("m1")
        m1.freeze()
        try:
            await stage.fares("demo", "m1", "Unreachable")
            leaving = {"cluster": "m1", "replicas": 2, "cause": "ClusterLost", "since": SINCE}
            await stage.patch("demo", {"status": {"leaving": [leaving]}}, subresource="status")
            await stage.place("demo", m2=2)
            await stage.make_ready("m2")
            await stage.delete("demo")
            await stage.goes("m2")
            await settled(stage)
            assert await stage.workload("demo"), "m1 has not said that nothing is left there"
        finally:
            m1.thaw()
        await stage.gone("demo")
        await settled(stage)
        for member in ("m1", "m2"):
            assert await stage.on(member) is None


SINCE = "2026-11-26T03:00:00Z"
