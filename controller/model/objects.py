"""Workloads and MemberClusters as the controller reads them: partial structs, decoded fast.

`crds` has the full kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from controller.model import nodelabels
from crds.names import (
    ANNOTATION_PROFILE,
    ANNOTATION_UNJOIN,
    GIVEN_UP,
    LABEL_PROVIDER,
    LABEL_VERSION,
)
from machinery.overrides.variables import ClusterFacts
from machinery.types.api import (
    Capacity,
    ClusterAffinity,
    DecisionReference,
    DistributionWeight,
    Evacuation,
    MemberClusterSpec,
    MemberNamespaces,
    Movement,
    NodeGroup,
    Placement,
    QuotaLeft,
    Reliability,
    ShareBlocked,
    ShareEnd,
    SpreadConstraint,
    TargetCluster,
    WorkloadAffinity,
)
from machinery.types.bounds import MOST_UNITS, between
from machinery.types.metadata import Key, Object
from machinery.types.selectors import ClusterSelector
from machinery.types.taints import Toleration
from machinery.types.workload_api import (
    ClusterLimit,
    DisplacedShare,
    Footprint,
    LeavingShare,
    OrdinalRange,
    Publish,
    ReservedShare,
    ReviewVerdict,
    RevisionException,
    Rollout,
    RolloutStatus,
    ShareFailover,
    Suspension,
)

AWAY = "Away"
"""The reason of Ready of a cluster that only shares name; never stored."""


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0

    @property
    def stored(self) -> dict[str, Any]:
        """The stored form, without absent fields."""
        said: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in said.items() if value or name in _ALWAYS}


_ALWAYS = ("status", "reason", "message")


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[Condition] = []
    cluster_id: str = msgspec.field(name="clusterID", default="")
    cluster_set: str = ""
    version: str = ""
    provider: str = ""
    node_groups: list[NodeGroup] = []
    capacity: Capacity | None = None
    namespaces: MemberNamespaces = MemberNamespaces()
    kinds: tuple[str, ...] | None = None
    kinds_omitted: int = 0
    quotas: list[QuotaLeft] = []
    latency_milliseconds: int | None = None
    reliability: Reliability | None = None
    evacuation: Evacuation | None = None
    shard: int | None = None

    def __post_init__(self) -> None:
        if self.kinds:
            msgspec.structs.force_setattr(self, "kinds", _shared_kinds(self.kinds))


@lru_cache(maxsize=1024)
def _shared_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Most members serve the same ones."""
    return kinds


class MemberCluster(Object, frozen=True):
    spec: MemberClusterSpec = MemberClusterSpec()
    status: ClusterStatus = ClusterStatus()

    def condition(self, type_: str) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == type_), None)

    @property
    def ready(self) -> bool:
        return self._holds("Ready")

    def _holds(self, type_: str) -> bool:
        found = self.condition(type_)
        return found is not None and found.status == "True"

    @property
    def reason(self) -> str:
        found = self.condition("Ready")
        return found.reason if found is not None else ""

    @property
    def agent_old(self) -> bool:
        """Whether the agent of a member in mode Pull is older than this hub serves."""
        return self._holds("AgentOld")

    @property
    def profile(self) -> Key | None:
        namespace, _, name = self.metadata.annotations.get(ANNOTATION_PROFILE, "").partition("/")
        return (namespace, name) if namespace and name else None

    @property
    def away(self) -> bool:
        """Whether only shares name the cluster, and no MemberCluster (`controller.cache.away`)."""
        return self.reason == AWAY

    @property
    def given_up(self) -> bool:
        return self.metadata.annotations.get(ANNOTATION_UNJOIN) == GIVEN_UP

    @property
    def evacuating(self) -> bool:
        """Workloads leave it, or it was lost a short while ago."""
        evacuation = self.status.evacuation
        return evacuation is not None and bool(evacuation.causes or evacuation.dwells_until)

    @property
    def served(self) -> tuple[str, ...] | None:
        """The only kinds of groups with a dot that it serves; None if there may be others."""
        return None if self.status.kinds_omitted else self.status.kinds

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.facts.labels)

    @property
    def node_labels(self) -> dict[str, str]:
        """The values of labels that it lacks itself, as `controller.model.nodelabels.told`."""
        return nodelabels.told(self.status.node_groups, self.facts.labels)

    @property
    def facts(self) -> ClusterFacts:
        meta, spec = self.metadata, self.spec
        return ClusterFacts.of(meta.name, meta.labels, provider=spec.provider, version=spec.version)

    @property
    def provider(self) -> str:
        """As pinned, else as reported, else as labelled."""
        reported = self.spec.provider or self.status.provider
        return reported or self.metadata.labels.get(LABEL_PROVIDER, "")

    @property
    def secret_namespace(self) -> str:
        """Empty without one."""
        reference = self.spec.secret_ref
        return reference.namespace if reference is not None else ""

    @property
    def version(self) -> str:
        """As pinned, else as reported, else as labelled."""
        reported = self.spec.version or self.status.version
        return reported or self.metadata.labels.get(LABEL_VERSION, "")


class TemplateMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A template's metadata as stored; `controller.model.podtemplate` checks its form."""

    name: Any = None
    labels: Any = None
    annotations: Any = None


class Template(msgspec.Struct, frozen=True, rename="camel"):
    """The object to run. A malformed one is decoded, too, to report its fault."""

    api_version: str = ""
    kind: str = ""
    metadata: TemplateMeta | None = None
    spec: Any = msgspec.field(default_factory=dict)


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """As far as its pods are counted."""

    api_version: Any = ""
    kind: Any = ""
    metadata: Any = None
    spec: Any = None


NOWHERE = Publish()


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int | None = None
    scheduler_name: str = ""
    priority: int = 0
    distribution: str = "Single"
    distribution_weights: list[DistributionWeight] = []
    packing: str = "Proportional"
    spread_constraints: list[SpreadConstraint] = []
    target_namespace: str = ""
    target_cluster: TargetCluster | None = None
    cluster_selector: ClusterSelector = {}
    cluster_affinity: ClusterAffinity = msgspec.field(default_factory=ClusterAffinity)
    workload_affinity: WorkloadAffinity = msgspec.field(default_factory=WorkloadAffinity)
    workload_anti_affinity: WorkloadAffinity = msgspec.field(default_factory=WorkloadAffinity)
    tolerations: list[Toleration] = []
    target_deployment: Template | None = None
    template: Template | None = None
    manifests: list[Manifest] = []
    replicas_path: str = ""
    overrides: Any = None
    ignore_fields: Any = None
    movement: Movement = Movement()
    suspend: Suspension | None = None
    rollout: Rollout | None = None
    delivery: str = ""
    on_delete: str = ""
    publish: Publish = NOWHERE


class ClusterShare(msgspec.Struct, frozen=True, rename="camel"):
    """As the propagator reports it."""

    name: str
    replicas: int = 0
    scheduled: int = 0
    capacity_version: int = 0
    """The version of the cluster that counts `scheduled` first; 0 if not reported."""
    finished: int = 0
    succeeded: int = 0
    completed: int = 0
    """Succeeded pods, of a kind that ends."""
    failed: int = 0
    ready: int = 0
    current: int = 0
    """Existing pods, including terminating ones; 0 if not reported."""
    unschedulable: int = 0
    unschedulable_since: datetime | None = None
    refused: int = 0
    """Pods that the cluster refuses to make; they do not exist."""
    state: str = ""
    message: str = ""
    reason: str = ""
    """Why it does not progress, as a reason of Propagated."""
    available: int | None = None
    """Pods that have been ready for minReadySeconds; None if that is 0."""
    blocked: ShareBlocked | None = None
    updated: int = 0
    outdated: int = 0
    revision: str = ""
    """The revision that was last written there completely; empty without spec.rollout."""
    start: int | None = None
    """The first ordinal of the object there; None of a kind without ordinals."""
    health: str = ""
    holds: str = ""
    """Why its replicas stay: what a new object would lack."""
    failover: ShareFailover | None = None
    fields: dict[str, str] = {}
    """The values of spec.statusFields there."""
    ended: ShareEnd | None = None
    """How it ended; None while it runs."""


class ObservedByController(msgspec.Struct, frozen=True, gc=False):
    """0 before the first decision."""

    controller: int = 0


class PluginFields(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of Workload.status that plugins set; those of other packages are in `plugins`."""

    policy_ref: dict[str, Any] | None = None
    overrides: list[Any] | None = None
    reservations: Any = None
    """Read by `reserved_shares`."""
    rollout: Any = None
    revisions: Any = None
    """Both are read by `controller.model.objects.RolloutState`."""
    plugins: dict[str, dict[str, Any]] = {}

    def says(self, fields: Mapping[str, Any]) -> bool:
        """Whether the status has these fields, by their JSON names, as given."""
        return all(
            msgspec.to_builtins(getattr(self, PLUGIN_FIELDS[name])) == value
            for name, value in fields.items()
        )


PLUGIN_FIELDS: Mapping[str, str] = dict(
    zip(PluginFields.__struct_encode_fields__, PluginFields.__struct_fields__, strict=True)
)
"""The attribute of each of these fields by its JSON name."""


class WorkloadStatus(PluginFields, msgspec.Struct, frozen=True, rename="camel"):
    state: str = ""
    observed: ObservedByController = ObservedByController()
    observed_generation: int = 0
    """Equal to `observed.controller` for an object of a placed kind; less for a Workload that the
    propagator has not observed yet.
    """
    desired: int | None = None
    assigned: int | None = None
    pending: int | None = None
    selector: str = ""
    placements: list[Placement] = []
    leaving: list[LeavingShare] = []
    displaced: list[DisplacedShare] = []
    ordinals: list[OrdinalRange] = []
    rebalanced: str = ""
    carried: dict[str, str] = {}
    cluster_summary: str = ""
    clusters: list[ClusterShare] = []
    reasons: list[Any] = []
    reason_counts: list[Any] = []
    history: list[Any] = []
    why: bytes = b""
    """The three above, packed by `controller.model.why` once the Workload is compiled."""
    completed: int = 0
    """The work done by shares that have left."""
    run: str = ""
    """Of which object the parts of the work are; empty of a release that wrote none."""
    limits: list[ClusterLimit] = []
    footprint: Footprint = Footprint()
    decision: DecisionReference = DecisionReference("")
    review: ReviewVerdict = ReviewVerdict(0)
    conditions: list[dict[str, Any]] = []


class Workload(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    info: Any = None
    """The compiled `controller.model.unit.WorkloadInfo`, set by `controller.eventhandlers.known`.
    """
    fault: str = ""
    """Why the template could not be compiled."""

    @property
    def standing(self) -> dict[str, int]:
        """The stored shares by cluster, including ended ones."""
        return {**self.placements, **(self.info.ended if self.info is not None else {})}

    @property
    def placements(self) -> dict[str, int]:
        """The present shares by cluster, each cut to its bounds."""
        # There may be ten thousand, and the compiled WorkloadInfo has them.
        if self.info is not None:
            present: dict[str, int] = self.info.present
            return present
        return {
            share.cluster: between(0, share.replicas, MOST_UNITS)
            for share in self.status.placements
        }


def reserved_shares(stored: Any) -> tuple[ReservedShare, ...]:
    """Read status.reservations; a malformed entry is skipped."""
    found = []
    for each in stored if isinstance(stored, list) else ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(each, ReservedShare))
    return tuple(share for share in found if 0 < share.replicas <= MOST_UNITS)


@dataclass(frozen=True)
class RolloutState:
    """spec.rollout, and two raw fields of the status, decoded once when needed.

    The properties raise ValidationError for a malformed status.
    """

    spec: Rollout | None
    rollout: Any = None
    revisions: Any = None

    @cached_property
    def stored(self) -> RolloutStatus | None:
        return None if self.rollout is None else msgspec.convert(self.rollout, RolloutStatus)

    @cached_property
    def listed(self) -> list[RevisionException]:
        return msgspec.convert(self.revisions or [], list[RevisionException])

    @cached_property
    def exceptions(self) -> Mapping[str, str]:
        """`listed` by cluster."""
        return {cluster: each.revision for each in self.listed for cluster in each.clusters}


def rollout_state(spec: Rollout | None, rollout: Any, revisions: Any) -> RolloutState | None:
    """None without a rollout."""
    if spec is None and rollout is None and not revisions:
        return None
    return RolloutState(spec, rollout, revisions)
