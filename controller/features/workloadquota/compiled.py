"""A WorkloadQuota in the form of decisions, and the amounts of a replica.

Amounts are by the names of `spec.hard`: thousandths for requests.cpu, units for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from controller.framework.runtime.feature import checked_spec
from controller.model.unit import WorkloadInfo
from crds.names import API_VERSION, PLACEHOLDER_SCHEDULER, REQUESTS
from crds.workloadquota import UNITS
from machinery.types import hostports, quantities
from machinery.types.api import WorkloadQuotaSpec, WorkloadQuotaStatus
from machinery.types.bounds import MOST_AMOUNT
from machinery.types.metadata import Key, Object


class WorkloadQuota(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadQuotaStatus = WorkloadQuotaStatus()


Amounts: TypeAlias = Mapping[str, int]
_PODS = "pods"


@dataclass(frozen=True, slots=True)
class CompiledQuota:
    """The configuration's default quota has no name."""

    key: Key
    uid: str
    created: str
    hard: Amounts
    fault: str = ""

    @property
    def named(self) -> str:
        return f"WorkloadQuota {self.key[1]}" if self.key[1] else "defaultQuota"

    @property
    def order(self) -> tuple[str, Key]:
        return self.created, self.key


def compile_quota(stored: WorkloadQuota) -> CompiledQuota:
    meta = stored.metadata
    spec, fault = checked_spec("WorkloadQuota", stored.spec, WorkloadQuotaSpec)
    hard = _amounts(spec.hard) if spec and not fault else {}
    return CompiledQuota(meta.key, meta.uid, meta.creation_timestamp, hard, fault)


def default_quota(namespace: str, hard: Mapping[str, Any]) -> CompiledQuota:
    return CompiledQuota((namespace, ""), "", "", _amounts(hard))


def _amounts(hard: Mapping[str, Any]) -> dict[str, int]:
    return {name: quantities.amount(resource_of(name), text) for name, text in hard.items()}


def resource_of(name: str) -> str:
    return name.removeprefix(REQUESTS)


def rendered(name: str, amount: int) -> str:
    return quantities.render(resource_of(name), min(amount, MOST_AMOUNT))


def asked(request: Amounts) -> dict[str, int]:
    return {
        REQUESTS + resource: n
        for resource, n in request.items()
        if resource != _PODS and hostports.code(resource) is None
    }


def held(request: Amounts) -> dict[str, int]:
    """Return the amounts of reserved room. A place for a pod counts as a replica."""
    return {UNITS: request.get(_PODS, 0), **asked(request)}


def of_unit(info: WorkloadInfo) -> dict[str, int]:
    """None for a placeholder: its Reservation counts."""
    if info.scheduler_name == PLACEHOLDER_SCHEDULER and info.controller[:2] == (
        API_VERSION,
        "Reservation",
    ):
        return {}
    return {UNITS: 1, **asked(_most(most_request(info), info.patched))}


def most_request(info: WorkloadInfo) -> Amounts:
    """Return the most by the template and its overrides: what a new replica may request."""
    return _most(info.request, info.most_request)


def _most(request: Amounts, more: Amounts) -> Amounts:
    if not more:
        return request
    return {name: max(request.get(name, 0), more.get(name, 0)) for name in {**request, **more}}


def of_cluster(info: WorkloadInfo) -> dict[str, int]:
    return held(info.alongside) if info.alongside else {}
