"""The status of every WorkloadKind: whether it can be used, and how many Workloads are of it."""

from __future__ import annotations

from collections.abc import Callable

from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import (
    MESSAGE_LIMIT,
    VALID,
    Result,
    StatusWriter,
    ready_conditions,
)
from crds.workloadkind import WorkloadKindCondition
from machinery.api.resources import WORKLOAD_KINDS
from machinery.kinds.workloadkinds import WorkloadKind, reading_of
from machinery.types import conditions

REST_SECONDS = 1.0
"""Seconds between two writes of one status: thousands of Workloads may come at once."""


class WorkloadKindController(StatusWriter[WorkloadKind]):
    """`count` returns the Workloads of a kind, by the name of its WorkloadKind."""

    def __init__(self, term: Term, *, count: Callable[[str], int]) -> None:
        super().__init__(term, WORKLOAD_KINDS, WorkloadKind)
        self._count = count

    def draft(self, stored: WorkloadKind) -> Result:
        if rest := self.rest(stored.metadata.key, REST_SECONDS):
            return Result(fields=None, requeue_after=rest)
        reading, meta, before = reading_of(stored), stored.metadata, stored.status.conditions
        now = self._clock.now()
        valid = conditions.renewed(
            conditions.among(before, WorkloadKindCondition.VALID),
            type_=WorkloadKindCondition.VALID,
            true=not reading.fault,
            reason=reading.reason.value,
            message=(reading.fault or VALID)[:MESSAGE_LIMIT],
            now=now,
            generation=meta.generation,
        )
        ready = ready_conditions(
            stored,
            true=not reading.fault,
            reason=reading.reason.value,
            message=reading.fault,
            now=now,
        )
        fields = {
            "observedGeneration": meta.generation,
            "workloads": self._count(meta.name),
            "conditions": [valid, *ready],
        }
        return Result(fields=fields)
