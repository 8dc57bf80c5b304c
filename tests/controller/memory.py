"""A whole controller on a hub in memory, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, cast

from controller.app import Controller, ControllerSettings
from controller.config import default_profile
from controller.framework.profile import Profile, SchedulerConfiguration
from controller.framework.runtime.feature import Feature
from controller.model.moving import MovementConfiguration
from crds.names import ANNOTATION_UNJOIN, GIVEN_UP
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.config.kubeconfig import Connection
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub

from .live import condition, deployment, placements

STEP = 0.1
"""Seconds of the test's clock between two looks."""


class _Clock(FakeClock):
    """One that tells when the next sleeper wakes, and whose wall can be set."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead

    @property
    def wakes(self) -> float:
        """The moment; far away where no task sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else math.inf

    async def advance(self, seconds: float) -> None:
        """As any other, and quicker where no task has anything to do."""
        end = self._elapsed + seconds
        await _settle()
        while self.wakes <= end:
            self._elapsed, _, woken = heapq.heappop(self._sleepers)
            woken.set_result(None)
            await _settle()
        self._elapsed = end
        await _settle()


async def _settle() -> None:
    """Let every task run until it waits for something, or for long."""
    loop = asyncio.get_running_loop()
    for turn in range(30):
        await asyncio.sleep(0)
        if turn >= 1 and not loop._ready:
            return


class Stage:
    """The hub, the clock, and what tests ask of both. Everything lies in the namespace shop.

    It begins with clusters of these names, which are alike.
    """

    def __init__(self, *clusters: str, **alike: str) -> None:
        self.clock = _Clock()
        self.hub = MemoryHub(clock=self.clock)
        for name in clusters:
            self.cluster(name, **alike)

    def set_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock that far ahead; the hub has told the time by then."""
        self.clock.ahead = timedelta()
        self.hub.server_time.saw(format_datetime(self.clock.now(), usegmt=True))
        self.clock.ahead = timedelta(seconds=seconds)

    def cluster(self, name: str, *, cpu: str = "8", pods: str = "110", **labels: str) -> None:
        """A ready cluster of one node."""
        free = {"cpu": cpu, "memory": "9999Gi" if int(pods) > 110 else "32Gi", "pods": pods}
        self.hub.put(
            MEMBER_CLUSTERS,
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeGroups": [{"count": 1, "free": free}],
                    "capacity": {"nodes": 1, "allocatable": free, "requested": {}},
                },
            },
        )

    def give_up(self, name: str) -> None:
        """Take a cluster out of the fleet as `stowage unjoin` does, short of the deletion."""
        mark = {"metadata": {"annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
        self.hub.edit(MEMBER_CLUSTERS, name, mark)

    def workload(
        self,
        name: str,
        *,
        replicas: int = 2,
        cpu: str = "1",
        labels: Mapping[str, str] | None = None,
        created: int = 0,
        **spec: Any,
    ) -> None:
        """A Workload of pods that ask for that much, so many seconds younger than the oldest."""
        self.hub.put(
            WORKLOADS,
            {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "labels": dict(labels or {"app": name}),
                    "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
                },
                "spec": {
                    "schedulerName": "stowage",
                    "replicas": replicas,
                    "targetDeployment": deployment(name, cpu),
                    **spec,
                },
            },
        )

    def placed(self, name: str) -> dict[str, int]:
        """{cluster: units} as written."""
        return placements(self.hub.read(WORKLOADS, name))

    def says(self, name: str, kind: str = "Scheduled") -> tuple[str, str, str]:
        """(status, reason, message) of a condition; empty where there is none."""
        with suppress(KeyError):
            found = condition(self.hub.read(WORKLOADS, name).get("status", {}), kind)
            return found["status"], found["reason"], found["message"]
        return "", "", ""

    async def until(self, holds: Callable[[], Any], *, seconds: float = 30.0) -> None:
        """Let time pass until it holds; AssertionError after that long on the test's clock."""
        end = self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < end, "it never came to that"
            await self._pass(end)

    async def calm(self, seconds: float) -> None:
        """Let so much time pass, in small steps."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self._pass(end)

    async def _pass(self, end: float) -> None:
        """One step; while all tasks sleep, as many as go by until one wakes."""
        await asyncio.sleep(0)  # sockets
        steps = 1
        if not asyncio.get_running_loop()._ready:  # no callback is due
            idle = min(self.clock.wakes, end) - self.clock.monotonic()
            steps = max(math.ceil(idle / STEP), 1)
        await self.clock.advance(steps * STEP)

    @asynccontextmanager
    async def leading(
        self,
        profile: Profile | None = None,
        *,
        identity: str = "one",
        elect: bool = True,
        standby: bool = False,
        features: Sequence[Feature] | None = None,
        movement: MovementConfiguration | None = None,
        **points: Any,
    ) -> AsyncIterator[Controller]:
        """A controller with these plugins at these points of the profile, from when it leads on.

        Without `elect` it leads beside others; a `standby` is there from when it reads. Without
        `features` it has those that come with it.
        """
        made = replace(profile or default_profile(), **points)
        settings = ControllerSettings(
            connection=Connection(server="http://memory"), http_port=0, identity=identity
        )
        configuration = SchedulerConfiguration(
            {made.scheduler_name: made}, elect, movement=movement or MovementConfiguration()
        )
        controller = Controller(
            settings,
            cast("ApiClient", self.hub),
            clock=self.clock,
            configuration=configuration,
            features=features,
        )
        async with self._running(controller, standby=standby):
            yield controller

    @asynccontextmanager
    async def configured(
        self,
        file: Path,
        *,
        standby: bool = False,
        plugins: Mapping[str, Any] | None = None,
        features: Sequence[Feature] | None = None,
        **given: Any,
    ) -> AsyncIterator[Controller]:
        """A controller with that SchedulerConfiguration, these factories and other settings.

        Without `features` it has those that come with it.
        """
        settings = ControllerSettings(
            **{
                "connection": Connection(server="http://memory"),
                "http_port": 0,
                "identity": "one",
                "config_file": file,
                **given,
            }
        )
        hub = cast("ApiClient", self.hub)
        controller = Controller(settings, hub, clock=self.clock, plugins=plugins, features=features)
        async with self._running(controller, standby=standby):
            yield controller

    @asynccontextmanager
    async def _running(self, controller: Controller, *, standby: bool) -> AsyncIterator[None]:
        running = asyncio.create_task(controller.run())
        try:
            ready = (lambda: not controller.unready()) if standby else (lambda: controller.leading)
            await self.until(lambda: running.done() or ready())
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
