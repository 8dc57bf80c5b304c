"""The profiles that come with Stowage. No other module names a kind of workload."""

from __future__ import annotations

from typing import Final

from crds.names import LONGEST_NAMES
from machinery.kinds.profile import (
    Data,
    End,
    Maker,
    Names,
    Naming,
    Pods,
    Profile,
    Ready,
    Replicas,
)

_REPLICAS = "spec.replicas"
_QUEUE = "metadata.labels[\"kueue.x-k8s.io/queue-name\"] != ''"
_QUEUED_IN_PART = "metadata.annotations[\"kueue.x-k8s.io/job-min-parallelism\"] != ''"
_TEMPLATE = (Pods(template="spec.template"),)
_READY, _UPDATED, _PRESENT = "status.readyReplicas", "status.updatedReplicas", "status.replicas"

DEPLOYMENT: Final = Profile(
    group="apps",
    kind="Deployment",
    versions=("v1",),
    adopts=True,
    replicas=Replicas(_REPLICAS),
    pods=_TEMPLATE,
    made_by=Maker("apps", "ReplicaSet", Naming.TEMPLATE_HASH),
    ready=Ready(
        replicas=_READY,
        updated=_UPDATED,
        present=_PRESENT,
        replaces=True,
        at_rest=("DeploymentPaused", "ProgressDeadlineExceeded"),
        gives_up="ProgressDeadlineExceeded",
    ),
    once_when="spec.strategy.type == 'Recreate'",
)

STATEFUL_SET: Final = Profile(
    group="apps",
    kind="StatefulSet",
    versions=("v1",),
    adopts=True,
    replicas=Replicas(
        _REPLICAS,
        ordinals="spec.ordinals.start",
        whole=_QUEUE,
        why="its queue takes another number only from and to 0",
    ),
    pods=_TEMPLATE,
    made_by=Maker("apps", "StatefulSet"),
    ready=Ready(replicas=_READY, updated=_UPDATED, present=_PRESENT),
    data=Data("spec.volumeClaimTemplates"),
    service="spec.serviceName",
    names=Names(LONGEST_NAMES["apps/v1", "StatefulSet"]),
)

REPLICA_SET: Final = Profile(
    group="apps",
    kind="ReplicaSet",
    versions=("v1",),
    adopts=True,
    replicas=Replicas(_REPLICAS),
    pods=_TEMPLATE,
    made_by=Maker("apps", "ReplicaSet"),
    ready=Ready(replicas=_READY),
)

DAEMON_SET: Final = Profile(
    group="apps",
    kind="DaemonSet",
    versions=("v1",),
    adopts=True,
    everywhere=True,
    pods=_TEMPLATE,
    made_by=Maker("apps", "DaemonSet"),
    ready=Ready(
        replicas="status.numberReady",
        updated="status.updatedNumberScheduled",
        wanted="status.desiredNumberScheduled",
    ),
)

JOB: Final = Profile(
    group="batch",
    kind="Job",
    versions=("v1",),
    adopts=True,
    replicas=Replicas(
        "spec.parallelism",
        total="spec.completions",
        whole="spec.completionMode == 'Indexed'",
        why="an Indexed Job counts from 0 on each cluster",
    ),
    pods=_TEMPLATE,
    made_by=Maker("batch", "Job"),
    # A Job observes no generation, and its pods are never of another template.
    ready=Ready(observed_generation="", replicas="status.ready"),
    ended=End(
        succeeded="conditions.Complete == 'True'",
        failed="conditions.Failed == 'True'",
        done="status.succeeded",
        ttl="spec.ttlSecondsAfterFinished",
    ),
    suspended="spec.suspend",
    immutable=(
        "spec.template",
        "spec.selector",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.successPolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
    ),
    # A queue that admits a part of a Job has written its number, and refuses each other one.
    settled=("spec.parallelism",),
    settled_when=_QUEUED_IN_PART,
    names=Names(LONGEST_NAMES["batch/v1", "Job"]),
)

CRON_JOB: Final = Profile(
    group="batch",
    kind="CronJob",
    versions=("v1",),
    pods=(Pods(template="spec.jobTemplate.spec.template"),),
    made_by=Maker("batch", "Job", Naming.NUMBER),
    ready=Ready(observed_generation="", exists=True),
    at_most_once=True,
    names=Names(LONGEST_NAMES["batch/v1", "CronJob"]),
)

_EXIST: Final = {
    "": (
        *("ConfigMap", "Secret", "Service", "Endpoints", "Namespace"),
        *("PersistentVolumeClaim", "PodTemplate", "LimitRange", "ResourceQuota"),
    ),
    "rbac.authorization.k8s.io": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    "networking.k8s.io": ("Ingress", "IngressClass", "NetworkPolicy"),
    "policy": ("PodDisruptionBudget",),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("StorageClass",),
    "node.k8s.io": ("RuntimeClass",),
    "discovery.k8s.io": ("EndpointSlice",),
    "coordination.k8s.io": ("Lease",),
    "admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
}
"""Kinds without a readiness: they are ready when they exist, in any version."""

_EXISTS: Final = Ready(observed_generation="", exists=True)
SERVICE_ACCOUNT: Final = Profile(
    group="", kind="ServiceAccount", ready=_EXISTS, joined="imagePullSecrets"
)

PROFILES: Final = (
    *(DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB),
    SERVICE_ACCOUNT,
    *(
        Profile(group=group, kind=kind, ready=_EXISTS)
        for group, kinds in _EXIST.items()
        for kind in kinds
    ),
)
