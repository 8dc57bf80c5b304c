"""WorkloadPolicy as a feature: what the process watches, counts and runs for it.

Every instance counts, so that a standby decides at once when its turn comes. Only the leader writes
the policies' statuses and claims quota.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.claims.books import HOLDER_LIMIT, Books
from controller.features.workloadpolicy.answers import Answers
from controller.features.workloadpolicy.compiled import compile_policy
from controller.features.workloadpolicy.controller import Quotas
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.features.workloadpolicy.plugin import NAME
from controller.features.workloadpolicy.plugin import WorkloadPolicy as Plugin
from controller.framework.events import Action
from controller.hosting.arguments import Factory, Plain
from controller.hosting.feature import Enabled, Term, Watch
from controller.hosting.handle import Handle, switched_off
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import Unit
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_POLICIES, WORKLOADS
from machinery.clock import SystemClock
from machinery.types.metadata import Key


class WorkloadPolicies:
    """The one instance of the feature in a process; `quotas` is what this term runs, if we lead."""

    defaults = (
        Enabled("preFilter", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("preScore", NAME),
        Enabled("score", NAME),
        Enabled("postFilter", NAME),
        Enabled("assign", NAME, before="Single"),
        Enabled("reserve", NAME),
        Enabled("preBind", NAME),
    )

    def __init__(self) -> None:
        self.counts = Tally(self._counted)
        self.ledgers = (self.counts,)
        self.plugins: Mapping[str, Factory] = {NAME: Plain(Plugin)}
        self.watches = (
            Watch(WORKLOAD_POLICIES, WorkloadPolicy, self.policy_changed),
            Watch(WORKLOADS, Workload, self.workload_changed, placed=True),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self.quotas: Quotas | None = None
        self._handle: Handle | None = None
        self._books = Books(self.counts.haunt, holder="", clock=SystemClock())

    def attach(self, handle: Handle) -> None:
        """Begin to claim under the name of the process, for the plugins of its profiles."""
        self._handle = handle
        for plugin in handle.plugins:
            if isinstance(plugin, Plugin):
                plugin.claims = self
                plugin.endpoints = Answers(self.counts, handle.fleet).routes()
        self._books = Books(
            self.counts.haunt, holder=handle.holder[:HOLDER_LIMIT], clock=handle.clock
        )

    def lead(self, term: Term) -> Quotas:
        """Write statuses, and claim."""
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self.quotas = Quotas(term, counts=self.counts, books=self._books, handle=self._handle)
        return self.quotas

    def rest(self) -> None:
        """Write and claim no more."""
        self.quotas = None

    def closed(self) -> str:
        """Why no quota can be had here at all."""
        running = self._handle is None or self._handle.controls(NAME)
        return "" if running else switched_off(NAME)

    def epoch(self, unit: Unit) -> int | None:
        """See `Quotas.epoch`."""
        return self.quotas.epoch(unit) if self.quotas is not None else None

    async def claim(self, unit: Unit, placements: Mapping[str, int], epoch: int | None) -> bool:
        """See `Quotas.claim`; nothing is granted to who does not lead."""
        return self.quotas is not None and await self.quotas.claim(unit, placements, epoch)

    def withdraw(self, unit: Unit) -> None:
        """See `Quotas.withdraw`."""
        if self.quotas is not None:
            self.quotas.withdraw(unit)

    def policy_changed(self, old: WorkloadPolicy | None, new: WorkloadPolicy | None) -> None:
        """An informer's handler."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            key = old.metadata.key
            self.counts.drop_policy(key)
            self._books.forget(key)
            if self.quotas is not None:
                self.quotas.forget(key)
            return
        if old is None or old.metadata.generation != new.metadata.generation:
            self.counts.put_policy(compile_policy(new))
        self._books.learn(new)
        if self.quotas is not None:
            self.quotas.look(new.metadata.key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: what a Workload shows answers its claims."""
        claimed = self._books.show(old, new)
        if self.quotas is not None:
            self.quotas.touched(claimed)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler: a cluster may be in another domain than before."""
        if new is not None and (old is None or old.labels != new.labels):
            self.counts.touch_all()

    def _counted(self, touched: set[Key], eased: set[Key]) -> None:
        """The counts have changed."""
        self._books.haunt(*self._books.claimed(touched))
        if self.quotas is not None:
            self.quotas.touched(touched)
        if self._handle is not None:
            for key in touched | eased:
                action = Action.SHARES if key in eased else Action.WORSE
                self._handle.announce(NAME, key, action)
