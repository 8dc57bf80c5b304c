"""Where the page's objects come from: the informers of a hub, or files alone.

With files the objects of `--fleet` are there, and those of `-f` as the controller would have
decided them. On a hub each kind is followed over all namespaces, or where the reader may not list
it so, in the named ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from controller.binding.statuspatch import patch_of
from controller.model.objects import Workload
from crds.names import GROUP
from machinery import tasks
from machinery.api.client import ApiClient
from machinery.api.resources import EVENTS, LEASES, MEMBER_CLUSTERS, WORKLOADS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.errors import ConfigurationError, Forbidden, NotFound
from machinery.runtime.informer import STALE_SECONDS, Informer
from machinery.types.metadata import Key
from stowage.fleet import manifests
from stowage.kinds import KINDS as NAMED
from stowage.simulation import plan
from stowage.simulation.plan import Where
from stowage.web.snapshot import KINDS, HubSnapshot, StoredObject

SYNC_SECONDS = 10.0
"""For so long the page waits for the first lists; what is not there by then comes later."""
MOST_EVENTS = 20
OF_CLUSTERS = "default"
"""The namespace of Events of cluster-scoped objects."""
PLANNED = "This is a plan: nothing is applied."
_TYPES = {**{each.resource.kind: each.resource for each in NAMED}, "MemberCluster": MEMBER_CLUSTERS}


class FleetSource(Protocol):
    """Where the page reads: a snapshot that changes, and what is to be said of it."""

    @property
    def snapshot(self) -> HubSnapshot:
        """The objects, which change as the hub does."""
        ...

    @property
    def title(self) -> str:
        """The hub, or the files."""
        ...

    @property
    def planned(self) -> Mapping[Key, Mapping[str, Any]]:
        """Explanations of what is only planned, by the key of the Workload."""
        ...

    def notes(self) -> list[str]:
        """Return what the reader has to know of how recent or complete this is."""
        ...

    async def events(self, res: Resource, key: Key) -> Sequence[Mapping[str, Any]]:
        """Return the last Events of an object, the newest first. Raises TransportError."""
        ...


@dataclass(slots=True)
class FileSource:
    """Objects of files; nothing of it changes."""

    title: str
    said: Sequence[str]
    snapshot: HubSnapshot = field(default_factory=HubSnapshot)
    planned: dict[Key, Mapping[str, Any]] = field(default_factory=dict)

    def notes(self) -> list[str]:
        return list(self.said)

    async def events(self, res: Resource, key: Key) -> Sequence[Mapping[str, Any]]:
        """Return none: files hold no Events."""
        del res, key
        return []


def of_files(files: Sequence[str], where: Where) -> FileSource:
    """Return the fleet of `where`, with the objects of `files` as they would be decided.

    Raises ConfigurationError for a wrong file.
    """
    present, named = where.present(), ", ".join((*where.fleet, *files))
    found = FileSource(f"files: {named}", list(present.notes))
    for cluster in present.clusters:
        found.snapshot.put(MEMBER_CLUSTERS, msgspec.to_builtins(cluster))
    bodies = dict(present.stored)
    if files:
        bodies |= _decided(files, where, found)
    for body in bodies.values():
        found.snapshot.put(WORKLOADS, body)
    for document in manifests.read((*where.fleet, *files)):
        kind = _TYPES.get(document.kind)
        if document.of(GROUP, document.kind) and kind not in (None, WORKLOADS, MEMBER_CLUSTERS):
            metadata = {"namespace": where.namespace, **document.body["metadata"]}
            found.snapshot.put(kind, {**document.body, "metadata": metadata})
    return found


def _decided(files: Sequence[str], where: Where, found: FileSource) -> dict[Key, dict[str, Any]]:
    """Return the planned Workloads as the controller would have written them."""
    made = plan.make(files, where, clock=SystemClock())
    found.said = [*found.said, *made.notes]
    bodies = {key: dict(body) for key, body in made.bodies.items()}
    for each in made.planned:
        key = each.decision.workload.key
        if key in bodies:
            stored = msgspec.convert(bodies[key], Workload)
            patch = patch_of(each.decision, stored, always=True) or {"status": {}}
            bodies[key]["status"] = {**(bodies[key].get("status") or {}), **patch["status"]}
            record = plan.recorded(each.decision, each.kind)
            found.planned[key] = {**record, "remarks": [PLANNED]}
    return bodies


class HubSource:
    """A hub, followed by informers; `follow` runs them."""

    def __init__(
        self, client: Verbs, title: str, *, namespaces: Sequence[str], system: str
    ) -> None:
        self.snapshot = HubSnapshot()
        self.title = title
        self.planned: dict[Key, Mapping[str, Any]] = {}
        self._client, self._namespaces, self._system = client, namespaces, system
        self._informers: list[Informer[StoredObject]] = []
        self._refused: list[str] = []
        self._everywhere = True

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Follow the hub meanwhile; begin once it was listed, or after SYNC_SECONDS.

        Raises ConfigurationError where the hub does not know our kinds.
        """
        for res in (*KINDS, LEASES):
            self._informers += [self._informer(res, each) for each in await self._scopes(res)]
        running = [asyncio.create_task(each.run()) for each in self._informers]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(SYNC_SECONDS):
                    await asyncio.gather(*(i.wait_synced() for i in self._informers))
            yield
        finally:
            await tasks.end(running)

    async def _scopes(self, res: Resource) -> list[str | None]:
        """Return the namespaces in which to follow a kind; None for all, empty where refused."""
        wide: list[str | None] = [self._system if res == LEASES else None]
        narrow: list[str | None] = [*self._namespaces] if res.namespaced and res != LEASES else []
        try:
            found = [each for each in wide if await self._readable(res, each)]
            if not found:
                found = [each for each in narrow if await self._readable(res, each)]
                self._everywhere = self._everywhere and not found
        except NotFound as e:
            raise ConfigurationError("the hub does not know our kinds: run stowage install") from e
        if not found:
            self._refused.append(f"{res.kind}s")
            if res != WORKLOADS:  # without any the report has nothing to say of the others
                self.snapshot.refused.add(res.plural)
        return found

    async def _readable(self, res: Resource, namespace: str | None) -> bool:
        try:
            await self._client.latest(res, namespace=namespace)
        except Forbidden:
            return False
        return True

    def _informer(self, res: Resource, namespace: str | None) -> Informer[StoredObject]:
        made = Informer(
            self._client,
            res,
            StoredObject,
            namespace=namespace,
            transform=StoredObject.detached,
        )
        made.add_handler(lambda old, new: self.snapshot.change(res, old, new))
        return made

    def notes(self) -> list[str]:
        """Return which kinds are not followed now, and in which namespaces alone one looks."""
        late = [i.resource.kind for i in self._informers if i.staleness() > STALE_SECONDS]
        found = [] if self._everywhere else [f"Only of {', '.join(self._namespaces)}"]
        refused = {*self._refused, *(f"{i.resource.kind}s" for i in self._informers if i.refused)}
        if told := sorted(refused):
            found.append(f"Not shown, as you may not read them: {', '.join(told)}")
        if late:
            what = ", ".join(sorted(set(late)))
            found.append(f"The hub does not answer: {what} may be older than shown")
        return found

    async def events(self, res: Resource, key: Key) -> Sequence[Mapping[str, Any]]:
        """Return the last Events of an object, the newest first. Raises TransportError."""
        listed = await self._client.list(
            EVENTS,
            namespace=key[0] or OF_CLUSTERS,
            field_selector=f"regarding.name={key[1]},regarding.kind={res.kind}",
        )
        return _newest(listed["items"])


def _newest(listed: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    def last(event: Mapping[str, Any]) -> str:
        series = event.get("series") or {}
        return str(series.get("lastObservedTime") or event.get("eventTime") or "")

    found = [
        {
            "time": last(each),
            "type": each.get("type") or "",
            "reason": each.get("reason") or "",
            "note": each.get("note") or "",
        }
        for each in listed
    ]
    return sorted(found, key=lambda each: each["time"], reverse=True)[:MOST_EVENTS]


@asynccontextmanager
async def of_hub(
    connection: Connection, namespaces: Sequence[str], system: str
) -> AsyncIterator[HubSource]:
    """Follow the hub of that connection. Raises ConfigurationError, TransportError."""
    async with ApiClient(connection, name="hub") as client:
        found = HubSource(client, connection.server, namespaces=namespaces, system=system)
        async with found.follow():
            yield found
