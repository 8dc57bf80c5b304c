"""The hub's Workloads: read through one informer, changed only by the writes in this module.

Every write names the version that was read. Each answer enters the informer before the watch brings
it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec

from crds.names import ANNOTATION_RESTORED, FINALIZER
from machinery.api.resources import WORKLOADS
from machinery.api.responses import decode
from machinery.errors import Invalid, NotFound
from machinery.runtime.informer import Informer, Page
from machinery.tasks import KeyedLocks
from machinery.types.metadata import Key, Object
from machinery.types.written_clusters import ALL, digest
from propagator.hub.own_kind import OwnKind
from propagator.hub.workload_metadata import (
    entries_patch,
    footprint_without,
    is_ours,
    missing,
    record_of,
    with_only,
    without_member,
)
from propagator.members.context import ControllerContext
from propagator.members.kinds import USUAL_KINDS
from propagator.members.noted_kinds import without_kinds
from propagator.members.objects import version_number
from propagator.shards.concern import Concern
from propagator.types.kept import kept
from propagator.types.workload import Workload, departing, workload_of

JSON_PATCH = "application/json-patch+json"
CLUSTER_INDEX = "cluster"
"""By the clusters that Workloads are, or were, on."""
SECRET_INDEX = "secret"  # noqa: S105 - the name of an index
"""By the Secrets that travel with Workloads, `namespace/name`."""
KIND_INDEX = "kind"
"""By the kinds of Workloads beyond the usual ones, `apiVersion/kind`."""
ENDING_INDEX = "ending"
"""Of the Workloads that are being deleted."""
KEPT_INDEX = "kept"
"""By the clusters that status.kept names."""


_page = msgspec.json.Decoder(Page)


class HubWorkloads:
    """The term runs `informer`. Writes raise LeaseLost."""

    def __init__(self, context: ControllerContext) -> None:
        self._hub = context.hub
        self._clusters = context.clusters
        self._registry = context.registry
        self._preparing: KeyedLocks[Key] = KeyedLocks()
        self.concern = Concern(context.registry.holders)
        self.informer: Informer[Workload] = Informer(
            context.hub,
            WORKLOADS,
            Workload,
            transform=kept,
            departing=departing,
            clock=context.clock,
            aside=self.concern.aside,
        )
        self.concern.of(self.informer)
        self.informer.add_index(CLUSTER_INDEX, _entries_of)
        self.informer.add_index(SECRET_INDEX, _secrets_of)
        self.informer.add_index(KIND_INDEX, _kinds_of)
        self.informer.add_index(ENDING_INDEX, lambda each: [""] if each.metadata.deleting else [])
        self.informer.add_index(KEPT_INDEX, _keepers_of)
        self.newest = 0
        self._by_uid: dict[str, Key] = {}
        # Of the Workload: whether its decision was seen to change, and since when its end is known.
        self._witnessed = context.shares.column(bool)
        self._ending = context.shares.column(float)
        self._clock = context.clock
        self._kind = OwnKind(context.hub, WORKLOADS, clock=context.clock)
        self.informer.add_handler(self._witness)
        self.informer.on_aside(self._see)

    async def prepare(
        self, workload: Workload, kinds: set[tuple[str, str]], *, restored: str = ""
    ) -> Workload:
        """Note the finalizer, members and kinds before these kinds are written.

        Also ordinal ranges if the scheduler assigns none, and `restored` unless it is empty. A
        Workload that was edited or deleted since is returned as it is. Raises TransportError.
        """
        async with self._latest(workload) as now:
            if now.metadata.deleting or now.metadata.generation != workload.metadata.generation:
                return now
            metadata = missing(now, kinds, there=self._serves)
            if restored:
                noted = {ANNOTATION_RESTORED: restored}
                metadata["annotations"] = metadata.get("annotations", {}) | noted
            written = await self._patch_metadata(now, metadata) if metadata else now
            ranges = written.missing_ranges(self.formerly)
            if not ranges:
                return written
            status = {"ordinals": [{"cluster": c, "start": n} for c, n in ranges.items()]}
            return self._store(await self._patch(written, {"status": status}, subresource="status"))

    def _serves(self, name: str) -> bool:
        return self._registry.get(name) is not None

    def formerly(self, name: str) -> Sequence[str]:
        """Return the names that a cluster had, and that no other has."""
        cluster = self._clusters.get(("", name))
        former = cluster.spec.former_names if cluster is not None else ()
        return [each for each in former if self._clusters.get(("", each)) is None]

    async def confirm(self, workload: Workload, member: str) -> None:
        """Note that the member has no objects. Raises TransportError, Conflict."""
        async with self._latest(workload) as now:
            metadata = without_member(now, member)
            if metadata and not now.metadata.deleting:
                await self._patch_metadata(now, metadata)
        async with self._latest(workload) as now:
            status = footprint_without(now, member)
            if status and not now.metadata.deleting:
                self._store(await self._patch(now, {"status": status}, subresource="status"))

    async def part(self, workload: Workload, others: Collection[str]) -> None:
        """Note that no members but these hold anything of a Workload that ends.

        Raises TransportError, Conflict.
        """
        metadata, status = with_only(workload, others)
        if metadata:
            workload = await self._patch_metadata(workload, metadata)
        if status:
            self._store(await self._patch(workload, {"status": status}, subresource="status"))

    async def forget_kinds(self, workload: Workload, idle: set[tuple[str, str]]) -> None:
        """Remove kinds that no member has from the notes. Raises TransportError, Conflict."""
        async with self._latest(workload) as now:
            metadata = without_kinds(now, idle)
            if metadata and now.metadata.generation == workload.metadata.generation:
                await self._patch_metadata(now, metadata)

    def referring(self, api_version: str, kind: str) -> list[Workload]:
        return list(self.informer.by_index(KIND_INDEX, f"{api_version}/{kind}"))

    def ending(self) -> Collection[Workload]:
        """Return the Workloads that are being deleted."""
        return self.informer.by_index(ENDING_INDEX, "")

    def keeping(self, name: str) -> Collection[Workload]:
        """Return those whose status names what is kept on the cluster."""
        return self.informer.by_index(KEPT_INDEX, name)

    def keeping_unknown(self) -> list[Workload]:
        """As `keeping`, on all clusters that no MemberCluster has the name of."""
        names = self.informer.index_values(KEPT_INDEX)
        gone = [name for name in names if self._clusters.get(("", name)) is None]
        return [workload for name in gone for workload in self.keeping(name)]

    def clusters_unknown(self) -> list[str]:
        """Return the names on Workloads that no MemberCluster has."""
        names = (n for n in self.informer.index_values(CLUSTER_INDEX) if n[:1] not in {"#", ALL})
        return [name for name in names if self._clusters.get(("", name)) is None]

    def touching(self, name: str) -> list[Workload]:
        """Return those that name the cluster, and those of which it has something, noted or not."""
        session = self._registry.get(name)
        shown = map(self.by_uid, session.owners if session is not None else ())
        found = [
            *(workload for workload in shown if workload is not None),
            *self.informer.by_index(CLUSTER_INDEX, name),
            *self.informer.by_index(CLUSTER_INDEX, digest(name)),
            *self.informer.by_index(CLUSTER_INDEX, ALL),
        ]
        return list({workload.metadata.key: workload for workload in found}.values())

    @property
    def listed(self) -> bool:
        return self.informer.synced

    def known(self, uid: str) -> bool:
        """Whether the hub has it, kept whole or not."""
        return uid in self._by_uid or uid in self.informer.put_aside

    def by_uid(self, uid: str) -> Workload | None:
        """Return None also for one that was put aside."""
        key = self._by_uid.get(uid)
        return self.informer.get(key) if key is not None else None

    def key_of(self, uid: str) -> Key | None:
        """As `by_uid`, the key alone."""
        return self._by_uid.get(uid)

    def decided(self, workload: Workload) -> float:
        """Return a hub version no older than the Workload's present decision.

        Infinite if this process saw the decision arrive: a restored hub shows old ones.
        """
        if self._witnessed.get(workload.uid):
            return math.inf
        return version_number(workload.metadata.resource_version) or math.inf

    async def whole(self, key: Key, uids: Callable[[], Collection[str]]) -> Workload | None:
        """Return the Workload of that key, None if there is none or if it was put aside.

        One whose UID is of `uids` is read. Raises TransportError.
        """
        found = self.informer.get(key)
        aside = self.informer.put_aside
        if found is not None or not aside or not any(uid in aside for uid in uids()):
            return found
        with suppress(NotFound):
            answer = await self._hub.get(WORKLOADS, key[1], namespace=key[0])
            self.informer.take_up(workload_of(answer))
        return self.informer.get(key)

    async def kind_ends(self, uid: str) -> bool:
        """Return whether a deleted or unknown Workload goes with its kind. Raises HubFault."""
        since = self._ending.get(uid)
        return await self._kind.ends(since=self._clock.monotonic() if since is None else since)

    async def kind_since(self) -> str:
        """Return when the hub got the kind; empty where it has none. Raises HubFault."""
        return await self._kind.since()

    async def version(self) -> int | None:
        """Return the hub's resourceVersion; None if it is not comparable. Raises TransportError."""
        page = await anext(self._hub.pages(WORKLOADS, metadata_only=True, limit=1))
        return version_number(decode(page, _page).metadata.resource_version)

    async def vanished(self, uid: str, key: Key) -> bool:
        """Ask the hub, not the informer, whether it has no Workload of that UID.

        `key` is the last known name. Raises TransportError.
        """
        if self.known(uid):
            return False
        try:
            found = await self._hub.get(WORKLOADS, key[1], namespace=key[0])
        except NotFound as e:
            # A hub that lacks the kind answers 404 without the name: that proves nothing.
            return e.details.get("name") == key[1]
        return bool(found["metadata"]["uid"] != uid)

    async def write_status(self, workload: Workload, status: Mapping[str, Any]) -> bool:
        """Return False if the Workload is gone."""
        with suppress(NotFound):
            self._store(await self._patch_status(workload, status))
            return True
        return False

    async def _patch_status(
        self, workload: Workload, status: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        entries = entries_patch(workload, status)
        if entries is not None:
            namespace, name = workload.metadata.key
            path = WORKLOADS.path(namespace, name, "status")
            # Invalid if the list became shorter: the whole write then reports why.
            with suppress(Invalid):
                answer = await self._hub.request(
                    "PATCH", path, body=msgspec.json.encode(entries), content_type=JSON_PATCH
                )
                return cast("Mapping[str, Any]", msgspec.json.decode(answer))
        return await self._patch(workload, {"status": status}, subresource="status")

    async def release(self, workload: Workload) -> None:
        # The answer does not enter the informer: the Workload may have gone with it.
        if is_ours(workload):
            remaining = [each for each in workload.metadata.finalizers if each != FINALIZER]
            with suppress(NotFound):
                await self._patch(workload, {"metadata": {"finalizers": remaining}})

    def _see(self, _uid: str, brief: Object | None) -> None:
        if brief is not None:
            seen = version_number(brief.metadata.resource_version) or 0
            self.newest = max(self.newest, seen)

    def _witness(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            seen = version_number(new.metadata.resource_version) or 0
            self.newest = max(self.newest, seen)
            self._by_uid[new.uid] = new.metadata.key
            if new.metadata.deleting and self._ending.get(new.uid) is None:
                self._ending.put(new.uid, "", self._clock.monotonic())
        elif old is not None:
            self._by_uid.pop(old.uid, None)
        if old is None or new is None or new.uid != old.uid:
            return
        if new.metadata.generation != old.metadata.generation or new.placements != old.placements:
            self._witnessed.put(new.uid, "", True)

    @asynccontextmanager
    async def _latest(self, workload: Workload) -> AsyncIterator[Workload]:
        key = workload.metadata.key
        async with self._preparing.of(key):
            now = self.informer.get(key)
            yield now if now is not None and now.uid == workload.uid else workload

    async def _patch_metadata(self, workload: Workload, metadata: Mapping[str, Any]) -> Workload:
        return self._store(await self._patch(workload, {"metadata": metadata}))

    async def _patch(
        self,
        workload: Workload,
        patch: Mapping[str, Mapping[str, Any]],
        *,
        subresource: str | None = None,
    ) -> Mapping[str, Any]:
        version = {"resourceVersion": workload.metadata.resource_version}
        metadata = {**patch.get("metadata", {}), **version}
        namespace, name = workload.metadata.key
        return await self._hub.merge_patch(
            WORKLOADS,
            name,
            {**patch, "metadata": metadata},
            namespace=namespace,
            subresource=subresource,
        )

    def _store(self, answer: Mapping[str, Any]) -> Workload:
        workload = workload_of(answer)
        self.informer.upsert(workload)
        return workload


def clusters_of(workload: Workload, members: Callable[[], Iterable[str]]) -> set[str]:
    """Return the clusters that a Workload is placed on, was reported on, or was ever sent to.

    `members` returns the names of all members.
    """
    return {*workload.clusters, *record_of(workload).names(members)}


def touches(workload: Workload, member: str) -> bool:
    """As `clusters_of`, without iterating over them."""
    return member in workload.clusters or member in record_of(workload)


def _entries_of(workload: Workload) -> set[str]:
    """Return `clusters_of`, in the record's digests of names, and all clusters of the decision."""
    return {*workload.clusters, *workload.decided, *record_of(workload).entries}


def _keepers_of(workload: Workload) -> set[str]:
    return {each["cluster"] for each in workload.status.kept}


def _kinds_of(workload: Workload) -> list[str]:
    kinds = {*workload.kinds(), *workload.remembered()} - USUAL_KINDS
    return ["/".join(pair) for pair in kinds]


def _secrets_of(workload: Workload) -> list[str]:
    return [f"{workload.metadata.namespace}/{name}" for name in workload.secrets]
