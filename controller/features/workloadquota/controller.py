"""The status of every WorkloadQuota: the amounts in use, and the claims of schedulers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.claims.claims import ClaimIndex, HeldClaim
from controller.claims.controller import ClaimController
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import CompiledQuota, rendered
from controller.features.workloadquota.objects import WorkloadQuota
from controller.features.workloadquota.usage import Usage
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import ready_conditions
from controller.model.unit import WorkloadInfo
from crds.workloadquota import QuotaReadyReason
from machinery.api.resources import WORKLOAD_QUOTAS
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
