"""WorkloadQuota as a feature: what the process watches, counts and runs for it.

Every instance counts, so that a standby decides at once when its turn comes. Only the leader writes
the quotas' statuses and claims.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.claims.feature import ClaimedKind
from controller.features.workloadquota.compiled import compile_quota
from controller.features.workloadquota.controller import QuotaController
from controller.features.workloadquota.objects import WorkloadQuota
from controller.features.workloadquota.plugin import KIND, NAME
from controller.features.workloadquota.plugin import WorkloadQuotaPlugin as Plugin
from controller.features.workloadquota.usage import Usage
from controller.framework.events import Action
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import Workload
from machinery.api.resources import WORKLOAD_QUOTAS, WORKLOADS
from machinery.types.metadata import Key

_NEWS = object()
"""Stands for the namespace after a change: hints are only called with an object."""


class WorkloadQuotas(ClaimedKind):
    """The one instance of the feature in a process."""

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
        super().__init__(NAME, self.usage.set_foreign)
        self._everywhere = False

    def attach(self, handle: Handle) -> None:
        """Claim under the name of the process, for the plugins of its profiles."""
        super().attach(handle)
        for plugin in handle.plugins:
            if isinstance(plugin, Plugin):
                plugin.claims = self
                self._everywhere |= plugin.has_default

    def lead(self, term: Term) -> QuotaController:
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self.controller = QuotaController(
            term, usage=self.usage, claims=self._claims, handle=self._handle
        )
        return self.controller

    def quota_changed(self, old: WorkloadQuota | None, new: WorkloadQuota | None) -> None:
        """Handle an informer's event."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            key = old.metadata.key
            self._forget(key)
            self.usage.drop_quota(key)
            self._announce(key, Action.DELETED)
            return
        meta = new.metadata
        if old is None or (old.metadata.uid, old.metadata.generation) != (
            meta.uid,
            meta.generation,
        ):
            self.usage.put_quota(compile_quota(new))
        self.usage.set_left(new)
        self._look(new)

    def _counted(self, namespace: str, eased: bool) -> None:
        """Update statuses and requeue Workloads after a change in a namespace."""
        quotas = [each.key for each in self.usage.quotas(namespace)]
        if self.controller is not None:
            self.controller.touched(quotas)
        if quotas or self._everywhere:
            key = quotas[0] if quotas else (namespace, "")
            self._announce(key, Action.SHARES if eased else Action.WORSE)

    def _announce(self, key: Key, action: Action) -> None:
        if self._handle is not None:
            self._handle.announce(KIND, key, action, None, _NEWS)
