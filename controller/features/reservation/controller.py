"""Keeps the statuses of all Reservations beside their decisions; the leader runs it.

None expires while this machine's clock and the hub's differ: that cannot be taken back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from controller.features.reservation import status
from controller.features.reservation.compiled import Reservation, Reserved
from controller.features.reservation.holding import Placeholders
from controller.features.reservation.ledger import ReservationLedger
from controller.features.reservation.status import ReservationFacts, Use
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import Workload
from controller.snapshot.snapshot import amounts_of
from machinery import metrics
from machinery.api.resources import RESERVATIONS, WORKLOADS
from machinery.runtime.informer import Informer
from machinery.tasks import in_slices
from machinery.types import hostports, quantities
from machinery.types.metadata import Key

CALM_SECONDS = 1.0
"""Seconds between two writes of one reservation, and between two checks of a cluster."""
SHORT_SECONDS = 5.0
"""Seconds for which a cluster has less free than is held there before that is reported."""
CUT = "…"
"""The end of a list of names that was cut."""
CLUSTERS_AT_ONCE = 20
"""Clusters that are checked in one go: each costs up to some hundred microseconds."""
AHEAD = metrics.gauge(
    "stowage_hub_clock_ahead_seconds",
    "By how much the leader's clock is ahead of the hub's, by the Date of its answers",
)


class ReservationController(StatusWriter[Reservation]):
    action = "Reserving"

    def __init__(self, term: Term, *, ledger: ReservationLedger, handle: Handle) -> None:
        super().__init__(term, RESERVATIONS, Reservation)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._ledger = ledger
        self._handle = handle
        self._hub_time = term.client.server_time
        AHEAD.set_function(self._hub_time.ahead)
        self._short: dict[str, str] = {}
        """Clusters with less free room than is held there, as text, once that has lasted."""
        self._short_since: dict[str, float] = {}
        self._placeholders = Placeholders(term, ledger, self._look)
        self._dirty: set[str] = set()
        self._more = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._check_clusters())
            tasks.create_task(self._placeholders.run())

    def look(self, key: Key) -> None:
        self._look(key)
        self._placeholders.look(key)

    def saw(self, workload: Workload) -> None:
        self._placeholders.saw(workload)

    def _look(self, key: Key) -> None:
        self.add(key, after=self.rest(key, CALM_SECONDS))

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._placeholders.look(key)

    def look_at_clusters(self, names: Iterable[str]) -> None:
        self._dirty.update(names)
        if self._dirty:
            self._more.set()

    def resync(self, stored: Reservation) -> None:
        self.look(stored.metadata.key)
        self.look_at_clusters(share.cluster for share in stored.status.placements)

    async def _check_clusters(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            names, self._dirty = self._dirty, set()
            news = set[str]()
            async for name in in_slices(sorted(names), size=CLUSTERS_AT_ONCE):
                if self._saw(name, self._shortage(name), self._clock.monotonic()):
                    news.add(name)
            async for stored in in_slices(list(self._stored.values()) if news else ()):
                if not news.isdisjoint(status.held(stored)):
                    self.look(stored.metadata.key)
            self.look_at_clusters([name for name in self._short_since if name not in self._short])
            await self._clock.sleep(CALM_SECONDS)

    def _saw(self, cluster: str, text: str, now: float) -> bool:
        """Record a check, empty for enough; return whether the report changes."""
        before = self._short.get(cluster)
        if not text:
            self._short_since.pop(cluster, None)
            self._short.pop(cluster, None)
        elif before or now - self._short_since.setdefault(cluster, now) >= SHORT_SECONDS:
            self._short[cluster] = text
        return self._short.get(cluster) != before

    def _shortage(self, cluster: str) -> str:
        amounts = amounts_of(self._handle.snapshot(), cluster)
        if amounts is None:
            return ""
        lacking = [
            f"{quantities.render(name, max(held + amounts.remaining[name], 0))} "
            f"{hostports.words(name)} free "
            f"where {quantities.render(name, held)} is held"
            for name, held in sorted(amounts.reserved.items())
            if held > 0 and amounts.remaining.get(name, 0) < 0
        ]
        return f"{cluster} has {', '.join(lacking)}" if lacking else ""

    def draft(self, stored: Reservation) -> Result | None:
        key = stored.metadata.key
        reserved = self._ledger.get(key)
        if reserved is None or reserved.uid != stored.metadata.uid:
            return None
        facts = ReservationFacts(
            uses=self._uses(reserved),
            gone=self._gone(stored),
            short=[self._short[c] for c in sorted(status.held(stored)) if c in self._short],
            unheld=self._placeholders.problem(key),
            clocks=self._hub_time.difference(),
        )
        return status.look(stored, reserved, facts, self._clock.now())

    def _uses(self, reserved: Reserved) -> list[Use]:
        """Return the users inside by stored statuses alone."""
        found, there = [], self._ledger.reserved(reserved.key)
        for key in sorted(self._ledger.uses(reserved.key)):
            workload = self._workloads.get(key)
            if workload is None or workload.metadata.deleting:
                continue
            workload = self._handle.named(workload)
            info, placed = workload.info, workload.placements
            request = reserved.request if info.unread else info.request
            found += [
                Use(*key, info.uid, each.cluster, each.replicas, request)
                for each in info.reservations
                if each.uid == reserved.uid
                and each.cluster in there
                and placed.get(each.cluster, 0) >= each.replicas
            ]
        return found

    def _gone(self, stored: Reservation) -> list[str]:
        snapshot, named = self._handle.snapshot(), stored.status.cluster_name.split(",")
        rows = ((name, snapshot.row.get(name)) for name in named if name and name[-1] != CUT)
        return [name for name, row in rows if row is None or snapshot.deleting[row]]
