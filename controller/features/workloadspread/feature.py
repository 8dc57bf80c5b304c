"""WorkloadSpread as a feature: what the process watches and keeps for it.

Every instance reads the spreads, so that a standby decides at once when its turn comes. Whenever
one says something else, or is gone, its Workload is looked at again; nothing moves because of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.features.workloadspread.compiled import MARK_SECONDS, compile_spread
from controller.features.workloadspread.ledger import Spreads
from controller.features.workloadspread.objects import WorkloadSpread
from controller.features.workloadspread.plugin import NAME
from controller.features.workloadspread.plugin import WorkloadSpread as Plugin
from controller.framework.feature import Enabled, Factory, Handle, Running, Term, Watch
from controller.model.objects import MemberCluster
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_SPREADS
from machinery.types.metadata import Key


class WorkloadSpreads:
    """The one instance of the feature in a process."""

    defaults = (
        Enabled("preFilter", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("assign", NAME, before="Single"),
        Enabled("reserve", NAME),
        Enabled("preBind", NAME),
    )

    def __init__(self) -> None:
        self.spreads = Spreads()
        self.ledgers = (self.spreads,)
        self.plugins: Mapping[str, Factory] = {NAME: Plugin}
        self.watches = (
            Watch(WORKLOAD_SPREADS, WorkloadSpread, self.spread_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self.mark_seconds = MARK_SECONDS
        self._handle: Handle | None = None

    def attach(self, handle: Handle) -> None:
        """Begin to look at Workloads again; marks last as long as the first profile says."""
        self._handle = handle
        found = [each for each in handle.plugins if isinstance(each, Plugin)]
        self.mark_seconds = found[0].mark_seconds if found else MARK_SECONDS

    def lead(self, _term: Term) -> Running | None:
        """Nothing is written yet."""
        return None

    def rest(self) -> None:
        """The term is over."""

    def spread_changed(self, old: WorkloadSpread | None, new: WorkloadSpread | None) -> None:
        """An informer's handler."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._look(self.spreads.drop_spread(old.metadata.key))
            return
        spread = compile_spread(new, mark_seconds=self.mark_seconds)
        if spread != self.spreads.get(spread.key):  # books alone, and nobody decides by those
            self._look(self.spreads.put_spread(spread))

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler: units may count to another subset than before."""
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._look(self.spreads.targets())

    def _look(self, targets: Iterable[Key]) -> None:
        if self._handle is not None:
            for key in targets:
                self._handle.look(key)
