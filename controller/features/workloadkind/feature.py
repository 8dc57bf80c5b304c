"""WorkloadKind as a feature: whether each can be used, and how many Workloads are of it.

The table of kinds follows them in `controller.app`, before a Workload is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from controller.framework.runtime.feature import Feature, Term
from controller.framework.statuswriter import (
    MESSAGE_LIMIT,
    VALID,
    Result,
    StatusWriter,
    ready_conditions,
)
from controller.model.objects import Workload
from crds.workloadkind import WorkloadKindCondition
from machinery.api.resources import WORKLOAD_KINDS, WORKLOADS, group_of
from machinery.kinds.profile import kind_name
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


class WorkloadKinds(Feature):
    controller: WorkloadKindController

    def __init__(self) -> None:
        self.watch(WORKLOAD_KINDS, WorkloadKind, self.kind_changed, gone=self.kind_gone)
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self._counts: Counter[str] = Counter()

    def start(self, term: Term) -> WorkloadKindController:
        return WorkloadKindController(term, count=self._counts.__getitem__)

    def kind_changed(self, _old: WorkloadKind | None, new: WorkloadKind) -> None:
        self.controller.add(new.metadata.key)

    def kind_gone(self, old: WorkloadKind) -> None:
        self.controller.forget(old.metadata.key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        before, after = (_name(each) if each is not None else "" for each in (old, new))
        if before == after:
            return
        for name, more in ((before, -1), (after, 1)):
            if name:
                self._counts[name] += more
                self.controller.add(("", name))
        self._counts += Counter()


def _name(workload: Workload) -> str:
    info = workload.info
    return kind_name(group_of(info.api_version), info.kind) if info.kind else ""
