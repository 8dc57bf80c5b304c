"""The fields of the kind WorkloadSpread that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.model.objects import PreferredTerm, Toleration
from machinery.types.metadata import Object
from machinery.types.selectors import SelectorTerm


class TargetRef(msgspec.Struct, frozen=True, rename="camel"):
    """The Workload whose replicas are divided."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class SubsetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of spec.subsets; a field of two possible types stays as it is stored."""

    name: str = ""
    required_node_selector_term: SelectorTerm | None = None
    required_cluster_selector_term: SelectorTerm | None = None
    preferred_node_selector_terms: list[PreferredTerm] = []
    tolerations: list[Toleration] = []
    max_replicas: Any = None
    patch: dict[str, Any] | None = None


class Adaptive(msgspec.Struct, frozen=True, rename="camel"):
    """How replicas that find no node move on."""

    reschedule_critical_seconds: int | None = None
    disable_simulation_schedule: bool = False


class ScheduleStrategy(msgspec.Struct, frozen=True):
    """The strategy; Fixed where the type is missing."""

    type: str = ""
    adaptive: Adaptive | None = None


class SpreadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadSpread.spec, as `controller.features.workloadspread.compiled` reads it."""

    target_ref: TargetRef | None = None
    subsets: list[SubsetSpec] = []
    schedule_strategy: ScheduleStrategy | None = None


class SubsetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a subset; the three maps go from ids of replicas to moments."""

    name: str
    replicas: int = 0
    missing_replicas: int = 0
    creating_pods: dict[str, str] = {}
    deleting_pods: dict[str, str] = {}
    stuck_pods: dict[str, str] = {}
    deletion_cost: int = 0
    conditions: list[dict[str, Any]] = []


class SpreadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadSpread.status."""

    observed_generation: int = 0
    conditions: list[dict[str, Any]] = []
    subset_statuses: list[SubsetStatus] = []
    summary: str = ""


class WorkloadSpread(Object, frozen=True):
    """Over which subsets of clusters the replicas of a Workload go, in which order.

    The spec stays as it is stored: an older schema may have let in a value of any type, and a
    spread that cannot be decoded would be as good as deleted.
    `controller.features.workloadspread.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: SpreadStatus = SpreadStatus()
