"""The status of every WorkloadPolicy: the replicas of its domains, and the claims on their quota.

Only a `Required` policy is claimed: a `Preferred` one may be exceeded, so nothing is lost when two
schedulers decide at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.claims.claims import HeldClaim
from controller.claims.controller import ClaimController
from controller.claims.index import ClaimIndex
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.features.workloadpolicy.plugin import policy_of
from controller.features.workloadpolicy.status import status_of
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.model.unit import WorkloadInfo
from crds.admission.validation import normalised_policy
from machinery import logs
from machinery.api.resources import WORKLOAD_POLICIES
from machinery.api.verbs import MERGE_PATCH
from machinery.errors import Conflict, Forbidden, Invalid, NotFound
from machinery.types.metadata import Key

LOG = logs.get(__name__)


class PolicyController(ClaimController[WorkloadPolicy]):
    """The policies of a hub, for one term of leadership."""

    def __init__(self, term: Term, *, counts: Tally, claims: ClaimIndex, handle: Handle) -> None:
        self._counts = counts
        self._handle = handle
        super().__init__(term, WORKLOAD_POLICIES, WorkloadPolicy, claims=claims)

    def quota_of(self, info: WorkloadInfo) -> Key | None:
        """Return the Workload's policy, if that is Required and valid."""
        key = policy_of(info)
        policy = None if key is None else self._counts.policy(key)
        return key if policy is not None and policy.required and not policy.fault else None

    async def prepare(self, stored: WorkloadPolicy) -> None:
        """Fill in the default method, on a hub whose admission did not."""
        meta = stored.metadata
        rules = self._counts.policy(meta.key)
        # The hub would refuse the rest of an invalid policy, so that one is left alone.
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
        except (Forbidden, Invalid) as e:  # the policy counts as Balance all the same
            LOG.warning("its method is not filled in: %s", e, extra={"object": "/".join(meta.key)})

    def fields(self, stored: WorkloadPolicy, claims: Sequence[HeldClaim]) -> Mapping[str, Any]:
        return status_of(stored, claims, self._counts, self._handle.snapshot(), self._clock.now())
