"""Moves between members that run pods: what is never seen on them, in every sample."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from crds.names import GROUP
from machinery.api.resources import MEMBER_CLUSTERS, PODS
from machinery.errors import NotFound
from propagator.members.disruption_budgets import BUDGETS
from stowage.playground.controlplanes import Cluster
from tests.patience import PATIENCE
from tests.propagator.stage import KINDS, Stage, deployment, settled, staged, swept
from tests.propagator.waits import until

pytestmark = pytest.mark.long

DEPLOYMENTS, STATEFUL_SETS = KINDS["Deployment"], KINDS["StatefulSet"]
LONG = 240.0
"""Seconds for what two real control planes do on a busy machine."""


@pytest.fixture(scope="session")
def west(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A member whose pods run."""
    return make_cluster("spread", controller_manager=True, scheduler=True, kwok=True, nodes=1)


@pytest.fixture(scope="session")
def east(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Another one."""
    return make_cluster("moves", controller_manager=True, scheduler=True, kwok=True, nodes=1)


@dataclass
class Samples:
    """The pods of both members, looked at again and again."""

    stage: Stage
    pods: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    most: int = 0
    least_ready: int = 10**6
    twice: set[str] = field(default_factory=set)
    both: bool = False
    """Whether both members had pods in one sample."""

    async def look(self) -> None:
        for member, client in self.stage.members.items():
            listed = await client.list(PODS, namespace=self.stage.namespace)
            self.pods[member] = listed["items"]
        every = [pod for pods in self.pods.values() for pod in pods]
        names = [pod["metadata"]["name"] for pod in every]
        self.most = max(self.most, len(every))
        self.least_ready = min(self.least_ready, sum(map(is_ready, every)))
        self.twice |= {name for name in names if names.count(name) > 1}
        self.both |= all(self.pods.values())

    def ready(self, member: str) -> int:
        return sum(map(is_ready, self.pods.get(member, ())))

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Samples]:
        """Look all the time; only what is seen from now on counts."""
        self.most, self.least_ready = 0, 10**6
        looking = asyncio.create_task(self._look_on())
        try:
            yield self
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_on(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.1)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    ends = "deletionTimestamp" in pod["metadata"]
    return not ends and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@pytest.fixture
def moving(hub: Cluster, west: Cluster, east: Cluster) -> Iterator[Callable[..., Any]]:
    """async with moving() as samples: a propagator with two members whose pods run."""

    @asynccontextmanager
    async def begun(**kubeconfigs: str) -> AsyncIterator[Samples]:
        members = {"west": west, "east": east}
        async with staged(hub, members, kubeconfigs=kubeconfigs) as stage:
            yield Samples(stage)

    with swept(hub):
        yield begun


def stateful(**spec: Any) -> dict[str, Any]:
    body = deployment("web", serviceName="web", podManagementPolicy="Parallel", **spec)
    return {**body, "kind": "StatefulSet"}


async def runs(samples: Samples, member: str, units: int) -> None:
    """Wait until that many pods are ready there."""

    async def there() -> bool:
        await samples.look()
        return samples.ready(member) == units == len(samples.pods[member])

    await until(there, seconds=LONG, what=lambda: {m: len(p) for m, p in samples.pods.items()})


async def move(
    stage: Stage, leaving: dict[str, int] | None = None, cause: str = "Drained", **shares: int
) -> None:
    """Decide as the controller does."""
    status = {
        "placements": [{"cluster": c, "replicas": n} for c, n in shares.items()],
        "leaving": [
            {"cluster": c, "replicas": n, "cause": cause, "since": "2026-11-26T03:00:00Z"}
            for c, n in (leaving or {}).items()
        ],
    }
    await stage.patch("demo", {"status": status}, subresource="status")


async def taint(stage: Stage, member: str, *taints: dict[str, str]) -> None:
    await stage.hub.merge_patch(MEMBER_CLUSTERS, member, {"spec": {"taints": [*taints]}})


@pytest.mark.proves("M51", "M55", "M57")
@pytest.mark.parametrize("cause", ["Drained", "OutOfService"])
async def test_a_unit_that_runs_at_most_once_is_made_when_it_is_gone(
    moving: Any, cause: str
) -> None:
    """And not when it is about to go, nor when a person says of a running one that it does not."""
    async with moving() as samples:
        stage = samples.stage
        if cause == "OutOfService":
            await taint(stage, "west", {"key": f"{GROUP}/out-of-service", "effect": "NoExecute"})
        await stage.run("demo", {"west": 3}, template=stateful(), replicas=3)
        await runs(samples, "west", 3)
        client = stage.members["west"]
        holding = {"metadata": {"finalizers": ["test.dev/holds"]}}
        await client.merge_patch(PODS, "web-2", holding, namespace=stage.namespace)
        async with samples.taken():
            await move(stage, {"west": 3}, cause, east=3)
            await stage.becomes("west", "web", 2, "replicas", kind=STATEFUL_SETS, within=LONG)

            async def ends() -> bool:
                return any("deletionTimestamp" in p["metadata"] for p in samples.pods["west"])

            await until(ends, seconds=LONG)
            await stage.refused("demo", "Propagating", "east: 3 replicas wait until they are gone")
            await settled(stage)
            assert await stage.on("east", kind=STATEFUL_SETS) is None
            letting_go = {"metadata": {"finalizers": None}}
            await client.merge_patch(PODS, "web-2", letting_go, namespace=stage.namespace)
            await until(lambda: samples.ready("east") == 3, seconds=LONG)
            assert await stage.on("west", kind=STATEFUL_SETS) is None
        assert samples.both, "it went unit by unit"
        assert samples.most == 3
        assert samples.least_ready >= 1, "one lacks as it moves, and one may be starting"
        assert not samples.twice


def guarding(stage: Stage, name: str = "guard", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": stage.namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def guarded(stage: Stage, allowed: int, name: str = "guard") -> None:
    """Wait until the member says that its budget allows so many."""

    async def said() -> bool:
        with suppress(NotFound):
            found = await stage.members["west"].get(BUDGETS, name, namespace=stage.namespace)
            status = found.get("status", {})
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            return bool(current and status["disruptionsAllowed"] == allowed)
        return False

    await until(said, seconds=LONG)


async def placed_and_ready(samples: Samples, units: int, **spec: Any) -> None:
    stage = samples.stage
    await stage.run("demo", {"west": units}, targetDeployment=deployment(), replicas=units, **spec)
    await runs(samples, "west", units)


async def successors(samples: Samples, units: int, cause: str = "Drained") -> None:
    """Have the units placed on the other member, and ready there."""
    await move(samples.stage, {"west": units}, cause, east=units)
    await runs(samples, "east", units)


@pytest.mark.proves("M28")
async def test_a_share_goes_down_by_what_a_budget_allows(moving: Any) -> None:
    async with moving() as samples:
        stage = samples.stage
        await placed_and_ready(samples, 3)
        await stage.members["west"].create(BUDGETS, guarding(stage, maxUnavailable=1))
        await guarded(stage, 1)
        await successors(samples, 3)
        found = await stage.on("west")
        assert found is not None
        version, seen = found["metadata"]["resourceVersion"], [3]
        watching = stage.members["west"].watch(
            DEPLOYMENTS, resource_version=version, namespace=stage.namespace
        )
        await move(stage, east=3)
        async with asyncio.timeout(LONG * PATIENCE), watching as lines:
            async for line in lines:
                event = json.loads(line)
                if event["type"] == "DELETED":
                    break
                if event["type"] == "MODIFIED" and event["object"]["spec"]["replicas"] != seen[-1]:
                    seen.append(event["object"]["spec"]["replicas"])
        assert seen == [3, 2, 1]
