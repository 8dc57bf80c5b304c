"""WorkloadPolicy as a feature."""

from __future__ import annotations

from controller.claims.feature import ClaimedKind
from controller.features.workloadpolicy.answers import book
from controller.features.workloadpolicy.compiled import compile_policy
from controller.features.workloadpolicy.controller import PolicyController
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.features.workloadpolicy.plugin import NAME
from controller.features.workloadpolicy.plugin import WorkloadPolicyPlugin as Plugin
from controller.framework.events import Action
from controller.framework.runtime.arguments import Plain
from controller.framework.runtime.feature import Enabled, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_POLICIES, WORKLOADS
from machinery.types.metadata import Key


class WorkloadPolicies(ClaimedKind):
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
        self.plugins = {NAME: Plain(Plugin)}
        super().__init__(self.counts.set_foreign)
        self.watch(WORKLOAD_POLICIES, WorkloadPolicy, self.policy_changed, gone=self._policy_gone)
        self.watch(WORKLOADS, Workload, self.workload_changed, placed=True)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        for plugin in self.enabled(Plugin):
            plugin.claims = self
            plugin.endpoints = book(self.counts, handle.snapshot).routes()

    def start(self, term: Term) -> PolicyController:
        return PolicyController(term, counts=self.counts, claims=self._claims, handle=self.handle)

    def _policy_gone(self, old: WorkloadPolicy) -> None:
        self.counts.drop_policy(old.metadata.key)
        self._forget(old.metadata.key)

    def policy_changed(self, old: WorkloadPolicy | None, new: WorkloadPolicy) -> None:
        if old is None or old.metadata.generation != new.metadata.generation:
            self.counts.put_policy(compile_policy(new))
        self._look(new.metadata, new.status.claims)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """A changed cluster may belong to another domain."""
        if new is not None and (old is None or old.labels != new.labels):
            self.counts.touch_all()

    def _counted(self, touched: set[Key], eased: set[Key]) -> None:
        self._claims.recount(*self._claims.claimed(touched))
        self.controller.touched(touched)
        for key in touched | eased:
            self.handle.announce(NAME, key, Action.SHARES if key in eased else Action.WORSE)
