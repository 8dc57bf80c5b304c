"""The status of every WorkloadPolicy: the replicas of its domains, and claims.

Only `Required` policies are claimed: a `Preferred` one may be exceeded, so concurrent schedulers do
no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.claims.claims import ClaimIndex, HeldClaim
from controller.claims.controller import ClaimController
from controller.features.workloadpolicy.compiled import Policy
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.features.workloadpolicy.plugin import policy_of
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import ready_conditions
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.admission.validation import normalised_policy
from crds.workloadpolicy import PolicyReadyReason
from machinery import logs
from machinery.api.resources import WORKLOAD_POLICIES
from machinery.api.verbs import MERGE_PATCH
from machinery.errors import Conflict, Forbidden, Invalid, NotFound
from machinery.types.bounds import MOST_UNITS
from machinery.types.metadata import Key

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
        """Return the Workload's policy if it is Required and valid."""
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
