"""Record what a controller writes to a hub in memory, in a form that two runs share.

A record is {"writes": {path: [{method, body}]}, "events": [...], "explained": {Workload: {...}}}.
UIDs are numbered in the order in which they appear; Leases are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock
from uuid import UUID

from controller.app import Controller
from machinery.api.resources import LEASES, WORKLOADS
from tests.controller.features.evacuation.movingfleet import THREE, Members
from tests.controller.features.rollout.fleet import RolloutFleet
from tests.controller.memory import Stage

Scenario = Callable[[Stage, Members], Awaitable[None]]
VOLATILE = frozenset({"resourceVersion"})
CONFIGURATION = """\
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
movement:
  notReadyTolerationSeconds: 5
  dwellSeconds: 5
  maxMoving: 100%
  brake: {maxLost: 50%, topologyKey: topology.kubernetes.io/zone}
"""
_UID = re.compile(r"00000000-0000-4000-8000-[0-9a-f]{12}")


async def recorded(scenario: Scenario) -> dict[str, Any]:
    """Play the scenario on three clusters of a hub, and return its record."""
    with _numbered():
        stage = Stage()
        members = Members(stage, THREE)
        for name in members.names:
            stage.cluster(name, cpu="10", **{"topology.kubernetes.io/zone": name})
        async with _leading(stage) as controller, members.following():
            await scenario(stage, members)
            await stage.calm(2)
            return await _record(stage, controller)


async def recorded_rollout(scenario: Callable[[RolloutFleet], Awaitable[None]]) -> dict[str, Any]:
    """Play the scenario of a Workload with waves, and return its record."""
    with _numbered():
        stage = RolloutFleet()
        async with _leading(stage) as controller:
            await scenario(stage)
            return await _record(stage, controller)


@asynccontextmanager
async def _leading(stage: Stage) -> AsyncIterator[Controller]:
    """A controller whose plugins and features know each other, as those of a file do."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.yaml")
        file.write_text(CONFIGURATION)  # noqa: ASYNC240 - a line, once
        async with stage.configured(file) as controller:
            yield controller


def _numbered() -> Any:
    uids = (UUID(f"00000000-0000-4000-8000-{n:012x}") for n in itertools.count(1))
    return mock.patch("tests.memoryhub.uuid.uuid4", side_effect=uids)


async def _record(stage: Stage, controller: Controller) -> dict[str, Any]:
    named = sorted(each["metadata"]["name"] for each in stage.hub.all(WORKLOADS))
    explained = {name: await controller.diagnosis(("shop", name)) for name in named}
    writes: dict[str, list[Any]] = {}
    for method, path, body in stage.hub.requests:
        if method != "GET" and LEASES.plural not in path and "/events" not in path:
            writes.setdefault(path, []).append({"method": method, "body": body})
    told = sorted(
        (each["regarding"]["kind"], each["regarding"]["name"], each["reason"], each["note"])
        for each in stage.hub.events()
    )
    return plain({"writes": dict(sorted(writes.items())), "events": told, "explained": explained})


def plain(found: Any, *volatile: str) -> Any:
    """Return it with numbered UIDs, and without the keys that differ from run to run."""
    if isinstance(found, Mapping):
        kept = {k: v for k, v in found.items() if k not in VOLATILE and k not in volatile}
        return {plain(k): plain(v, *volatile) for k, v in kept.items()}
    if isinstance(found, list | tuple):
        return [plain(each, *volatile) for each in found]
    if isinstance(found, str):
        return _UID.sub(lambda m: f"uid-{int(m.group()[-12:], 16)}", found)
    return found
