"""A WorkloadPolicy, ready to be decided on.

A stored object may be older than the rules of admission, or written past them, so everything is
checked again. An invalid policy has a `fault`, and bounds no Workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from controller.features.spec import read_spec
from controller.features.workloadpolicy.objects import PolicySpec, WorkloadPolicy
from controller.model.unit import WorkloadInfo
from controller.planner.replicacycle import Method
from controller.planner.webster import MAX_REPLICAS, Ints
from crds.base import QUALIFIED
from crds.workloadpolicy import MOST_DOMAINS, AllocationType
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector, parse_label_selector

_TYPES = ", ".join(each.value for each in AllocationType)
_METHODS = ", ".join(each.value for each in Method)
_VALUE = re.compile(QUALIFIED)
_VALUE_LIMIT = 63


@dataclass(frozen=True, slots=True)
class Policy:
    """`domains` are the values of `topology_key`, `desired` their numbers, in the list's order."""

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
        """Return whether the Workload's replicas count against the policy."""
        return not self.fault and info.namespace == self.key[0] and self.picks(info.unit_labels)

    def picks(self, labels: Mapping[str, str]) -> bool:
        """Return whether the policy selects pods with these labels."""
        return not self.fault and self.selector.matches(labels)


def compile_policy(policy: WorkloadPolicy) -> Policy:
    """Compile a stored policy; `fault` says where an invalid one is wrong."""
    spec, fault = read_spec(policy.spec, PolicySpec)
    fault = fault or _fault(spec)
    method = spec.allocation_method or spec.schedule_strategy or Method.BALANCE.value
    domains = [] if fault else spec.allocation_policy
    numbers = [min(each.replicas, MAX_REPLICAS) for each in domains]
    return Policy(
        key=policy.metadata.key,
        topology_key=spec.topology_key,
        selector=LabelSelector() if fault else spec.label_selector or LabelSelector(),
        domains=tuple(each.name for each in domains),
        desired=np.array(numbers, dtype=np.int64),
        required=spec.allocation_type == AllocationType.REQUIRED.value,
        method=Method.BALANCE if fault else Method(method),
        fault=fault,
    )


def _fault(spec: PolicySpec) -> str:
    """Return the first fault that admission would have refused; empty where there is none."""
    methods = {spec.allocation_method, spec.schedule_strategy} - {""}
    if not spec.topology_key:
        return "spec.topologyKey: name a label of MemberClusters"
    if spec.label_selector is None:
        return "spec.labelSelector: say which Workloads count"
    if wrong := _wrong_domains(spec):
        return f"spec.allocationPolicy: {wrong}"
    if spec.allocation_type not in {each.value for each in AllocationType}:
        return f"spec.allocationType: {spec.allocation_type!r} is none of {_TYPES}"
    if methods - {each.value for each in Method}:
        return f"spec.allocationMethod: {', '.join(sorted(methods))} is none of {_METHODS}"
    if len(methods) > 1:
        return "spec.scheduleStrategy: is another name of allocationMethod, and differs from it"
    return _unreadable(spec.label_selector)


def _wrong_domains(spec: PolicySpec) -> str:
    """Return the first fault of the domains, all of which the status must be able to name."""
    names = [each.name for each in spec.allocation_policy]
    if not names:
        return "name at least one domain"
    if len(names) > MOST_DOMAINS:
        return f"{len(names)} domains, {MOST_DOMAINS} at most"
    if wrong := [name for name in names if not _is_value(name)]:
        return f"{wrong[0]!r} is no value of a label"
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"{twice} stands there twice"
    if any(each.replicas < 0 for each in spec.allocation_policy):
        return "replicas must not be negative"
    return ""


def _is_value(name: str) -> bool:
    return len(name) <= _VALUE_LIMIT and _VALUE.fullmatch(name) is not None


def _unreadable(selector: LabelSelector) -> str:
    known: Any = msgspec.to_builtins(selector)
    try:
        parse_label_selector(known)
    except ValueError as e:
        return f"spec.labelSelector.{e}"
    return ""
