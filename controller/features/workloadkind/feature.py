"""WorkloadKind as a feature without a plugin.

The table of kinds follows them in `controller.app`, before a Workload is read: this counts and
tells.
"""

from __future__ import annotations

from collections import Counter

from controller.features.workloadkind.controller import WorkloadKindController
from controller.framework.runtime.feature import Feature, Term
from controller.model.objects import Workload
from machinery.api.resources import WORKLOAD_KINDS, WORKLOADS, group_of
from machinery.kinds.profile import kind_name
from machinery.kinds.workloadkinds import WorkloadKind


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
