"""WorkloadQuota as a feature."""

from __future__ import annotations

from controller.claims.feature import ClaimedKind
from controller.features.workloadquota.compiled import compile_quota
from controller.features.workloadquota.controller import QuotaController
from controller.features.workloadquota.objects import WorkloadQuota
from controller.features.workloadquota.plugin import KIND, NAME
from controller.features.workloadquota.plugin import WorkloadQuotaPlugin as Plugin
from controller.features.workloadquota.usage import Usage
from controller.framework.events import Action
from controller.framework.runtime.feature import Enabled, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import Workload
from machinery.api.resources import WORKLOAD_QUOTAS, WORKLOADS
from machinery.types.metadata import Key

_NEWS = object()
"""Hints are only called with an object."""


class WorkloadQuotas(ClaimedKind):
    defaults = (
        Enabled("preFilter", NAME),
        Enabled("postFilter", NAME),
        Enabled("reserve", NAME),
        Enabled("preBind", NAME),
    )

    def __init__(self) -> None:
        self.usage = Usage(self._counted)
        self.ledgers = (self.usage,)
        self.plugins = {NAME: Plugin}
        super().__init__(self.usage.set_foreign)
        self.watch(WORKLOAD_QUOTAS, WorkloadQuota, self.quota_changed, gone=self._quota_gone)
        self.watch(WORKLOADS, Workload, self.workload_changed, placed=True)
        self._everywhere = False

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        for plugin in self.enabled(Plugin):
            plugin.claims = self
            self._everywhere |= plugin.has_default

    def start(self, term: Term) -> QuotaController:
        return QuotaController(term, usage=self.usage, claims=self._claims, handle=self.handle)

    def _quota_gone(self, old: WorkloadQuota) -> None:
        key = old.metadata.key
        self._forget(key)
        self.usage.drop_quota(key)
        self._announce(key, Action.DELETED)

    def quota_changed(self, old: WorkloadQuota | None, new: WorkloadQuota) -> None:
        meta = new.metadata
        if old is None or (old.metadata.uid, old.metadata.generation) != (
            meta.uid,
            meta.generation,
        ):
            self.usage.put_quota(compile_quota(new))
        self.usage.set_left(new)
        self._look(new.metadata, new.status.claims)

    def _counted(self, namespace: str, eased: bool) -> None:
        quotas = [each.key for each in self.usage.quotas(namespace)]
        self.controller.touched(quotas)
        if quotas or self._everywhere:
            key = quotas[0] if quotas else (namespace, "")
            self._announce(key, Action.SHARES if eased else Action.WORSE)

    def _announce(self, key: Key, action: Action) -> None:
        self.handle.announce(KIND, key, action, None, _NEWS)
