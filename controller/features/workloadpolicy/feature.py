"""WorkloadPolicy as a feature.

Only `Required` policies are claimed: a `Preferred` one may be exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Any

from controller.claims.claims import ClaimIndex, HeldClaim
from controller.claims.controller import ClaimController, ClaimedKind
from controller.features.workloadpolicy.counts import Policy, Tally, WorkloadPolicy, compile_policy
from controller.features.workloadpolicy.plugin import NAME, policy_of
from controller.features.workloadpolicy.plugin import WorkloadPolicyPlugin as Plugin
from controller.framework.events import Action
from controller.framework.runtime.arguments import Plain
from controller.framework.runtime.feature import Enabled, Term
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Book
from controller.framework.statuswriter import ready_conditions
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.admission.validation import normalised_policy
from crds.workloadpolicy import PolicyReadyReason
from machinery import logs
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_POLICIES, WORKLOADS
from machinery.api.verbs import MERGE_PATCH
from machinery.errors import Conflict, Forbidden, Invalid, NotFound
from machinery.types.bounds import MOST_UNITS
from machinery.types.metadata import Key

NAMED_CLUSTERS = 100
"""Clusters of a policy in an answer, most replicas first. `holding` counts all."""


def book(counts: Tally, snapshot: Callable[[], Snapshot]) -> Book[Policy]:
    def summary(policy: Policy) -> dict[str, Any]:
        return {
            "namespace": policy.key[0],
            "name": policy.name,
            "topologyKey": policy.topology_key,
            "allocationType": "Required" if policy.required else "Preferred",
            "allocationMethod": policy.method.value,
            "workloads": counts.members(policy.key),
            "claimed": sum(counts.claimed(policy.key).values()),
            "domains": [] if policy.fault else allocated(policy, counts, snapshot()),
            "message": policy.fault,
        }

    def detail(policy: Policy) -> dict[str, Any]:
        replicas, claimed = counts.replicas_of(policy.key), counts.claimed(policy.key)
        holding = {cluster: n for cluster, n in replicas.items() if n}
        shown = nsmallest(NAMED_CLUSTERS, holding.items(), key=lambda each: (-each[1], each[0]))
        return {
            **summary(policy),
            "holding": len(holding),
            "clusters": [
                {"name": cluster, "replicas": n, "claimed": claimed.get(cluster, 0)}
                for cluster, n in shown
            ],
        }

    names = ("policies", "workload-policy")
    return Book(*names, counts.policies, counts.policy, summary, detail)


LOG = logs.get(__name__)
SUMMARY_LIMIT = 1024


def status_of(
    policy: WorkloadPolicy,
    claims: Iterable[HeldClaim],
    counts: Tally,
    snapshot: Snapshot,
    now: datetime,
) -> dict[str, Any]:
    """The later of two claims for a Workload counts."""
    key, latest = policy.metadata.key, {claim.uid: claim for claim in claims}
    rules = counts.policy(key)
    fault = rules.fault if rules else ""
    domains = allocated(rules, counts, snapshot) if rules is not None and not fault else []
    reason = PolicyReadyReason.INVALID_POLICY if fault else PolicyReadyReason.VALID
    return {
        "observedGeneration": policy.metadata.generation,
        "allocated": domains,
        "summary": _summary(domains),
        "workloads": counts.members(key),
        "claims": [claim.to_dict() for claim in latest.values()],
        "conditions": ready_conditions(
            policy, true=not fault, reason=reason.value, message=fault, now=now
        ),
    }


def allocated(rules: Policy, counts: Tally, snapshot: Snapshot) -> list[dict[str, Any]]:
    held = _held(rules, counts, snapshot)
    return [
        {
            "name": name,
            "replicas": min(held.get(name, 0), MOST_UNITS),
            "desired": int(desired),
        }
        for name, desired in zip(rules.domains, rules.desired, strict=True)
    ]


def _held(rules: Policy, counts: Tally, snapshot: Snapshot) -> dict[str, int]:
    held = dict[str, int]()
    column = snapshot.domains_by(rules.topology_key)
    for cluster, replicas in counts.replicas_of(rules.key).items():
        row = snapshot.row.get(cluster)
        value = None if row is None else column.vocabulary.values[column.codes[row]]
        if value is not None:
            held[value] = held.get(value, 0) + replicas
    return held


def _summary(domains: list[dict[str, Any]]) -> str:
    text = ",".join(f"{each['name']}={each['replicas']}/{each['desired']}" for each in domains)
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


class PolicyController(ClaimController[WorkloadPolicy]):
    def __init__(self, term: Term, *, counts: Tally, claims: ClaimIndex, handle: Handle) -> None:
        self._counts = counts
        self._handle = handle
        super().__init__(term, WORKLOAD_POLICIES, WorkloadPolicy, claims=claims)

    def quota_of(self, info: WorkloadInfo) -> Key | None:
        key = policy_of(info)
        policy = None if key is None else self._counts.policy(key)
        return key if policy is not None and policy.required and not policy.fault else None

    async def prepare(self, stored: WorkloadPolicy) -> None:
        """Fill in the default method on a hub whose admission did not."""
        meta = stored.metadata
        rules = self._counts.policy(meta.key)
        # The hub would refuse the rest of an invalid policy.
        if rules is None or rules.fault or not (patch := normalised_policy({"spec": stored.spec})):
            return
        patch["metadata"] = {"resourceVersion": meta.resource_version}
        self._check()
        try:
            path = WORKLOAD_POLICIES.path(meta.namespace, meta.name)
            answer = await self._client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
            self._stored.upsert(self._decoder.decode(answer))
        except (Conflict, NotFound):
            pass  # edited meanwhile: the informer will report it
        except (Forbidden, Invalid) as e:  # the policy counts as Balance without it
            LOG.warning("its method is not filled in: %s", e, extra={"object": "/".join(meta.key)})

    def fields(self, stored: WorkloadPolicy, claims: Sequence[HeldClaim]) -> Mapping[str, Any]:
        return status_of(stored, claims, self._counts, self._handle.snapshot(), self._clock.now())


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
