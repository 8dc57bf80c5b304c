"""Profiles of well-known kinds of others, in the words of a WorkloadKind.

Each one was written by what its controller does, where that is not what its documents say. A
WorkloadKind of the hub takes the place of any of them.
"""

from __future__ import annotations

from typing import Final

from crds.names import TtlWhen
from machinery.kinds.profile import Data, End, Pods, Profile, Ready, Replicas

_UNTOLD = ""
"""No generation is observed, or not of every edit."""

ROLLOUT: Final = Profile(
    group="argoproj.io",
    kind="Rollout",
    versions=("v1alpha1",),
    replicas=Replicas("spec.replicas"),
    pods=(Pods(template="spec.template"),),
    ready=Ready(replicas="status.readyReplicas", updated="status.updatedReplicas"),
    degraded="status.phase == 'Degraded'",
)

CLONE_SET: Final = Profile(
    group="apps.kruise.io",
    kind="CloneSet",
    versions=("v1alpha1",),
    replicas=Replicas("spec.replicas"),
    pods=(Pods(template="spec.template"),),
    # `updatedReplicas` counts pods that are not ready.
    ready=Ready(replicas="status.readyReplicas", updated="status.updatedReadyReplicas"),
    data=Data("spec.volumeClaimTemplates"),
)

KRUISE_STATEFUL_SET: Final = Profile(
    group="apps.kruise.io",
    kind="StatefulSet",
    versions=("v1beta1",),
    replicas=Replicas("spec.replicas"),
    pods=(Pods(template="spec.template"),),
    ready=Ready(replicas="status.readyReplicas", updated="status.updatedReadyReplicas"),
    data=Data("spec.volumeClaimTemplates"),
    at_most_once=True,
)

_LEADER = "spec.leaderWorkerTemplate.leaderTemplate"
_WORKER = "spec.leaderWorkerTemplate.workerTemplate"
LEADER_WORKER_SET: Final = Profile(
    group="leaderworkerset.x-k8s.io",
    kind="LeaderWorkerSet",
    versions=("v1",),
    replicas=Replicas("spec.replicas"),
    pods=(
        Pods(name="leader", template=_LEADER, otherwise=_WORKER),
        Pods(
            name="worker",
            template=_WORKER,
            count="math.greatest(spec.leaderWorkerTemplate.?size.orValue(1) - 1, 0)",
        ),
    ),
    ready=Ready(
        observed_generation=_UNTOLD,
        replicas="status.readyReplicas",
        updated="status.updatedReplicas",
    ),
)

_JOB = "item.template.spec"
JOB_SET: Final = Profile(
    group="jobset.x-k8s.io",
    kind="JobSet",
    versions=("v1alpha2",),
    pods=(
        Pods(
            each="spec.replicatedJobs",
            name="item.name",
            template="item.template.spec.template",
            count=f"item.?replicas.orValue(1) * math.least({_JOB}.?parallelism.orValue(1),"
            f" {_JOB}.?completions.orValue({_JOB}.?parallelism.orValue(1)))",
        ),
    ),
    ready=Ready(
        observed_generation=_UNTOLD,
        # It has no condition while it runs.
        when=(
            (
                "spec.replicatedJobs.all(j, status.replicatedJobsStatus.exists(s, s.name == j.name"
                " && s.?ready.orValue(0) + s.?succeeded.orValue(0) >= j.?replicas.orValue(1)))"
            ),
        ),
    ),
    ended=End(
        succeeded="conditions.Completed == 'True'",
        failed="conditions.Failed == 'True'",
        ttl="spec.ttlSecondsAfterFinished",
    ),
    suspended="spec.suspend",
    immutable=("spec.replicatedJobs",),
    # With it a finished job of the set runs again.
    strip=("spec.replicatedJobs[*].template.spec.ttlSecondsAfterFinished",),
)

RAY_CLUSTER: Final = Profile(
    group="ray.io",
    kind="RayCluster",
    versions=("v1",),
    pods=(
        Pods(name="head", template="spec.headGroupSpec.template"),
        Pods(
            each="spec.workerGroupSpecs",
            name="item.groupName",
            template="item.template",
            count="math.greatest(item.?replicas.orValue(0), item.?minReplicas.orValue(0))"
            " * item.?numOfHosts.orValue(1)",
        ),
    ),
    ready=Ready(
        # The generation is observed only when a number changes.
        observed_generation=_UNTOLD,
        when=(
            "conditions.RayClusterProvisioned == 'True'",
            "conditions.HeadPodReady == 'True'",
            "conditions.?ReplicaFailure.orValue('False') != 'True'",
            "status.?readyWorkerReplicas.orValue(0) >= status.?desiredWorkerReplicas.orValue(0)",
        ),
    ),
    suspended="spec.suspend",
)

_SLOTS = "int(spec.?flinkConfiguration[?'taskmanager.numberOfTaskSlots'].orValue('1'))"
_FLINK_PODS = "spec.?podTemplate.?spec.orValue({})"
FLINK_DEPLOYMENT: Final = Profile(
    group="flink.apache.org",
    kind="FlinkDeployment",
    versions=("v1beta1",),
    pods=(
        Pods(
            name="jobManager",
            count="spec.jobManager.?replicas.orValue(1)",
            requests={
                "cpu": "spec.jobManager.resource.cpu",
                "memory": "javaMemory(spec.jobManager.resource.memory)",
            },
            placing=_FLINK_PODS,
        ),
        Pods(
            name="taskManager",
            count="spec.taskManager.?replicas.orValue("
            f"(spec.?job.?parallelism.orValue(1) + {_SLOTS} - 1) / {_SLOTS})",
            requests={
                "cpu": "spec.taskManager.resource.cpu",
                "memory": "javaMemory(spec.taskManager.resource.memory)",
            },
            placing=_FLINK_PODS,
        ),
    ),
    ready=Ready(
        when=(
            "status.lifecycleState == 'STABLE'",
            "status.jobManagerDeploymentStatus == 'READY'",
        )
    ),
    ended=End(
        succeeded="status.jobStatus.state == 'FINISHED'",
        failed="status.jobStatus.state in ['FAILED', 'CANCELED']",
    ),
)

_FACTOR = "double(spec.?memoryOverheadFactor.orValue(spec.type in ['Python', 'R'] ? '0.4' : '0.1'))"


def _spark(role: str, count: str) -> Pods:
    own, unit = f"spec.{role}", 2**20
    memory = f"javaMemory({own}.?memory.orValue('1g')) / {unit}"
    overhead = f"int(math.greatest(384.0, double({memory}) * {_FACTOR}))"
    return Pods(
        name=role,
        count=count,
        requests={
            "cpu": f"{own}.?coreRequest.orValue(string({own}.?cores.orValue(1)))",
            "memory": f"({memory} + ({own}.?memoryOverhead.hasValue()"
            f" ? javaMemory({own}.memoryOverhead) / {unit} : {overhead})) * {unit}",
        },
        placing=own,
    )


_EXECUTORS = "spec.executor.?instances.orValue(1)"
SPARK_APPLICATION: Final = Profile(
    group="sparkoperator.k8s.io",
    kind="SparkApplication",
    versions=("v1beta2",),
    pods=(_spark("driver", ""), _spark("executor", _EXECUTORS)),
    ready=Ready(
        observed_generation=_UNTOLD,
        when=(
            "status.applicationState.state == 'RUNNING'",
            (
                "status.executorState.filter(k, status.executorState[k] == 'RUNNING').size()"
                f" >= {_EXECUTORS}"
            ),
        ),
    ),
    ended=End(
        succeeded="status.applicationState.state == 'COMPLETED'",
        failed="status.applicationState.state == 'FAILED'",
        ttl="spec.timeToLiveSeconds",
        # Written after its end it would run again.
        ttl_when=TtlWhen.CREATED,
    ),
    suspended="spec.suspend",
)

VOLCANO_JOB: Final = Profile(
    group="batch.volcano.sh",
    kind="Job",
    versions=("v1alpha1",),
    pods=(
        Pods(
            each="spec.tasks",
            name="item.name",
            template="item.template",
            count="item.?replicas.orValue(1)",
        ),
    ),
    ready=Ready(
        observed_generation=_UNTOLD,
        when=(
            "status.state.phase == 'Running'",
            "status.?minAvailable.orValue(0) > 0",
            "status.?running.orValue(0) >= status.?minAvailable.orValue(0)",
        ),
    ),
    ended=End(
        succeeded="status.state.phase == 'Completed'",
        failed="status.state.phase in ['Failed', 'Terminated']",
        ttl="spec.ttlSecondsAfterFinished",
    ),
    suspended="status.state.phase == 'Aborted'",
)

KNATIVE_SERVICE: Final = Profile(
    group="serving.knative.dev",
    kind="Service",
    versions=("v1",),
    pods=(
        Pods(
            template="spec.template",
            count="math.greatest(1, int(spec.template.?metadata.?annotations"
            "[?'autoscaling.knative.dev/min-scale'].orValue('1')))",
        ),
    ),
)

POSTGRES_CLUSTER: Final = Profile(
    group="postgresql.cnpg.io",
    kind="Cluster",
    versions=("v1",),
    pods=(
        Pods(
            name="instance",
            count="spec.?instances.orValue(1)",
            requests={
                "cpu": "spec.resources.requests.cpu",
                "memory": "spec.resources.requests.memory",
            },
            placing="spec.affinity",
        ),
    ),
    ready=Ready(
        observed_generation=_UNTOLD,
        # Ready stays True with an instance lost.
        when=(
            "conditions.Ready == 'True'",
            "status.?readyInstances.orValue(0) >= spec.?instances.orValue(1)",
        ),
    ),
    suspended="metadata.?annotations[?'cnpg.io/hibernation'].orValue('off') == 'on'",
    data=Data(always=True),
)

WELL_KNOWN: Final = (
    *(ROLLOUT, CLONE_SET, KRUISE_STATEFUL_SET, LEADER_WORKER_SET, JOB_SET, RAY_CLUSTER),
    *(FLINK_DEPLOYMENT, SPARK_APPLICATION, VOLCANO_JOB, KNATIVE_SERVICE, POSTGRES_CLUSTER),
)
