"""A plugin that no package offers, in a module that only names the framework and the hosting."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from controller.framework.interface import NOTHING_REFUSED, FilterMask
from controller.framework.percluster import PerClusterFilter
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.controllers import PluginController
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route
from controller.model.unit import WorkloadInfo
from machinery.http_messages import Request


class SparedArgs(Args):
    """Clusters that nothing shall go to."""

    clusters: tuple[str, ...] = ()


class Watching:
    """Waits for nothing."""

    name = "watching"

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.Event().wait()


class Spared(PerClusterFilter):
    """A filter with an endpoint and a controller."""

    name = "Spared"

    def __init__(self, args: SparedArgs, handle: Handle) -> None:
        self._args, self._handle = args, handle

    def fits(self, _info: Any, cluster: Any) -> str:
        """Empty where it fits."""
        return "spared" if cluster.metadata.name in self._args.clusters else ""

    def routes(self) -> Sequence[Route]:
        """Which clusters are spared, of how many."""
        return (Route("GET", "/clusters", self._clusters),)

    async def _clusters(self, _request: Request) -> Mapping[str, Any]:
        return {"spared": self._args.clusters, "of": len(self._handle.snapshot())}

    def controllers(self) -> Sequence[PluginController]:
        """One that waits."""
        return [Watching()]


class Anywhere:
    """A hook: no clusterSelector."""

    name = "Anywhere"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        """A plugin without arguments."""

    def before_pre_filter(
        self, _state: Any, info: WorkloadInfo, _snapshot: Any, _bound: Any
    ) -> tuple[WorkloadInfo, bool]:
        """A copy."""
        return replace(info, cluster_selector={}), True


class Stuck:
    """A filter that does not answer about Workloads of some names, each in its own way."""

    name = "Stuck"
    ignored_during_execution = True

    def __init__(self, _args: Any, _handle: Handle) -> None:
        """A plugin without arguments."""

    def filter(self, _state: Any, info: Any, _snapshot: Any, _bound: Any) -> FilterMask:
        """Refuse nothing."""
        while info.name == "spins":
            pass
        if info.name == "sleeps":
            time.sleep(600)
        if info.name == "reads":
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.recv(1)
        return NOTHING_REFUSED
