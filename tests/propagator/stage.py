"""A propagator on a real hub with real members, and a test that plays scheduler and kubelet."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from typing import Any

from crds.names import GIVEN_UP
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, SECRETS, USUAL, WORKLOADS, Resource
from machinery.errors import NotFound, StowageError
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue
from propagator.app import Propagator
from propagator.members.session import MemberSession
from propagator.settings import PropagatorSettings, SessionSettings
from stowage.playground.controlplanes import Cluster
from tests.letting_go import let_go
from tests.patience import PATIENCE

from .conftest import CALM, clean, secret
from .waits import LOOKS, handled, until

KINDS = {resource.kind: resource for resource in USUAL}
DEPLOYMENTS, SERVICES, CONFIGMAPS = KINDS["Deployment"], KINDS["Service"], KINDS["ConfigMap"]
MakeStage = Callable[..., AbstractAsyncContextManager["Stage"]]
"""What the fixture `stage_on` is."""
LONG_TERMS: Mapping[str, float] = {
    "lease_seconds": 60.0,
    "renew_deadline": 50.0,
    "lease_retry": 0.3,
}
"""No test loses its term because the machine stood still for a while."""
_numbers = itertools.count(1)


def deployment(name: str = "web", *, image: str = "pause", **spec: Any) -> dict[str, Any]:
    """A small template."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
            **spec,
        },
    }


def configmap(name: str, **data: str) -> dict[str, Any]:
    """A manifest."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def autoscaler(version: str, most: int = 3, *, name: str = "scaler") -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "elsewhere"},
            "maxReplicas": most,
        },
    }


@dataclass
class Stage:
    """A namespace of one test, and what the test does and sees there."""

    hub: ApiClient
    members: Mapping[str, ApiClient]
    clusters: Mapping[str, Cluster]
    process: Propagator
    task: asyncio.Task[None]
    namespace: str
    sessions: SessionSettings = CALM
    terms: Mapping[str, float] = field(default_factory=lambda: LONG_TERMS)

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """A Workload that another scheduler than ours places."""
        if "template" not in spec:
            spec.setdefault("targetDeployment", deployment())
        body = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"schedulerName": "the-test", **spec},
        }
        return await self.hub.create(WORKLOADS, body)

    async def place(self, name: str, *, footprint: str = "", **shares: int) -> None:
        """Decide, as another scheduler does, or with the footprint that ours writes."""
        placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
        noted = {"footprint": {"clusters": footprint}} if footprint else {}
        status = {"placements": placements, **noted}
        await self.patch(name, {"status": status}, subresource="status")

    async def run(self, name: str, shares: Mapping[str, int], **spec: Any) -> None:
        """A Workload with these placements."""
        await self.create(name, **spec)
        await self.place(name, **shares)

    async def bring(self, name: str, shares: Mapping[str, int], **spec: Any) -> None:
        """A Workload with these placements, once it is Propagated."""
        await self.run(name, shares, **spec)
        await self.propagated(name)

    async def push(
        self, name: str, member: str = "m1", *, within: float = 30.0, **spec: Any
    ) -> None:
        """A Workload with a Deployment of its name, on one member."""
        await self.run(name, {member: 1}, targetDeployment=deployment(name), **spec)
        await self.refused(name, "Propagated", within=within)

    async def patch(self, name: str, patch: Mapping[str, Any], **how: str) -> dict[str, Any]:
        return await self.hub.merge_patch(WORKLOADS, name, patch, namespace=self.namespace, **how)

    async def workload(self, name: str) -> dict[str, Any] | None:
        with suppress(NotFound):
            return await self.hub.get(WORKLOADS, name, namespace=self.namespace)
        return None

    async def status(self, name: str) -> dict[str, Any]:
        return (await self.workload(name) or {}).get("status", {})

    async def condition(self, name: str, kind: str) -> dict[str, Any]:
        conditions = (await self.status(name)).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    async def share(self, name: str, member: str) -> dict[str, Any]:
        shares = (await self.status(name)).get("clusters", [])
        return next((s for s in shares if s["name"] == member), {})

    async def fares(self, name: str, member: str, state: str) -> dict[str, Any]:
        """Wait until that is told of its share there; the share."""
        found: dict[str, Any] = {}

        async def said() -> bool:
            found.update(await self.share(name, member))
            return found.get("state") == state

        await until(said, what=lambda: found)
        return found

    async def refused(self, name: str, reason: str, *words: str, within: float = 30.0) -> str:
        """Wait until Propagated says so, for that reason and in these words; its message."""

        found: dict[str, Any] = {}

        async def said() -> bool:
            found.update(await self.condition(name, "Propagated"))
            told = found.get("message", "")
            return found.get("reason") == reason and all(each in told for each in words)

        await until(said, seconds=within, what=lambda: found)
        return str(found["message"])

    async def propagated(self, name: str) -> None:
        await self.refused(name, "Propagated")

    async def on(
        self,
        member: str,
        name: str = "web",
        *,
        kind: Resource = DEPLOYMENTS,
        namespace: str | None = None,
    ) -> dict[str, Any] | None:
        """The object on a member."""
        with suppress(NotFound):
            return await self.members[member].get(kind, name, namespace=namespace or self.namespace)
        return None

    async def appears(self, member: str, name: str = "web", **where: Any) -> dict[str, Any]:
        async def there() -> bool:
            return await self.on(member, name, **where) is not None

        await until(there)
        found = await self.on(member, name, **where)
        assert found is not None
        return found

    async def becomes(
        self,
        member: str,
        name: str,
        value: object,
        field: str,
        *,
        within: float = 30.0,
        **where: Any,
    ) -> dict[str, Any]:
        """Wait until that field of the object's spec has that value; the object."""
        found: dict[str, Any] = {}

        async def there() -> bool:
            found.update(await self.on(member, name, **where) or {})
            return found.get("spec", {}).get(field) == value

        await until(there, seconds=within)
        return found

    async def goes(self, member: str, name: str = "web", **where: Any) -> None:
        async def away() -> bool:
            return await self.on(member, name, **where) is None

        await until(away)

    async def gone(self, name: str, *, within: float = 30.0) -> None:
        """Wait until the hub has no such Workload."""

        async def away() -> bool:
            return await self.workload(name) is None

        await until(away, seconds=within)

    async def delete(self, name: str) -> None:
        await self.hub.delete(WORKLOADS, name, namespace=self.namespace)

    async def end(self, name: str) -> None:
        """Delete a Workload, and wait until the hub has it no more."""
        await self.delete(name)
        await self.gone(name)

    @asynccontextmanager
    async def away(self, member: str) -> AsyncIterator[None]:
        """Stop a member's servers, and wait until that is noticed; they go on in the end."""
        self.clusters[member].freeze()
        try:
            await until(lambda: not self.serves(member))
            yield
        finally:
            self.clusters[member].thaw()

    async def unregister(self, member: str) -> dict[str, Any]:
        """Give a member up, as `stowage unjoin` does; the Secret that registers it again."""
        secret = await self.hub.get(SECRETS, member, namespace="stowage-system")
        await self.hub.delete(SECRETS, member, namespace="stowage-system")
        await let_go(self.hub, member, GIVEN_UP)
        # Workloads come on a stream of their own: one that is deleted next could be heard of first.
        await until(lambda: self.process.term.registry.get(member) is None)
        for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "annotations"):
            secret["metadata"].pop(key, None)
        return secret

    def queued(self, member: str, name: str) -> bool:
        """Whether the member's workers have been called for that Workload, and are not there yet."""
        session = self.process.term.registry.get(member) if self.process.term else None
        return session is not None and len(session.queue) > 0

    async def make_ready(self, member: str, name: str = "web") -> None:
        """Say what the controllers of a member would say."""
        found = await self.appears(member, name)
        units = found["spec"]["replicas"]
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), units)
        counts["observedGeneration"] = found["metadata"]["generation"]
        await self.members[member].merge_patch(
            DEPLOYMENTS, name, {"status": counts}, namespace=self.namespace, subresource="status"
        )

    async def space_on(self, member: str) -> None:
        """Make the namespace there before the propagator does."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.members[member].create(NAMESPACES, body)

    def serves(self, member: str) -> bool:
        """Whether it has a session that is ready."""
        term = self.process.term
        session = term.registry.get(member) if term else None
        return session is not None and session.ready

    async def ready(self) -> None:
        """Wait until all members are."""
        await until(lambda: all(map(self.serves, self.members)))

    async def restart(self) -> None:
        """End the process, as politely as a cancellation is, and begin another one."""
        await self.stop()
        self.start()

    async def restarted(self) -> None:
        """Begin another process, and wait until all members are ready."""
        await self.restart()
        await self.ready()

    def start(self) -> None:
        settings = PropagatorSettings(
            http_port=0,
            sessions=self.sessions,
            **self.terms,
        )
        self.process = Propagator(self.hub, settings=settings)
        self.task = asyncio.create_task(self.process.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        assert self.task.cancelled()


@asynccontextmanager
async def staged(
    hub: Cluster,
    members: Mapping[str, Cluster],
    *,
    kubeconfigs: Mapping[str, str] | None = None,
    sessions: SessionSettings = CALM,
    terms: Mapping[str, float] = LONG_TERMS,
) -> AsyncIterator[Stage]:
    """Everything, with these members registered and ready; by the administrator's kubeconfig."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(hub.connection()))
        clients = {
            name: await stack.enter_async_context(
                ApiClient(each.connection(), user_agent="somebody-else")
            )
            for name, each in members.items()
        }
        namespace = f"placements-{next(_numbers)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, body)
        for name, each in members.items():
            given = (kubeconfigs or {}).get(name, each.admin_kubeconfig)
            await client.create(SECRETS, secret(name, {"kubeconfig": given}))
        idle = asyncio.create_task(asyncio.sleep(0))
        stage = Stage(client, clients, members, None, idle, namespace, sessions, terms)  # type: ignore[arg-type] # start sets it
        stage.start()
        try:
            await stage.ready()
            yield stage
        except BaseException:
            # What failed first is told; what is left of it must not fail the tests that follow.
            with suppress(AssertionError, StowageError, TimeoutError):
                async with asyncio.timeout(30 * PATIENCE):
                    await _empty(stage)
            raise
        else:
            await _empty(stage)
        finally:
            await stage.stop()


async def _empty(stage: Stage) -> None:
    """Leave nothing of a test for the next one."""
    listed = await stage.hub.list(WORKLOADS, namespace=stage.namespace)
    names = [item["metadata"]["name"] for item in listed["items"]]
    for name in names:
        with suppress(NotFound):
            await stage.delete(name)
    for name in names:
        await stage.gone(name)


@contextmanager
def swept(hub: Cluster) -> Iterator[None]:
    """A hub without members before and after."""
    clean(hub)
    try:
        yield
    finally:
        clean(hub)


async def settled(
    stage: Stage, *, told: bool = False, also: Callable[[], bool] = lambda: True
) -> None:
    """Wait until the process has heard of everything, and has nothing left to do or to say.

    With `told`, until its Events are written too, which follow slowly; and until `also` holds.
    Members that are not ready are not asked.
    """
    term = stage.process.term
    assert term is not None
    controller, recorder = term.workloads, stage.process._recorder
    reporter, gates = controller._reporter, controller._gates

    def sessions() -> Iterator[tuple[str, MemberSession]]:
        for name in stage.members:
            if (session := term.registry.get(name)) is not None:
                yield name, session

    def following() -> Iterator[tuple[ApiClient, list[Informer[Any]]]]:
        named = [
            watches._watches.get(each)
            for watches in controller._watches.values()
            for each in watches._watches
        ]
        yield stage.hub, [*term._informers, *controller.optional, *named]
        for name, session in sessions():
            if session.ready and session.link is not None:
                yield stage.members[name], [*session.link.informers]

    def queues() -> list[WorkQueue[Any]]:
        called = [session.queue for _, session in sessions()]
        return [term._registrar._queue, gates._queue, reporter.queue, *called]

    def said() -> bool:
        later = reporter.queue._later.first()
        soon = later is not None and later.at < time.monotonic() + SOON_SECONDS
        timings = [reporter._timing.at(*of) for of in reporter._timing]
        waiting = any(t.begun is not None for t in timings) or soon or (told and recorder._waiting)
        spread = controller._handlers.syncs.waiting or controller._handlers.reports.waiting
        return not waiting and not spread and also()

    await handled(following, queues, also=said)


SOON_SECONDS = 60.0
"""What a report waits for beyond that is the end of a time, as that of a drift that was repaired."""
OURS = frozenset(
    {
        *("workloads", "memberclusters", "secrets", "configmaps", "events", "namespaces"),
        *(resource.plural for resource in USUAL),
    }
)
"""The resources that a propagator has to do with."""
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\d+)$", re.MULTILINE)
_LABELS = re.compile(r'(\w+)="([^"]*)"')


async def counted(client: ApiClient, resources: Collection[str] = OURS) -> Counter[tuple[str, str]]:
    """The requests about these resources so far, (verb, resource), as that API server counted them.

    An apply is counted as such, and not as the PATCH that carries it. What is only tried, as
    whether the admission policies hold is, changes nothing and is left out, as are the lists of
    `settled`.
    """
    text = (await client.request("GET", "/metrics", timeout=60)).decode()
    asked: Counter[tuple[str, str]] = Counter()
    for labels, number in _REQUESTS.findall(text):
        of = dict(_LABELS.findall(labels))
        if of["resource"] in resources and not of["dry_run"]:
            asked[of["verb"], of["resource"]] += int(number)
    ours = LOOKS.get(client, Counter())
    return Counter({each: number - ours[each] for each, number in asked.items()})


async def changes(client: ApiClient) -> Counter[tuple[str, str]]:
    """The requests that changed something."""
    found = await counted(client)
    reading = ("GET", "LIST", "WATCH")
    return Counter({each: n for each, n in found.items() if each[0] not in reading})
