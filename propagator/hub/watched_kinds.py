"""Which kinds are watched on members: each costs a connection on every member.

A kind beyond the usual ones is watched while a Workload refers to it or objects of it exist.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from crds.membercluster import MemberClusterCondition
from crds.names import ANNOTATION_COUNTED
from machinery import logs
from machinery.api.resources import MEMBER_CLUSTERS, USUAL, Resource
from machinery.api.responses import decode
from machinery.api.verbs import Verbs
from machinery.errors import (
    ApiError,
    Forbidden,
    NotFound,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from machinery.runtime.backoff import KeyedBackoff
from machinery.runtime.informer import Informer, Page
from machinery.runtime.workqueue import WorkQueue, work
from machinery.tasks import in_slices
from machinery.types import conditions
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads, clusters_of, touches
from propagator.members.cluster_identity import cluster_id
from propagator.members.connection import Link
from propagator.members.context import ControllerContext
from propagator.members.inventory import OwnedObjects, owned
from propagator.members.kinds import USUAL_KINDS
from propagator.members.objects import ManagedObject
from propagator.members.session import MemberSession
from propagator.members.watches import MANAGED_SELECTOR
from propagator.types.cluster import MemberCluster
from propagator.types.workload import Workload

LOG = logs.get(__name__)
PERIOD_SECONDS = 60.0
FEW = 20
"""Members in one slice: each checks all Workloads of each of its kinds."""

Pair = tuple[str, str]
"""(apiVersion, kind)."""


class IdleKinds:
    """Ends idle watches, and removes kinds without objects from the notes.

    A noted kind counts until two checks find no object on any member: a write in flight at the
    first has ended at the second.
    """

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        inventory: OwnedObjects,
    ) -> None:
        self._clock = context.clock
        self._fresh = context.fresh
        self._registry = context.registry
        self._views = context.views
        self._workloads = workloads
        self._inventory = inventory
        # Of the Workload, at the last check. Another leader may have written objects since.
        self._seen_idle = context.shares.column(set[Pair], of_term=True)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            if self._fresh():
                await self.sweep()

    async def sweep(self) -> None:
        async for workload in in_slices(list(self._workloads.informer.values())):
            before, idle = self._seen_idle.get(workload.uid), await self._idle(workload)
            if idle and self._workloads.by_uid(workload.uid) is not None:
                self._seen_idle.put(workload.uid, "", idle)
                await self._remove_notes(workload, idle & (before or set()))
            else:
                self._seen_idle.pop(workload.uid)
        async for name in in_slices(self._registry.names(), size=FEW):
            session = self._registry.get(name)
            if session is not None:
                self._end_idle(session)

    async def _remove_notes(self, workload: Workload, idle: set[Pair]) -> None:
        try:
            await self._workloads.forget_kinds(workload, idle)
        except TransportError as fault:
            LOG.info("its kinds are kept until the next look: %s", fault, extra=_about(workload))

    async def _idle(self, workload: Workload) -> set[Pair]:
        """Return the noted kinds that are not rendered, and that no member has."""
        left = set(workload.remembered()) - set(workload.kinds()) - USUAL_KINDS
        if not left or workload.metadata.deleting:
            return set()
        names = clusters_of(workload, self._views.names) | self._inventory.holders(workload.uid)
        async for name in in_slices(names):
            session = self._registry.get(name)
            if session is None or not self._inventory.knows(session, workload):
                return set()
            held = owned(session, workload.uid)
            left -= {(resource.api_version, resource.kind) for resource, _ in held}
        return left

    def _end_idle(self, session: MemberSession) -> None:
        if session.link is None:
            return
        # No await from the check to the end of the watch: no task may begin to use it.
        for resource in {informer.resource for informer in session.link.watches} - set(USUAL):
            watching = session.link.watches.of_kind(resource.api_version, resource.kind)
            shown = any(len(each) or _unread(each) for each in watching.values())
            if not shown and not self._used(session.name, resource):
                session.untrack(resource)

    def _used(self, member: str, resource: Resource) -> bool:
        users = self._workloads.referring(resource.api_version, resource.kind)
        return any(touches(user, member) for user in users)


def _unread(informer: Informer[ManagedObject]) -> bool:
    return not informer.synced and not isinstance(informer.last_error, NotFound | Forbidden)


def _about(workload: Workload) -> dict[str, str]:
    return {"object": workload.owner}


MOST_KINDS = 1000
"""The most kinds of one member that are searched; no honest server has more."""
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 600.0
"""Seconds between two searches of a member that did not answer to the end."""
LATE_SECONDS = 60.0
"""After this time no request of a dead process is in flight."""
_WORKERS = 4
_UNKNOWN = "unknown"


_page = msgspec.json.Decoder(Page)


class Census:
    """Searches members for objects of ours of every kind; a kind with any is watched from then on.

    The usual kinds are listed at each connect and once more later: a request of a dead process may
    arrive late. Every other kind is listed once per registration, noted on the MemberCluster, and
    again after a set-back or while a sweep is held. An agent searches once for each connection
    (`noted`).
    """

    def __init__(self, context: ControllerContext, *, noted: bool = True) -> None:
        self._noted = noted
        self.on_searched: Callable[[str], None] = lambda _: None
        self._hub = context.hub
        self._registry = context.registry
        self._clusters = context.clusters
        self._clock = context.clock
        self._history = context.hub.history.number  # of what was searched
        self._queue: WorkQueue[str] = WorkQueue(name="census", clock=context.clock)
        self._backoff: KeyedBackoff[str] = KeyedBackoff(
            clock=context.clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE
        )
        context.registry.on_change(self._member_changed)

    def searched(self, link: Link) -> bool:
        return link.search_due is not None

    async def run(self) -> None:
        if self._history != self._hub.history.number:  # a hub that was set back ends the term
            self._history = self._hub.history.number
            for member in self._registry.names():
                session = self._registry.get(member)
                if session is not None and session.link is not None:
                    session.link.search_due = None
                self._queue.add(member)
        await work(self._queue, self._reconcile, workers=_WORKERS, log=LOG)

    def _member_changed(self, member: str, key: Key | None) -> None:
        if key is not None:
            return
        session = self._registry.get(member)
        if session is not None and session.ready:
            self._queue.add(member)

    async def _reconcile(self, member: str) -> float | None:
        session, cluster = self._registry.get(member), self._clusters.get(("", member))
        link = session.link if session is not None else None
        unknown = self._noted and cluster is None
        if session is None or unknown or link is None or not session.ready:
            self._backoff.reset(member)
            return None
        wait = max(
            self._backoff.remaining(member), (link.search_due or 0.0) - self._clock.monotonic()
        )
        if wait > 0:
            return wait if wait < math.inf else None
        try:
            await self._search(session, link, cluster)
        except TransportError as fault:
            LOG.info("%s: not searched for what is ours: %s", member, fault)
            return self._backoff.failed(member)
        self._backoff.reset(member)
        self.on_searched(member)
        return LATE_SECONDS if link.search_due != math.inf else None

    async def _search(
        self, session: MemberSession, link: Link, cluster: MemberCluster | None
    ) -> None:
        for resource in USUAL:
            seen = link.watches.is_apart(resource) or session.tracked(resource) is not None
            if not seen and await _any(link.client, resource):
                session.track(resource)
        if link.search_due is not None:
            link.search_due = math.inf
        else:
            await self._search_others(session, link, cluster)
            link.search_due = self._clock.monotonic() + LATE_SECONDS

    async def _search_others(
        self, session: MemberSession, link: Link, cluster: MemberCluster | None
    ) -> None:
        which = await cluster_id(link.client) or _UNKNOWN
        set_back = self._hub.history.ended or link.hub_went_back
        if cluster is not None and not set_back and _was_searched(cluster, which):
            return
        async for resource in _kinds(link.client):
            if await _any(link.client, resource):
                session.track(resource)
        if cluster is not None:
            await self._mark_searched(cluster, which)

    async def _mark_searched(self, cluster: MemberCluster, which: str) -> None:
        # The UID keeps the note off a MemberCluster that was created again.
        metadata = {"uid": cluster.metadata.uid, "annotations": {ANNOTATION_COUNTED: which}}
        noted = await self._hub.merge_patch(MEMBER_CLUSTERS, cluster.name, {"metadata": metadata})
        self._clusters.upsert(msgspec.convert(noted, MemberCluster))


def _was_searched(cluster: MemberCluster, which: str) -> bool:
    held = conditions.find(cluster.status, MemberClusterCondition.SWEEP_HELD)
    noted = cluster.metadata.annotations.get(ANNOTATION_COUNTED)
    return noted == which and held.get("status") != "True"


async def _kinds(client: Verbs) -> AsyncIterator[Resource]:
    """Each in one version."""
    usual = {(resource.group, resource.plural) for resource in USUAL}
    seen = 0
    for api_version in await client.api_versions():
        for resource in await _of_group(client, api_version):
            if (resource.group, resource.plural) in usual:
                continue
            seen += 1
            if seen > MOST_KINDS:
                LOG.warning("of its kinds only %d are searched for what is ours", MOST_KINDS)
                return
            yield resource


async def _of_group(client: Verbs, api_version: str) -> Sequence[Resource]:
    try:
        return await client.discover(api_version)
    except ApiError as fault:
        _ignore_unlistable(fault)
        return []


async def _any(client: Verbs, resource: Resource) -> bool:
    """A kind that cannot be listed has none."""
    pages = client.pages(resource, label_selector=MANAGED_SELECTOR, metadata_only=True, limit=1)
    try:
        return bool(decode(await anext(pages), _page).items)
    except ApiError as fault:
        _ignore_unlistable(fault)
        return False


def _ignore_unlistable(fault: ApiError) -> None:
    if isinstance(fault, TooManyRequests | Unauthorized):
        raise fault
