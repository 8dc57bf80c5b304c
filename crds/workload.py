"""Workload: an application to run somewhere in the fleet, and its state.

The spec is the user's. Each field of the status has one writer, named beside it; both writers send
merge patches that carry the resourceVersion they read, and keep the other's conditions as they
found them. `crds/workload.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from crds.base import (
    ATOMIC,
    Condition,
    Count,
    Int64,
    Kind,
    Model,
    Rule,
    TargetNamespace,
    Timestamp,
    atomic,
    listmap,
)
from crds.fields.dependencies import MOST_DEPENDENCIES, Dependencies, Dependency
from crds.fields.drift import MOST_DRIFTED, Drift, DriftedObject
from crds.fields.labels import ClusterSelector
from crds.fields.movement import MOST_CARRIED, MOST_DISPLACED, DisplacedShare, Movement
from crds.fields.overrides import (
    MOST_OVERRIDES,
    ClusterOverride,
    OverrideTarget,
    PatchOperation,
    cel_touches,
    touches,
)
from crds.fields.placing import Distribution, PlacementRules, PlacementStatus
from crds.fields.publishing import Delivery, Publish
from crds.fields.rollout import (
    MOST_WAVES,
    RevisionException,
    RolledOutReason,
    Rollout,
    RolloutStatus,
)
from crds.fields.shares import (
    MOST_KEPT,
    MOST_ORDINALS,
    MOST_RESERVED_SHARES,
    ClusterReference,
    ClusterShare,
    FieldValue,
    KeptObject,
    LeavingShare,
    OrdinalRange,
    PolicyReference,
    ReservedShare,
)
from crds.fields.template import (
    ConnectionResource,
    Footprint,
    Manifest,
    Override,
    Service,
    TargetDeployment,
    Template,
    number_path,
    replicas_path_fits,
    unnamed_rule,
)
from crds.fields.why import (
    ClusterLimit,
    ReviewVerdict,
)


class Adoption(StrEnum):
    """The handling of an object that exists on the member already."""

    NEVER = "Never"
    IF_UNOWNED = "IfUnowned"
    IF_NO_DIFF = "IfNoDiff"
    """As IfUnowned, but only where the apply would change nothing."""


class OnDelete(StrEnum):
    """What becomes of a Workload's objects on the members when the Workload is deleted."""

    DELETE = "Delete"
    ORPHAN = "Orphan"
    """They stay, without the marks of Stowage."""


class WorkloadState(StrEnum):
    """status.state: how far the Workload has come."""

    PENDING = "Pending"
    SCHEDULED = "Scheduled"
    CREATING = "Creating"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    """spec.suspend holds back what the present generation asks of a cluster."""
    UNREACHABLE = "Unreachable"
    """A cluster that has replicas of it does not answer."""


class WorkloadCondition(StrEnum):
    """The condition types. The controller's: Scheduled, Failed, Moving, RolledOut, Published.

    At most one of Ready, Reconciling and Stalled is True; the last two stand there only then.
    """

    SCHEDULED = "Scheduled"
    """Whether each replica of the present generation has a cluster."""
    FAILED = "Failed"
    """Whether nothing could be placed; there only while it is True."""
    MOVING = "Moving"
    """Whether replicas are on their way; its reasons are `crds.fields.movement.MovingReason`."""
    PROPAGATED = "Propagated"
    """Whether each cluster has the objects of the present decision."""
    READY = "Ready"
    """Whether every replica that the present generation asks for is placed, and ready."""
    RECONCILING = "Reconciling"
    """Not Ready, and on the way there."""
    STALLED = "Stalled"
    """Not Ready, and not before a person does something."""
    DRIFTED = "Drifted"
    """Whether somebody's change on a member stands; absent until there was one."""
    ROLLED_OUT = "RolledOut"
    """Whether all clusters run the spec's revision; its reasons are `RolledOutReason`."""
    PUBLISHED = "Published"
    """Whether the decision stands where spec.publish wants it; absent until it once did not. Its
    reasons are `crds.fields.publishing.PublishedReason`."""


class ScheduledReason(StrEnum):
    """Reasons of Scheduled and of Failed. SCHEDULED and IMPORTED are the ones that are good."""

    SCHEDULED = "Scheduled"
    """Each replica has a cluster."""
    IMPORTED = "Imported"
    """It is where another control plane had placed it (`stowage migrate`)."""
    FAILED_TO_SCHEDULE = "FailedToSchedule"
    """No cluster may take it; the message counts the clusters by what refused it."""
    REPLICAS_REACHED = "ReplicasReached"
    """A policy, a spread or a quota allows no more replicas on the clusters that fit."""
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    """The clusters that fit have no room for the rest."""
    QUOTA_EXCEEDED = "QuotaExceeded"
    """A WorkloadQuota of its namespace is used up; the message names it and the amount."""
    POLICY_NOT_FOUND = "PolicyNotFound"
    """A label names a WorkloadPolicy that its namespace does not have."""
    INVALID_POLICY = "InvalidPolicy"
    """The spec of its WorkloadPolicy is invalid; the message names the field."""
    AMBIGUOUS_POLICY = "AmbiguousPolicy"
    """Its labels bind several WorkloadPolicies."""
    INVALID_SPREAD = "InvalidSpread"
    """The spec of its WorkloadSpread is invalid; the message names the field."""
    GROUP_NOT_FOUND = "GroupNotFound"
    """A label names a WorkloadGroup that its namespace does not have."""
    GROUP_DENIED = "GroupDenied"
    """Too few replicas of its group find a cluster; nothing of it is held."""
    GROUP_INCOMPLETE = "GroupIncomplete"
    """The Workloads of its group ask for fewer replicas than it needs: nothing was tried."""
    GROUP_WITHDRAWN = "GroupWithdrawn"
    """Replicas failed before the quorum of its group ran: all of it was taken back, for a while."""
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    """Replicas were held for its group, or by a Permit plugin, for as long as may be."""
    WAITING_FOR_GROUP = "WaitingForGroup"
    """Its replicas are held until more of the group fit."""
    AMBIGUOUS_GROUP = "AmbiguousGroup"
    """Its labels name several groups."""
    INVALID_GROUP = "InvalidGroup"
    """The spec of its group is invalid; the message names the field."""
    WAITING_ON_PERMIT = "WaitingOnPermit"
    """Shares are found and reserved; a Permit plugin holds back the write."""
    PLUGIN_ERROR = "PluginError"
    """A plugin raised; the message names it and the extension point."""
    INVALID_WORKLOAD = "InvalidWorkload"
    """Admission refuses the spec; said on a hub without the admission policies."""


class PropagatedReason(StrEnum):
    """Reasons of Propagated. PROPAGATED is the one that is good, PROPAGATING is on its way."""

    PROPAGATED = "Propagated"
    """Each cluster has what was decided."""
    DELETION_HELD = "DeletionHeld"
    """Many Workloads are deleted at once; nothing of this one is removed without a person."""
    PROPAGATING = "Propagating"
    """Objects are being written or removed, or wait for others; the message says for what."""
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, no secret
    """The hub lacks a Secret of `spec.secrets`."""
    DEPENDENCY_UNREADABLE = "DependencyUnreadable"
    """What the pods name may not be read on the hub, as the namespace is no tenant."""
    ALREADY_EXISTS = "AlreadyExists"
    """An object of that name is somebody else's; the message names the owner."""
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    """The member does not give that namespace to Stowage."""
    INVALID_WORKLOAD = "InvalidWorkload"
    """The controller's review refused it, on a hub without the validating policy."""
    INVALID_OVERRIDE = "InvalidOverride"
    """An override does not fit on a cluster, which stays as it is; the message names both."""
    REVISION_LOST = "RevisionLost"
    """A cluster is to keep a revision whose ControllerRevision is gone, or is not what it was."""
    NOT_REVIEWED = "NotReviewed"
    """The controller has not reviewed this edit yet, on a hub without the validating policy."""
    KIND_NOT_ALLOWED = "KindNotAllowed"
    """The member does not take an object of that kind, or the Workload may not bring it along."""
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    """A cluster with a share does not answer."""
    TOO_LARGE = "TooLarge"
    """The member's API server can store no object of that size."""
    REJECTED = "Rejected"
    """A member's API server refuses an object; the message has its words."""
    CONFLICT = "Conflict"
    """Another client changes the same fields on the member, again and again."""
    HUB_RESTORED = "HubRestored"
    """The member has what a younger version of the Workload asked for than the hub has, which was
    restored from a backup. It stays until the Workload is edited, or a person accepts the hub's."""
    WAITING_FOR_GROUP = "WaitingForGroup"
    """Its WorkloadGroup has not released these placements; nothing of them is written yet."""
    SUSPENDED = "Suspended"
    """spec.suspend names the cluster: nothing is written there."""
    HUB_UNAVAILABLE = "HubUnavailable"
    """The hub did not answer a request of the propagator; nothing is wrong with the cluster."""


class WorkloadReadyReason(StrEnum):
    """Reasons of Ready. ALL_READY, COMPLETED and DECIDED are the ones that are good."""

    ALL_READY = "AllReady"
    """Every replica is ready."""
    REPLICAS_NOT_READY = "ReplicasNotReady"
    """Replicas have no cluster or are not ready; the message counts them."""
    COMPLETED = "Completed"
    """Every share has ended well, and none runs again."""
    FAILED = "Failed"
    """A share has ended otherwise; the message names its cluster."""
    SUSPENDED = "Suspended"
    """spec.suspend names a cluster, or an object says that nothing of it is to run now."""
    READINESS_UNKNOWN = "ReadinessUnknown"
    """A custom kind says nothing by which it could be taken for ready."""
    DECIDED = "Decided"
    """With spec.delivery None: every replica has a cluster, and nothing more is ours to do."""
    NOT_DECIDED = "NotDecided"
    """With spec.delivery None: replicas of the present generation have no cluster yet."""


WAITING = frozenset(
    {
        ScheduledReason.WAITING_FOR_GROUP,
        ScheduledReason.GROUP_DENIED,
        ScheduledReason.GROUP_INCOMPLETE,
        ScheduledReason.GROUP_WITHDRAWN,
        ScheduledReason.SCHEDULE_TIMEOUT,
        ScheduledReason.WAITING_ON_PERMIT,
        PropagatedReason.PROPAGATING,
        PropagatedReason.NOT_REVIEWED,
        PropagatedReason.CLUSTER_UNREACHABLE,
        PropagatedReason.SUSPENDED,
        PropagatedReason.HUB_UNAVAILABLE,
        RolledOutReason.PROGRESSING,
        RolledOutReason.SOAKING,
        RolledOutReason.AWAITING_APPROVAL,
        RolledOutReason.PAUSED,
        WorkloadReadyReason.REPLICAS_NOT_READY,
        WorkloadReadyReason.READINESS_UNKNOWN,
        WorkloadReadyReason.SUSPENDED,
        WorkloadReadyReason.NOT_DECIDED,
    }
)
"""Reasons that pass, and make a Workload Reconciling; the others need a person.

A rollout that pauses where its author wants it to is no failure, and what a gang lacks its group
says: a Workload that is applied before the others of its gang is none either.
"""


class EventReason(StrEnum):
    """Reasons of the events on a Workload."""

    SCHEDULED = "Scheduled"
    """Replicas got a cluster."""
    FAILED_SCHEDULING = "FailedScheduling"
    """Replicas have no cluster; the note says why."""
    WAITING_ON_PERMIT = "WaitingOnPermit"
    """A Permit plugin holds back the decision."""
    INCOMPLETE_SET = "IncompleteSet"
    """It runs, and a Workload that it requires has no cluster."""
    MOVING = "Moving"
    """A move began."""
    MOVED = "Moved"
    """The successors are ready, and the replicas have left."""
    MOVE_CANCELLED = "MoveCancelled"
    """Replicas stay where they were going to leave."""
    MOVE_BLOCKED = "MoveBlocked"
    """Replicas should leave and cannot; the note has the reason of Moving."""
    PROPAGATED = "Propagated"
    """Each cluster has what was decided."""
    PROPAGATION_FAILED = "PropagationFailed"
    """A cluster does not get its objects; the note has the reason of Propagated."""
    INVALID_OVERRIDE = "InvalidOverride"
    """An override does not fit on a cluster."""
    ADOPTED = "Adopted"
    """An object that nobody owned was taken over as it runs."""
    COMPLETED = "Completed"
    """Every share has ended well."""
    ENDED_IN_FAILURE = "EndedInFailure"
    """A share has ended otherwise."""
    DRIFT_REPAIRED = "DriftRepaired"
    """Somebody's change on a member was taken back."""
    DRIFT_REPORTED = "DriftReported"
    """Somebody's change on a member stands."""
    MANAGED_FIELDS_MENDED = "ManagedFieldsMended"
    """An object on a member took no apply, as a version that managers wrote it in is gone."""
    DEPENDENCY_MISSING = "DependencyMissing"
    """The hub lacks an object that the pods name."""
    ROLLOUT_STARTED = "RolloutStarted"
    """A new revision goes out in waves."""
    WAVE_STARTED = "WaveStarted"
    """The clusters of a wave get the new revision."""
    WAVE_COMPLETE = "WaveComplete"
    """The clusters of a wave run the new revision, and are ready."""
    APPROVAL_NEEDED = "ApprovalNeeded"
    """The next wave waits for `stowage rollout approve`."""
    ROLLOUT_COMPLETE = "RolloutComplete"
    """All clusters run the new revision."""
    ROLLOUT_FAILED = "RolloutFailed"
    """A cluster did not become healthy in time, and the waves stopped."""
    ROLLING_BACK = "RollingBack"
    """The stable revision goes out again."""
    ROLLED_BACK = "RolledBack"
    """All clusters run the stable revision again."""


def _units_path(spec: Any) -> str:
    """Return where the main object has its number of replicas, a JSON pointer; empty for none."""
    main = spec.template or spec.target_deployment
    path = spec.replicas_path or (number_path(main.api_version, main.kind) if main else "")
    return f"/{path.replace('.', '/')}" if path else ""


def _alone(spec: Any) -> bool:
    return spec.target_deployment is None and spec.template is None and bool(spec.manifests)


_NAMES = r'(\.[A-Za-z0-9_-]+|\["[^"\]]+"\])'
_IGNORED = rf"^(spec|metadata\.(labels|annotations))({_NAMES[1:-1]}|\[\*\])+$"
_OF_STATUS = rf"^status{_NAMES}+$"


def _keep_units(spec: Any) -> bool:
    path = _units_path(spec)
    return not path or not any(
        each.op is not PatchOperation.TEST and touches(each.path, [path])
        for override in spec.overrides
        if override.target is None
        for each in override.json_patch or ()
    )


def _have_targets(spec: Any, listed: Any) -> bool:
    service = spec.target_service
    names = {(each.kind, each.metadata.name) for each in spec.manifests}
    if service is not None:
        names.add(("Service", service.metadata.name if service.metadata else None))

    def there(target: Any) -> bool:
        return (target.kind, target.name) in names or (
            target.kind == "Service" and ("Service", None) in names
        )

    return all(each.target is None or there(each.target) for each in listed)


def _target_rule(alias: str, field: str) -> Rule:
    return Rule(
        field=alias,
        text="target must name targetService or one of manifests; leave it out for the template",
        cel=f"!has(self.{alias}) || self.{alias}.all(o, !has(o.target)"
        " || (o.target.kind == 'Service' && has(self.targetService)"
        " && (!has(self.targetService.metadata) || !has(self.targetService.metadata.name)"
        " || self.targetService.metadata.name == o.target.name))"
        " || (has(self.manifests) && self.manifests.exists(m, m.kind == o.target.kind"
        " && m.metadata.name == o.target.name)))",
        holds=lambda s: _have_targets(s, getattr(s, field)),
    )


def _ignores_units(spec: Any) -> bool:
    path = _units_path(spec)
    return bool(path) and any(
        touches(f"/{each.replace('.', '/')}", [path])
        for ignored in spec.ignore_fields
        if ignored.target is None
        for each in ignored.paths
    )


_CEL_POINTER = "('/' + p.replace('.', '/'))"
_CEL_UNITS = (
    "(has(self.replicasPath) ? ['/' + self.replicasPath.replace('.', '/')]"
    " : !has(self.template) || (self.template.apiVersion == 'apps/v1'"
    " && self.template.kind != 'DaemonSet') ? ['/spec/replicas']"
    " : self.template.apiVersion == 'batch/v1' && self.template.kind == 'Job'"
    " ? ['/spec/parallelism'] : [])"
)


class Suspension(Model):
    """The clusters on which nothing of the Workload is written, until it is deleted."""

    cluster_selector: ClusterSelector
    """The MemberClusters, by their labels; an empty one is every cluster."""


MOST_IGNORED = 32
MOST_STATUS_FIELDS = 16


class IgnoredFields(Model):
    """Fields of one object whose values on a member are the member's, once another wrote them."""

    rules = (
        Rule(
            field="paths",
            text="spec.selector, and labels and annotations of stowage.dev, are Stowage's to set",
            cel="self.paths.all(p, p != 'spec.selector' && !p.startsWith('spec.selector.')"
            " && !p.contains('stowage.dev/'))",
            holds=lambda i: (
                not any(
                    f"{p}.".startswith("spec.selector.") or "stowage.dev/" in p for p in i.paths
                )
            ),
        ),
    )

    target: OverrideTarget | None = None
    """The Service or one of the manifests; the template or targetDeployment when unset."""
    paths: Annotated[
        list[Annotated[str, Field(max_length=512, pattern=_IGNORED)]],
        Field(min_length=1, max_length=MOST_IGNORED, json_schema_extra=ATOMIC),
    ]
    """Such as spec.paused, spec.workers[*].replicas, metadata.annotations["a.b/c"]."""


class StatusField(Model):
    """A value of a member's object that is told on the hub."""

    rules = (
        Rule(
            field="target",
            text="what a Secret holds is told nowhere",
            cel="!has(self.target) || self.target.kind != 'Secret'",
            holds=lambda f: f.target is None or f.target.kind != "Secret",
        ),
    )

    target: OverrideTarget | None = None
    """The Service or one of the manifests; the template or targetDeployment when unset."""
    name: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
    """Its name in status.clusters[].fields."""
    path: Annotated[str, Field(max_length=512, pattern=_OF_STATUS)]
    """Such as status.notAfter. A text of more than 256 characters is cut; a list is not told."""


class WorkloadSpec(PlacementRules):
    """The application to run, and the rules of its placement."""

    rules = (
        Rule(
            field="template",
            text="give one of targetDeployment and template, or manifests alone",
            cel="has(self.targetDeployment) ? !has(self.template)"
            " : has(self.template) || (has(self.manifests) && size(self.manifests) > 0)",
            holds=lambda s: _alone(s) or (s.target_deployment is None) != (s.template is None),
        ),
        Rule(
            field="distribution",
            text="manifests alone have no replicas to divide: set it to Single or Duplicated",
            cel="!has(self.distribution) || self.distribution != 'Divided'"
            " || has(self.targetDeployment) || has(self.template)",
            holds=lambda s: s.distribution is not Distribution.DIVIDED or not _alone(s),
        ),
        Rule(
            field="overrides",
            text="there is no template to patch: name one of manifests as target",
            cel="!has(self.overrides) || has(self.targetDeployment) || has(self.template)"
            " || self.overrides.all(o, has(o.target))",
            holds=lambda s: not _alone(s) or all(each.target for each in s.overrides),
        ),
        Rule(
            field="replicasPath",
            text="a Deployment, StatefulSet, ReplicaSet or Job has a path of its own, a DaemonSet "
            "or CronJob has none: remove it",
            cel="!has(self.replicasPath)"
            " || (!has(self.template) ? self.replicasPath == 'spec.replicas'"
            " : self.template.apiVersion.contains('.')"
            " || (self.template.kind in ['Deployment', 'StatefulSet', 'ReplicaSet']"
            " && self.replicasPath == 'spec.replicas')"
            " || (self.template.kind == 'Job' && self.replicasPath == 'spec.parallelism'))",
            holds=lambda s: replicas_path_fits(s.template, s.replicas_path),
        ),
        Rule(
            field="spreadConstraints",
            text="minDomains above 1 never holds where all units go to one cluster: remove it, or "
            "set spec.distribution to Divided or Duplicated",
            cel="(has(self.distribution) && self.distribution != 'Single')"
            " || (has(self.template) && self.template.kind == 'DaemonSet')"
            " || !has(self.spreadConstraints)"
            " || self.spreadConstraints.all(c, !has(c.minDomains) || c.minDomains <= 1)",
            holds=lambda s: (
                s.distribution is not Distribution.SINGLE
                or (s.template is not None and s.template.kind == "DaemonSet")
                or all((c.min_domains or 1) <= 1 for c in s.spread_constraints)
            ),
        ),
        Rule(
            field="overrides",
            text="only one element with each name",
            cel="!has(self.overrides) || self.overrides.all(o, self.overrides.exists_one(p,"
            " p.name == o.name))",
            holds=lambda s: len({o.name for o in s.overrides}) == len(s.overrides),
        ),
        _target_rule("overrides", "overrides"),
        _target_rule("ignoreFields", "ignore_fields"),
        _target_rule("statusFields", "status_fields"),
        Rule(
            field="ignoreFields",
            text="32 paths at most",
            cel="!has(self.ignoreFields)"
            f" || self.ignoreFields.map(i, size(i.paths)).sum() <= {MOST_IGNORED}",
            holds=lambda s: sum(len(each.paths) for each in s.ignore_fields) <= MOST_IGNORED,
        ),
        Rule(
            field="ignoreFields",
            text="the number of replicas is Stowage's to set: spec.replicas, spec.parallelism of a"
            " Job, or what spec.replicasPath names is no field of a member",
            cel="!has(self.ignoreFields) || self.ignoreFields.all(i, has(i.target)"
            f" || i.paths.all(p, !{cel_touches(_CEL_POINTER, _CEL_UNITS)}))",
            holds=lambda s: not _ignores_units(s),
        ),
        Rule(
            field="overrides",
            text="the number of units is Stowage's to set: an override may not touch it",
            cel="!has(self.overrides) || self.overrides.all(o, has(o.target) || !has(o.jsonPatch)"
            f" || o.jsonPatch.all(j, j.op == 'test' || !{cel_touches('j.path', _CEL_UNITS)}))",
            holds=_keep_units,
        ),
        Rule(
            field="movement.carry",
            text="only names of statusFields are told, and can be carried on",
            cel="!has(self.movement) || !has(self.movement.carry)"
            " || self.movement.carry.all(c, has(self.statusFields)"
            " && self.statusFields.exists(f, f.name == c))",
            holds=lambda s: (
                s.movement is None
                or {each.name for each in s.status_fields}.issuperset(s.movement.carry)
            ),
        ),
        Rule(
            field="rollout",
            text="the pod template of a Job cannot change: remove it, or make another Workload for "
            "each run",
            cel="!has(self.rollout) || !has(self.template) || self.template.kind != 'Job'",
            holds=lambda s: s.rollout is None or s.template is None or s.template.kind != "Job",
        ),
        Rule(
            field="rollout",
            text="nothing is rolled out where spec.delivery is None: remove one of the two",
            cel="!has(self.rollout) || !has(self.delivery) || self.delivery != 'None'",
            holds=lambda s: s.rollout is None or s.delivery is not Delivery.NONE,
        ),
    )

    replicas: Count | None = None
    """The replicas wanted; the template's own number when unset. An HPA needs it set."""
    distribution: Distribution = Distribution.SINGLE
    """Single: all on the best cluster. Divided: split. Duplicated: all on each that matches."""
    target_namespace: TargetNamespace | None = None
    """The namespace on the members, metadata.namespace when unset; others need the verb `use`."""
    target_deployment: TargetDeployment | None = None
    """The Deployment to run; this, template, or manifests alone."""
    target_service: Service | None = None
    """A Service beside it, on each chosen cluster."""
    template: Template | None = None
    """A Deployment, StatefulSet, ReplicaSet, Job, CronJob, DaemonSet, or a custom kind."""
    replicas_path: (
        Annotated[str, Field(max_length=253, pattern=r"^spec(\.[A-Za-z0-9_-]+)+$")] | None
    ) = None
    """Where a custom kind has its number of replicas, such as spec.replicas; else it runs whole."""
    manifests: list[Manifest] = atomic(64)
    """Objects of any kind that go along to each chosen cluster, or go there alone, once each."""
    resources: list[ConnectionResource] = listmap("name", most=64)
    """Secrets of this namespace, copied to each chosen cluster before the rest."""
    dependencies: Dependencies = Dependencies.NONE
    """Follow: the ConfigMaps, Secrets and ServiceAccounts that the pods name go along."""
    overrides: list[ClusterOverride] = atomic(MOST_OVERRIDES)
    """What differs on some clusters, laid over the objects in this order: the later one wins."""
    adoption: Adoption = Adoption.NEVER
    """Never touches an object that exists there; IfUnowned takes it over if it has no owner.

    IfNoDiff takes it over if it has no owner and is already as the Workload wants it.
    """
    ignore_fields: list[IgnoredFields] = atomic(MOST_IGNORED)
    """Fields that are the member's own once somebody there wrote them; 32 paths in all."""
    status_fields: list[StatusField] = listmap("name", most=MOST_STATUS_FIELDS)
    """Values of the members' objects that stand in status.clusters[].fields."""
    drift: Drift = Drift.REPAIR
    """Repair writes back what somebody changed on a member; with Report it stays, and is told."""
    on_delete: OnDelete = OnDelete.DELETE
    """Delete removes the objects from the clusters with the Workload; Orphan leaves them there."""
    movement: Movement | None = None
    """How replicas go from one cluster to another."""
    suspend: Suspension | None = None
    """Where nothing is written: what runs there stays as it is, and takes and gives nothing."""
    rollout: Rollout | None = None
    """The pace at which a new template comes to the clusters; all at once when unset."""
    delivery: Delivery = Delivery.PUSH
    """Push brings the objects to the chosen clusters; None only decides, and counts the room."""
    publish: Publish | None = None
    """Where the decision stands beside the status, for tools that know no kind of ours."""


class ObservedGenerations(Model):
    """The generations that the two writers of a Workload's status have looked at."""

    controller: Int64 | None = None
    """The metadata.generation that the last decision read. Writer: controller.

    Absent for a scheduler of another name that does not write it: then nobody waits for it.
    """
    propagator: Int64 | None = None
    """The metadata.generation that the last report is about. Writer: propagator."""


class WorkloadStatus(PlacementStatus):
    """The state of the Workload. The writer of each field stands with it."""

    observed_generation: Int64 | None = None
    """The lowest of `observed`: the generation that all writers have seen. Writer: propagator."""
    observed: ObservedGenerations | None = None
    """What both writers have seen. Writer: each of its own field."""

    state: WorkloadState | None = None
    """How far it has come.

    Writer: controller, in the write that empties or first fills placements; while there are
    placements: propagator, from Scheduled on.
    """
    ready: Count | None = None
    """Ready replicas, over all clusters. Writer: propagator."""
    ready_summary: Annotated[str, Field(max_length=64)] | None = None
    """The READY column, `4/6`. Writer: propagator."""
    selector: Annotated[str, Field(max_length=4096)] | None = None
    """The pods' label selector, for the scale subresource. Writer: controller."""
    overrides: list[Override] = atomic(64)
    """The differences between the shares. Writer: the controller, in the write of the placements.

    The propagator honours it with the placements of any writer.
    """
    reservations: list[ReservedShare] = atomic(MOST_RESERVED_SHARES)
    """Which replicas lie in the room of which Reservations. Writer: controller, with placements."""
    leaving: list[LeavingShare] = listmap("cluster", most=10000)
    """Replicas that still stand where they are placed no more, until their successors are ready.

    They are no part of placements. Writer: controller, in the write of the placements.
    """
    ordinals: list[OrdinalRange] = listmap("cluster", most=MOST_ORDINALS)
    """Where the ordinals of each cluster begin, of a StatefulSet; nothing that runs gets others.

    Writer: the controller, in the write of the placements; for a scheduler of another name that
    writes none the propagator.
    """
    completed: Count | None = None
    """Completions of shares that have left, of a divided Job. Writer: controller."""
    run: Annotated[str, Field(max_length=512)] | None = None
    """The object of a divided Job, as `Job shop/bill`, whose completions are divided here.

    Completions that are told of an object of another name are of another run. Writer: controller,
    in the write of the placements.
    """
    displaced: list[DisplacedShare] = atomic(MOST_DISPLACED)
    """Replicas that may return to the cluster that they left. Writer: controller."""
    rebalanced: Timestamp | None = None
    """The last spec.movement.rebalanceAfter that was met. Writer: controller."""
    carried: Annotated[dict[str, FieldValue], Field(max_length=MOST_CARRIED)] | None = None
    """The values of spec.movement.carry on the cluster that was left last. Writer: controller.

    $(stowage.carried:NAME) in an override stands for one of them in an object that is made anew."""
    cluster_ref: ClusterReference | None = None
    """The cluster, where there is exactly one. Writer: controller."""
    clusters: list[ClusterShare] = atomic(10000)
    """How each cluster is doing. Writer: propagator alone, each cluster once."""
    fields_omitted: Count | None = None
    """Clusters whose `fields` are left out, as all are 64 KiB at most. Writer: propagator."""
    # The generated alias would be serviceExternalIp; Kubernetes writes IP.
    service_external_ip: Annotated[
        str | None, Field(alias="serviceExternalIP", max_length=4096)
    ] = None
    """The SERVICE-EXTERNAL-IP column. Writer: propagator."""
    policy_ref: PolicyReference | None = None
    """The policy that bounds the shares. Writer: controller."""
    limits: list[ClusterLimit] = atomic(10000)
    """The most replicas that clusters were seen to run. Writer: controller."""
    footprint: Footprint | None = None
    """Which members may hold something. Writer: of more, who places; of less, the propagator."""
    kept: list[KeptObject] = atomic(MOST_KEPT)
    """The objects that stay on clusters where they are not wanted now; they go with the Workload.

    Writer: propagator."""
    drift: list[DriftedObject] = atomic(MOST_DRIFTED)
    """What others changed on members, at most 32 objects. Writer: propagator."""
    dependencies: list[Dependency] = atomic(MOST_DEPENDENCIES)
    """The objects that the pods name, of spec.dependencies: Follow. Writer: propagator."""
    rollout: RolloutStatus | None = None
    """The rollout of the spec's revision. Writer: controller."""
    revisions: list[RevisionException] = atomic(MOST_WAVES)
    """Which clusters get another revision than that of `rollout`. Writer: controller."""
    review: ReviewVerdict | None = None
    """Whether the last edit may reach a member, where the hub did not judge it. Writer: controller.

    The propagator honours it on every hub without the validating policy, for every scheduler.
    """
    conditions: list[Condition] = listmap("type", most=32)
    """Scheduled, Failed, Moving, RolledOut, Published: controller. All others: propagator."""


class Workload(Kind):
    """An application to run in the fleet, the rules of its placement, and its state."""

    rules = (unnamed_rule("template"), unnamed_rule("targetService"))

    plural = "workloads"
    short = "wl"
    subresources: ClassVar[dict[str, Any]] = {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            # What an HPA takes for the present number of replicas are the units that have a
            # cluster.
            "statusReplicasPath": ".status.assigned",
            "labelSelectorPath": ".status.selector",
        },
    }
    columns = (
        ("State", "string", ".status.state", 0),
        ("Clusters", "string", ".status.clusterSummary", 0),
        ("Desired", "integer", ".status.desired", 0),
        ("Assigned", "integer", ".status.assigned", 0),
        ("Ready", "string", ".status.readySummary", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Pending", "integer", ".status.pending", 1),
        ("Namespace", "string", ".*['targetNamespace','namespace']", 1),
        ("Deployment", "string", ".spec['targetDeployment','template'].metadata.name", 1),
        ("Service-External-IP", "string", ".status.serviceExternalIP", 1),
        ("Rollout", "string", ".status.rollout.phase", 1),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["Workload"] = "Workload"
    spec: WorkloadSpec
    """The application to run, and the rules of its placement."""
    status: WorkloadStatus | None = None
    """The state of the Workload."""
