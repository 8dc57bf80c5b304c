"""Keeps the MemberReport of one member: its room, its kinds, and which release the agent is of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from crds.membercluster import MOST_HELD
from crds.names import MEMBER_REPORT
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_REPORTS
from machinery.clock import Clock, timestamp
from machinery.errors import LeaseLost, TransportError
from machinery.release import release
from machinery.runtime.store import number
from machinery.types.api import MemberReportStatus
from machinery.types.bounds import clean
from machinery.types.merge_patch import merging
from machinery.types.metadata import Key
from propagator.hub.cluster_status import learnt
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, hub_version_of
from propagator.members.session import MemberSession
from propagator.removal.brake import holds_data
from propagator.types.assignment import MemberReport

LOG = logs.get(__name__)
PERIOD = 1.0
"""Seconds between two reports."""
PAUSE = 5.0
"""Seconds until a report that the hub did not take is made again."""
REREAD_SECONDS = 300.0
"""Seconds until the stored report is read again: the hub may be set back, or another wrote it."""
FORGOTTEN_SECONDS = 30.0
"""For how long a Workload has to stand without an Assignment to be told."""
LONGEST_UPGRADE = 1024
Unassigned: TypeAlias = Callable[[], Mapping[str, tuple[Key, Sequence[ManagedObject]]]]
"""As `Carrier.unassigned`."""


class MemberReporter:
    """`upgrade` returns why the image that the hub names does not start, or ""."""

    def __init__(
        self,
        hub: ApiClient,
        session: MemberSession,
        *,
        namespace: str,
        unassigned: Unassigned,
        upgrade: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._upgrade = upgrade
        self._hub = hub
        self._session = session
        self._namespace = namespace
        self._unassigned = unassigned
        self._clock = clock
        self._started = timestamp(clock.now())
        self._stored: MemberReport | None = None
        self._since: dict[str, float] = {}
        self._news = asyncio.Event()

    def changed(self) -> None:
        self._news.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reread())
            tasks.create_task(self._tell())

    async def _reread(self) -> None:
        while True:
            await self._clock.sleep(REREAD_SECONDS)
            self._stored = None
            self._news.set()

    async def _tell(self) -> None:
        while True:
            self._news.clear()
            pause = PERIOD
            try:
                await self._report()
            except LeaseLost:
                self._news.set()  # the Lease on the hub is not held yet, or any more
            except TransportError as fault:
                LOG.info("the hub took no report of the member: %s", fault)
                self._stored, pause = None, PAUSE
            await self._clock.sleep(pause)
            if pause == PERIOD and not self._since:
                await self._news.wait()

    async def _report(self) -> None:
        link = self._session.link
        if link is None or self._session.contact is not Contact.SERVING:
            return
        stored = self._stored
        if stored is None:
            answer = await self._hub.get(MEMBER_REPORTS, MEMBER_REPORT, namespace=self._namespace)
            stored = msgspec.convert(answer, MemberReport)
        before = msgspec.to_builtins(stored.status)
        wanted = self._wanted(before)
        # No await between these and the status: pods and capacity must agree.
        placed = link.pod_index.placed() if link.counted else None
        if msgspec.convert(wanted, MemberReportStatus) != stored.status:
            patch = {"status": merging(before, wanted)}
            answer = await self._hub.merge_patch(
                MEMBER_REPORTS,
                MEMBER_REPORT,
                patch,
                namespace=self._namespace,
                subresource="status",
            )
            stored = msgspec.convert(answer, MemberReport)
        self._stored = stored
        if placed is not None:
            link.published(placed, number(stored.metadata.resource_version))

    def _wanted(self, before: Mapping[str, Any]) -> dict[str, Any]:
        link = self._session.link
        assert link is not None  # noqa: S101 - the caller has looked
        identity = link.identity
        wanted = {
            **before,
            **learnt(link, self._session.allows),
            "release": release(),
            "started": self._started,
            "upgrade": clean(self._upgrade(), LONGEST_UPGRADE),
            "clusterID": identity.id,
            "clusterUID": identity.uid,
            "unassigned": self._left(),
        }
        return {name: value for name, value in wanted.items() if value not in (None, "", [])}

    def _left(self) -> dict[str, Any] | None:
        now, found = self._clock.monotonic(), self._unassigned()
        self._since = {uid: self._since.get(uid, now) for uid in found}
        ripe = {uid for uid, since in self._since.items() if now - since >= FORGOTTEN_SECONDS}
        if not ripe:
            return None
        named = sorted((found[uid][0], uid) for uid in ripe)[:MOST_HELD]
        return {"count": len(ripe), "workloads": [_left(uid, *found[uid]) for _, uid in named]}


def _left(uid: str, key: Key, objects: Sequence[ManagedObject]) -> dict[str, Any]:
    told = {
        "namespace": key[0],
        "name": key[1],
        "uid": uid,
        "objects": len(objects),
        "claims": sum(map(holds_data, objects)),
        "version": str(max(map(hub_version_of, objects))),
        "made": min(each.metadata.creation_timestamp for each in objects),
    }
    return {name: value for name, value in told.items() if value != ""}
