"""A WorkloadPolicy in the form of decisions; one with a `fault` bounds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from controller.features.spec import checked_spec
from controller.model.unit import WorkloadInfo
from controller.planner.replicacycle import Method
from controller.planner.webster import MAX_REPLICAS, Ints
from crds.workloadpolicy import AllocationType
from machinery.types.api import WorkloadPolicySpec, WorkloadPolicyStatus
from machinery.types.metadata import Key, Object
from machinery.types.selectors import LabelSelector


class WorkloadPolicy(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadPolicyStatus = WorkloadPolicyStatus()


@dataclass(frozen=True, slots=True)
class Policy:
    """A checked policy. `domains` are values of `topology_key`, `desired` their numbers."""

    key: Key
    topology_key: str
    selector: LabelSelector
    domains: tuple[str, ...]
    desired: Ints
    required: bool
    method: Method
    fault: str = ""

    @property
    def name(self) -> str:
        return self.key[1]

    def counts(self, info: WorkloadInfo) -> bool:
        return not self.fault and info.namespace == self.key[0] and self.picks(info.unit_labels)

    def picks(self, labels: Mapping[str, str]) -> bool:
        return not self.fault and self.selector.matches(labels)


def compile_policy(policy: WorkloadPolicy) -> Policy:
    key = policy.metadata.key
    spec, fault = checked_spec("WorkloadPolicy", policy.spec, WorkloadPolicySpec)
    if spec is None or fault:
        nothing = np.zeros(0, dtype=np.int64)
        return Policy(key, "", LabelSelector(), (), nothing, False, Method.BALANCE, fault)
    numbers = [min(each.replicas, MAX_REPLICAS) for each in spec.allocation_policy]
    return Policy(
        key=key,
        topology_key=spec.topology_key,
        selector=spec.label_selector,
        domains=tuple(each.name for each in spec.allocation_policy),
        desired=np.array(numbers, dtype=np.int64),
        required=spec.allocation_type == AllocationType.REQUIRED.value,
        method=Method(spec.allocation_method or spec.schedule_strategy or Method.BALANCE.value),
    )
