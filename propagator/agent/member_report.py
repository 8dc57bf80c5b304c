"""Keeps the MemberReport of one member: its room, its kinds, and which release the agent is of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from crds.names import MEMBER_REPORT
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_REPORTS
from machinery.clock import Clock, timestamp
from machinery.errors import LeaseLost, TransportError
from machinery.release import release
from machinery.runtime.store import number
from machinery.types.api import MemberReportStatus
from machinery.types.merge_patch import merging
from machinery.types.metadata import Key
from propagator.hub.cluster_status import learnt
from propagator.members.health import Contact
from propagator.members.inventory import owned
from propagator.members.session import MemberSession
from propagator.types.assignment import MemberReport

LOG = logs.get(__name__)
PERIOD = 1.0
"""Seconds between two reports."""
PAUSE = 5.0
"""Seconds until a report that the hub did not take is made again."""
FORGOTTEN_SECONDS = 30.0
"""For how long a Workload has to stand without an Assignment to be told."""
MOST_NAMED = 20


class MemberReporter:
    """`unassigned` returns the Workloads, by UID, whose objects stand without an order."""

    def __init__(
        self,
        hub: ApiClient,
        session: MemberSession,
        *,
        namespace: str,
        unassigned: Callable[[], Mapping[str, Key]],
        clock: Clock,
    ) -> None:
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
        while True:
            self._news.clear()
            pause = PERIOD
            try:
                await self._report()
            except LeaseLost:
                self._news.set()  # the Lease on the hub is not held yet, or any more
            except TransportError as fault:
                LOG.info("the hub took no report of the member: %s", fault)
                pause = PAUSE
            await self._clock.sleep(pause)
            if pause == PERIOD and not self._since:
                await self._news.wait()

    async def _report(self) -> None:
        link = self._session.link
        if link is None or self._session.contact is not Contact.SERVING:
            return
        if self._stored is None:
            answer = await self._hub.get(MEMBER_REPORTS, MEMBER_REPORT, namespace=self._namespace)
            self._stored = msgspec.convert(answer, MemberReport)
        before = msgspec.to_builtins(self._stored.status)
        wanted = self._wanted(before)
        # No await between these and the status: pods and capacity must agree.
        placed = link.pod_index.placed() if link.counted else None
        if msgspec.convert(wanted, MemberReportStatus) != self._stored.status:
            patch = {"status": merging(before, wanted)}
            answer = await self._hub.merge_patch(
                MEMBER_REPORTS,
                MEMBER_REPORT,
                patch,
                namespace=self._namespace,
                subresource="status",
            )
            self._stored = msgspec.convert(answer, MemberReport)
        if placed is not None:
            link.published(placed, number(self._stored.metadata.resource_version))

    def _wanted(self, before: Mapping[str, Any]) -> dict[str, Any]:
        link = self._session.link
        assert link is not None  # noqa: S101 - the caller has looked
        identity = link.identity
        wanted = {
            **before,
            **learnt(link, self._session.allows),
            "release": release(),
            "started": self._started,
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
        named = sorted((found[uid], uid) for uid in ripe)[:MOST_NAMED]
        workloads = [
            {"namespace": ns, "name": name, "uid": uid, "objects": len(owned(self._session, uid))}
            for (ns, name), uid in named
        ]
        return {"count": len(ripe), "workloads": workloads}
