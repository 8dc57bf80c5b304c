"""WorkloadQuota as a feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.claims.claims import ClaimIndex, HeldClaim
from controller.claims.controller import ClaimController, ClaimedKind
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import (
    CompiledQuota,
    WorkloadQuota,
    compile_quota,
    rendered,
)
from controller.features.workloadquota.plugin import KIND, NAME
from controller.features.workloadquota.plugin import WorkloadQuotaPlugin as Plugin
from controller.features.workloadquota.usage import Usage
from controller.framework.events import Action
from controller.framework.runtime.feature import Enabled, Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import ready_conditions
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from crds.workloadquota import QuotaReadyReason
from machinery.api.resources import WORKLOAD_QUOTAS, WORKLOADS
from machinery.types.metadata import Key


class QuotaController(ClaimController[WorkloadQuota]):
    def __init__(self, term: Term, *, usage: Usage, claims: ClaimIndex, handle: Handle) -> None:
        self._usage = usage
        self._handle = handle
        super().__init__(term, WORKLOAD_QUOTAS, WorkloadQuota, claims=claims)

    def quota_of(self, info: WorkloadInfo) -> Key | None:
        first = next(iter(self._usage.quotas(info.namespace)), None)
        return None if first is None else first.key

    def fields(
        self, stored: WorkloadQuota, claims: Sequence[HeldClaim]
    ) -> Mapping[str, Any] | None:
        quota = self._usage.quota(stored.metadata.key)
        return None if quota is None else self._status(stored, quota, claims)

    def _status(
        self, stored: WorkloadQuota, quota: CompiledQuota, claims: Sequence[HeldClaim]
    ) -> dict[str, Any]:
        """The later of two claims for a Workload counts."""
        room = self._handle.index().ledger(ReservationLedger)
        used = self._usage.used(stored.metadata.namespace, room).amounts
        latest = {claim.uid: claim for claim in claims}
        fault, now = quota.fault, self._clock.now()
        reason = QuotaReadyReason.INVALID_QUOTA if fault else QuotaReadyReason.VALID
        amounts = sorted(quota.hard.items())
        return {
            "observedGeneration": stored.metadata.generation,
            "hard": _laid_over(stored.status.hard, {r: rendered(r, n) for r, n in amounts}),
            "used": _laid_over(
                stored.status.used, {r: rendered(r, used.get(r, 0)) for r, _ in amounts}
            ),
            "left": self._usage.left(stored),
            "claims": [claim.to_dict() for claim in latest.values()],
            "conditions": ready_conditions(
                stored, true=not fault, reason=reason.value, message=fault, now=now
            ),
        }


def _laid_over(before: Mapping[str, Any], after: Mapping[str, str]) -> dict[str, Any]:
    return {**dict.fromkeys(before.keys() - after.keys()), **after}


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

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        for plugin in self.enabled(Plugin):
            plugin.claims = self
            self.usage.everywhere |= plugin.has_default

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
        if quotas or self.usage.everywhere:
            key = quotas[0] if quotas else (namespace, "")
            self._announce(key, Action.SHARES if eased else Action.WORSE)

    def _announce(self, key: Key, action: Action) -> None:
        self.handle.announce(KIND, key, action, None, _NEWS)
