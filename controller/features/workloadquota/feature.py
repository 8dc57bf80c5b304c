"""WorkloadQuota as a feature: what the process watches, counts and runs for it.

Every instance counts, so that a standby decides at once when its turn comes. Only the leader writes
the quotas' statuses and claims.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.claims.books import HOLDER_LIMIT, Books
from controller.features.workloadquota.compiled import compile_quota
from controller.features.workloadquota.controller import Quotas
from controller.features.workloadquota.objects import WorkloadQuota
from controller.features.workloadquota.plugin import KIND, NAME
from controller.features.workloadquota.plugin import WorkloadQuota as Plugin
from controller.features.workloadquota.usage import Usage
from controller.framework.events import Action
from controller.hosting.arguments import Factory
from controller.hosting.feature import Enabled, Term, Watch
from controller.hosting.handle import Handle, switched_off
from controller.model.objects import Workload
from controller.model.unit import Unit
from machinery.api.resources import WORKLOAD_QUOTAS, WORKLOADS
from machinery.clock import SystemClock
from machinery.types.metadata import Key

_NEWS = object()
"""Stands for the namespace after a change: hints are asked where there is an object."""


class WorkloadQuotas:
    """The one instance of the feature in a process; `quotas` is what this term runs, if we lead."""

    defaults = (
        Enabled("preFilter", NAME),
        Enabled("postFilter", NAME),
        Enabled("reserve", NAME),
        Enabled("preBind", NAME),
    )

    def __init__(self) -> None:
        self.usage = Usage(self._counted)
        self.ledgers = (self.usage,)
        self.plugins: Mapping[str, Factory] = {NAME: Plugin}
        self.watches = (
            Watch(WORKLOAD_QUOTAS, WorkloadQuota, self.quota_changed),
            Watch(WORKLOADS, Workload, self.workload_changed, placed=True),
        )
        self.quotas: Quotas | None = None
        self._handle: Handle | None = None
        self._books = Books(self.usage.haunt, holder="", clock=SystemClock())
        self._everywhere = False

    def attach(self, handle: Handle) -> None:
        """Begin to claim under the name of the process, for the plugins of its profiles."""
        self._handle = handle
        for plugin in handle.plugins:
            if isinstance(plugin, Plugin):
                plugin.claims = self
                self._everywhere |= plugin.has_default
        self._books = Books(
            self.usage.haunt, holder=handle.holder[:HOLDER_LIMIT], clock=handle.clock
        )

    def lead(self, term: Term) -> Quotas:
        """Write statuses, and claim."""
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self.quotas = Quotas(term, usage=self.usage, books=self._books, handle=self._handle)
        return self.quotas

    def rest(self) -> None:
        """Write and claim no more."""
        self.quotas = None

    def closed(self) -> str:
        """Why no quota can be had here at all."""
        running = self._handle is None or self._handle.controls(NAME)
        return "" if running else switched_off(NAME)

    def epoch(self, unit: Unit) -> int | None:
        """See `Desk.epoch`."""
        return self.quotas.epoch(unit) if self.quotas is not None else None

    async def claim(self, unit: Unit, placements: Mapping[str, int], epoch: int | None) -> bool:
        """See `Desk.claim`; nothing is granted to who does not lead."""
        return self.quotas is not None and await self.quotas.claim(unit, placements, epoch)

    def withdraw(self, unit: Unit) -> None:
        """See `Desk.withdraw`."""
        if self.quotas is not None:
            self.quotas.withdraw(unit)

    def quota_changed(self, old: WorkloadQuota | None, new: WorkloadQuota | None) -> None:
        """An informer's handler."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            key = old.metadata.key
            self._books.forget(key)
            self.usage.drop_quota(key)
            if self.quotas is not None:
                self.quotas.forget(key)
            self._announce(key, Action.DELETED)
            return
        meta = new.metadata
        if old is None or (old.metadata.uid, old.metadata.generation) != (
            meta.uid,
            meta.generation,
        ):
            self.usage.put_quota(compile_quota(new))
        self._books.learn(new)
        if self.quotas is not None:
            self.quotas.look(meta.key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: what a Workload shows answers its claims."""
        claimed = self._books.show(old, new)
        if self.quotas is not None:
            self.quotas.touched(claimed)

    def _counted(self, namespace: str, eased: bool) -> None:
        """A namespace takes another amount than before, or has another quota."""
        quotas = [each.key for each in self.usage.quotas(namespace)]
        if self.quotas is not None:
            self.quotas.touched(quotas)
        if quotas or self._everywhere:
            key = quotas[0] if quotas else (namespace, "")
            self._announce(key, Action.SHARES if eased else Action.WORSE)

    def _announce(self, key: Key, action: Action) -> None:
        if self._handle is not None:
            self._handle.announce(KIND, key, action, None, _NEWS)
