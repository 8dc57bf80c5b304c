"""One quota that schedulers of two names share, on a hub in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from controller.config import default_profile
from machinery.api.resources import WORKLOAD_POLICIES, WORKLOADS
from tests.controller.make import ZONE, policy_spec
from tests.controller.memory import Stage

QUOTA = 3
TAINTS = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
LABEL = "stowage.dev/workload-policy"


def arranged(**domains: int) -> Stage:
    """A cluster in the zone host, and a policy of three units there, or of others."""
    stage = Stage("h1", cpu="64", **{ZONE: "host"})
    meta = {"name": "demo", "namespace": "shop"}
    spec = policy_spec(**(domains or {"host": QUOTA}))
    stage.hub.put(WORKLOAD_POLICIES, {"metadata": meta, "spec": spec})
    return stage


def ask(stage: Stage, name: str, scheduler: str, **spec: Any) -> None:
    """A Workload that wants the whole quota."""
    bound = {"app": name, LABEL: "demo"}
    stage.workload(name, replicas=QUOTA, labels=bound, schedulerName=scheduler, **spec)


@asynccontextmanager
async def both(stage: Stage) -> AsyncIterator[None]:
    """A scheduler of the name stowage, and one of the name second."""
    first, second = (replace(default_profile(), scheduler_name=n) for n in ("stowage", "second"))
    async with (
        stage.leading(first, identity="stowage"),
        stage.leading(second, identity="second"),
    ):
        yield


async def most_in(stage: Stage, seconds: float) -> int:
    """The most units that had a cluster at once in that time."""
    most = 0
    for _ in range(int(seconds)):
        await stage.calm(1)
        most = max(most, units(stage))
    return most


def units(stage: Stage) -> int:
    """The units that have a cluster."""
    listed = stage.hub.all(WORKLOADS)
    return sum(sum(stage.placed(each["metadata"]["name"]).values()) for each in listed)
