"""Profiles of well-known kinds of others, in the words of a WorkloadKind."""

from __future__ import annotations

from typing import Final

from crds.names import Edits, TtlWhen
from machinery.kinds.profile import Data, End, Hold, Pods, Profile, Ready, Replicas, Warned

_UNTOLD = ""
"""No generation is observed, or not of every edit."""

ROLLOUT: Final = Profile(
    group="argoproj.io",
    kind="Rollout",
    versions=("v1alpha1",),
    replicas=Replicas("spec.replicas"),
    pods=(Pods(template="spec.template"),),
    ready=Ready(
        replicas="status.readyReplicas",
        # updatedReplicas counts pods that are not ready: those that certainly are.
        updated="math.greatest(0, status.?updatedReplicas.orValue(0) - math.greatest(0,"
        " status.?replicas.orValue(0) - status.?readyReplicas.orValue(0)))",
    ),
    degraded="status.phase == 'Degraded'",
    adopts=True,
    holds=Hold(
        "status.abort == true",
        "its abort stands in its status alone: made anew it runs the revision that was aborted",
    ),
)

CLONE_SET: Final = Profile(
    group="apps.kruise.io",
    kind="CloneSet",
    versions=("v1alpha1",),
    replicas=Replicas("spec.replicas"),
    pods=(Pods(template="spec.template"),),
    # `updatedReplicas` counts pods that are not ready.
    ready=Ready(replicas="status.readyReplicas", updated="status.updatedReadyReplicas"),
    data=Data("spec.volumeClaimTemplates", go_with_replicas=True),
    orphan="the new one makes other pods and claims, and the old ones run on",
    warns=(Warned("spec.template", "under ReCreate, the default, the claims of a pod go with it"),),
)

KRUISE_STATEFUL_SET: Final = Profile(
    group="apps.kruise.io",
    kind="StatefulSet",
    versions=("v1beta1",),
    # It counts from 0 on each cluster, whatever its ordinals say while their gate is off.
    replicas=Replicas("spec.replicas", whole="size(spec.volumeClaimTemplates) > 0"),
    pods=(Pods(template="spec.template"),),
    ready=Ready(replicas="status.readyReplicas", updated="status.updatedReadyReplicas"),
    data=Data("spec.volumeClaimTemplates"),
    at_most_once=True,
    adopts=True,
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
    orphan="some of its groups are collected, others lose their owner",
    warns=(Warned("spec.leaderWorkerTemplate.size", "another size ends every group at once"),),
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
    data=Data("spec.volumeClaimPolicies[*].templates"),
    immutable=("spec.replicatedJobs",),
    # With it a finished job of the set runs again.
    strip=("spec.replicatedJobs[*].template.spec.ttlSecondsAfterFinished",),
    orphan="the new one stands still without a status, and its jobs run on",
)


def _ray_pods(where: str) -> tuple[Pods, Pods]:
    return (
        Pods(name="head", template=f"{where}.headGroupSpec.template"),
        Pods(
            each=f"{where}.workerGroupSpecs",
            name="item.groupName",
            template="item.template",
            count="math.greatest(item.?replicas.orValue(0), item.?minReplicas.orValue(0))"
            " * item.?numOfHosts.orValue(1)",
        ),
    )


RAY_CLUSTER: Final = Profile(
    group="ray.io",
    kind="RayCluster",
    versions=("v1",),
    pods=_ray_pods("spec"),
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
    orphan="the new one says that it is ready and owns nothing, and the pods outlive it",
    edits=Edits.NEW_PODS,
    # Its autoscaler writes them.
    ignore_fields=("spec.workerGroupSpecs[*].replicas",),
)

_SUBMITS = "spec.?submissionMode.orValue('K8sJobMode') == 'K8sJobMode'"
RAY_JOB: Final = Profile(
    group="ray.io",
    kind="RayJob",
    versions=("v1",),
    pods=(
        *_ray_pods("spec.rayClusterSpec"),
        Pods(
            name="submitter",
            template="spec.submitterPodTemplate",
            count=f"{_SUBMITS} ? 1 : 0",
        ),
        Pods(
            name="submitter",
            # That of its controller, without a template.
            requests={"cpu": "'500m'", "memory": "'200Mi'"},
            count=f"{_SUBMITS} && !has(spec.submitterPodTemplate) ? 1 : 0",
        ),
    ),
    ready=Ready(observed_generation=_UNTOLD, when=("status.jobDeploymentStatus == 'Running'",)),
    # It is no end: its pods stay.
    degraded="status.jobDeploymentStatus == 'ValidationFailed'",
    ended=End(
        succeeded="status.jobDeploymentStatus == 'Complete' && status.jobStatus == 'SUCCEEDED'",
        # After a deadline jobStatus stays RUNNING, and the job runs on.
        failed="status.jobDeploymentStatus == 'Failed' || (status.jobDeploymentStatus == 'Complete'"
        " && status.jobStatus in ['STOPPED', 'FAILED'])",
    ),
    suspended="spec.suspend",
    suspends_when="spec.shutdownAfterJobFinishes == true",
    orphan="the new one submits its job once more, and the old pods outlive it",
    edits=Edits.NEW_PODS,
    ignore_fields=("spec.rayClusterSpec.workerGroupSpecs[*].replicas",),
)

RAY_SERVICE: Final = Profile(
    group="ray.io",
    kind="RayService",
    versions=("v1",),
    pods=_ray_pods("spec.rayClusterConfig"),
    ignore_fields=("spec.rayClusterConfig.workerGroupSpecs[*].replicas",),
)

_SLOTS = (
    "int(spec.?flinkConfiguration[?'taskmanager.numberOfTaskSlots']"
    ".or(spec.?flinkConfiguration.?taskmanager.?numberOfTaskSlots).orValue('1'))"
)
_FLINK_PODS = "spec.?podTemplate.?spec.orValue({})"


def _flink_asks(role: str) -> dict[str, str]:
    """Return the requests of a role, which has `resources`, or `resource` of earlier releases."""
    own = f"spec.?{role}"
    cpu, memory = (
        f"{own}.?resources.?requests.?{each}.or({own}.?resource.?{each})"
        for each in ("cpu", "memory")
    )
    return {
        "cpu": f"{cpu}.orValue(null)",
        "memory": f"{memory}.hasValue() ? dyn(javaMemory({memory}.value())) : null",
    }


FLINK_DEPLOYMENT: Final = Profile(
    group="flink.apache.org",
    kind="FlinkDeployment",
    versions=("v1beta1",),
    pods=(
        Pods(
            name="jobManager",
            count="spec.jobManager.?replicas.orValue(1)",
            requests=_flink_asks("jobManager"),
            placing=_FLINK_PODS,
            labels="spec.podTemplate.metadata.labels",
        ),
        Pods(
            name="taskManager",
            count="spec.taskManager.?replicas.orValue("
            f"(spec.?job.?parallelism.orValue(1) + {_SLOTS} - 1) / {_SLOTS})",
            requests=_flink_asks("taskManager"),
            placing=_FLINK_PODS,
            labels="spec.podTemplate.metadata.labels",
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
    suspended="spec.?job.?state.orValue('running') == 'suspended'",
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
        labels=f"{own}.labels",
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
    orphan="its driver ends, and the application with it",
    edits=Edits.RESTARTS,
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
    edits=Edits.NEW_PODS,
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
    # Its webhook writes who created and who edited it there, and refuses another name.
    strip=(
        'metadata.annotations["serving.knative.dev/creator"]',
        'metadata.annotations["serving.knative.dev/lastModifier"]',
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
            labels="spec.inheritedMetadata.labels",
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
    data=Data(always=True, go_with_replicas=True),
    warns=(Warned("spec.instances", "an instance that a lower number removes loses its claim"),),
    orphan="the new one keeps its claims, and ends every pod at once",
)


def _training_job(kind: str, versions: tuple[str, ...], field: str) -> Profile:
    """A job of replica types in a map; Running alone tells of its master."""
    specs = f"spec.{field}"
    return Profile(
        group="kubeflow.org",
        kind=kind,
        versions=versions,
        pods=(
            Pods(
                each=specs, name="key", template="item.template", count="item.?replicas.orValue(1)"
            ),
        ),
        ready=Ready(
            observed_generation=_UNTOLD,
            when=(
                "conditions.Running == 'True'",
                (
                    f"{specs}.all(k, status.replicaStatuses[k].?active.orValue(0)"
                    " + status.replicaStatuses[k].?succeeded.orValue(0)"
                    f" >= {specs}[k].?replicas.orValue(1))"
                ),
            ),
        ),
        ended=End(
            succeeded="conditions.Succeeded == 'True'",
            failed="conditions.Failed == 'True'",
            ttl="spec.runPolicy.ttlSecondsAfterFinished",
        ),
        suspended="spec.runPolicy.suspend",
        orphan="the new one has no status, and the old pods run on",
        edits=Edits.NEW_PODS,
    )


PYTORCH_JOB: Final = _training_job("PyTorchJob", ("v1",), "pytorchReplicaSpecs")
TF_JOB: Final = _training_job("TFJob", ("v1",), "tfReplicaSpecs")
MPI_JOB: Final = _training_job("MPIJob", ("v2beta1", "v1"), "mpiReplicaSpecs")


def _per_node(resource: str) -> str:
    asks = f"spec.trainer.resourcesPerNode.?requests[?'{resource}']"
    return f"{asks}.or(spec.trainer.resourcesPerNode.?limits[?'{resource}']).orValue(null)"


_NODES_KNOWN = "has(spec.trainer) && has(spec.trainer.resourcesPerNode)"
TRAIN_JOB: Final = Profile(
    group="trainer.kubeflow.org",
    kind="TrainJob",
    versions=("v1alpha1",),
    pods=(
        # Where the trainer does not say them the runtime of the member does.
        Pods(
            name="node",
            count=f"{_NODES_KNOWN} ? spec.trainer.?numNodes.orValue(1) : 0",
            requests={
                each: f"{_NODES_KNOWN} ? {_per_node(each)} : null"
                for each in ("cpu", "memory", "nvidia.com/gpu")
            },
        ),
    ),
    ready=Ready(
        observed_generation=_UNTOLD,
        # It has no condition while it runs.
        when=("status.jobsStatus.exists(j, j.?ready.orValue(0) > 0)",),
    ),
    ended=End(
        succeeded="conditions.Complete == 'True'",
        failed="conditions.Failed == 'True'",
        delete_failed=True,
    ),
    suspended="spec.suspend",
    immutable=("spec.trainer",),
)


def _strimzi_pods(name: str, where: str, template: str, labels: str = "") -> Pods:
    return Pods(
        name=name,
        count=f"{where}.?replicas.orValue(0)",
        requests={
            each: f"{where}.?resources.?requests.?{each}.orValue(null)"
            for each in ("cpu", "memory")
        },
        placing=template,
        labels=labels,
    )


_BROKERS = "spec.kafka.template.pod"
KAFKA: Final = Profile(
    group="kafka.strimzi.io",
    kind="Kafka",
    versions=("v1", "v1beta2"),
    # From v1 on its KafkaNodePools say how many there are.
    pods=(_strimzi_pods("kafka", "spec.kafka", _BROKERS, f"{_BROKERS}.metadata.labels"),),
    data=Data(always=True),
)

KAFKA_NODE_POOL: Final = Profile(
    group="kafka.strimzi.io",
    kind="KafkaNodePool",
    versions=("v1", "v1beta2"),
    # A template of its own takes the place of that of its Kafka, so no label is written there.
    pods=(_strimzi_pods("node", "spec", "spec.template.pod"),),
    ready=Ready(when=("status.?replicas.orValue(0) >= spec.replicas",)),
    data=Data(always=True),
)


_FORMATS = ("sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface")


def _of_container(where: str, *fields: str) -> dict[str, str]:
    own = f"{where}.?containers[?0]"
    for field in reversed(fields):
        own = f"{where}.?{field}.or({own})"
    return {
        each: f"{own}.?resources.?requests[?'{each}'].or({own}.?resources.?limits[?'{each}'])"
        ".orValue(null)"
        for each in ("cpu", "memory", "nvidia.com/gpu")
    }


def _inference_pods(role: str, requests: dict[str, str], labels: str = "") -> Pods:
    own = f"spec.?{role}"
    return Pods(
        name=role,
        count=f"{own}.hasValue() ? math.greatest(1, {own}.?minReplicas.orValue(1)) : 0",
        requests=requests,
        placing=f"spec.{role}",
        labels=labels,
    )


_WORKERS = "spec.predictor.?workerSpec"
INFERENCE_SERVICE: Final = Profile(
    group="serving.kserve.io",
    kind="InferenceService",
    versions=("v1beta1",),
    pods=(
        _inference_pods(
            "predictor",
            _of_container("spec.predictor", "model", *_FORMATS),
            "spec.predictor.labels",
        ),
        Pods(
            name="worker",
            count=f"{_WORKERS}.hasValue() ? {_WORKERS}.?pipelineParallelSize.orValue(2) - 1 : 0",
            requests=_of_container(_WORKERS),
            placing="spec.predictor.workerSpec",
        ),
        _inference_pods("transformer", _of_container("spec.?transformer")),
        _inference_pods("explainer", _of_container("spec.?explainer")),
    ),
)

HELM_RELEASE: Final = Profile(
    group="helm.toolkit.fluxcd.io",
    kind="HelmRelease",
    versions=("v2",),
    # While suspended the generation is observed, and nothing is applied: its Ready tells its own.
    ready=Ready(observed_generation=_UNTOLD),
    suspended="spec.suspend",
    orphan="it uninstalls everything, unless it was seen suspended before",
    ignore_fields=("spec.suspend",),
)

WORKFLOW: Final = Profile(
    group="argoproj.io",
    kind="Workflow",
    versions=("v1alpha1",),
    # Its steps come one after the other, so that no room is counted.
    pods=(Pods(name="step", count="0", requests={}, labels="spec.podMetadata.labels"),),
    ready=Ready(observed_generation=_UNTOLD, when=("status.phase == 'Running'",)),
    ended=End(
        succeeded="status.phase == 'Succeeded'",
        failed="status.phase in ['Failed', 'Error']",
        ttl="spec.ttlStrategy",
    ),
    suspended="spec.suspend",
    edits=Edits.NEW_PODS,
    warns=(Warned("spec.templates", "steps that have not begun run the edited templates"),),
    ignore_fields=("spec.suspend",),
)


def _tekton_run(kind: str, *immutable: str) -> Profile:
    return Profile(
        group="tekton.dev",
        kind=kind,
        versions=("v1", "v1beta1"),
        pods=(Pods(name="step", count="0", requests={}, labels="metadata.labels"),),
        ready=Ready(observed_generation=_UNTOLD, when=("conditions.Succeeded == 'Unknown'",)),
        ended=End(
            succeeded="conditions.Succeeded == 'True'",
            failed="conditions.Succeeded == 'False'",
        ),
        suspended=f"spec.?status.orValue('') == '{kind}Pending'",
        immutable=immutable,
    )


PIPELINE_RUN: Final = _tekton_run("PipelineRun", "spec.pipelineSpec", "spec.taskRunTemplate")
TASK_RUN: Final = _tekton_run("TaskRun", "spec.taskSpec", "spec.podTemplate")

CERTIFICATE: Final = Profile(
    group="cert-manager.io",
    kind="Certificate",
    versions=("v1",),
    ready=Ready(observed_generation=_UNTOLD),
    orphan="the new one is Ready and never renewed while its CertificateRequests stand",
)

_KEDA = "metadata.?annotations[?'autoscaling.keda.sh/"
SCALED_OBJECT: Final = Profile(
    group="keda.sh",
    kind="ScaledObject",
    versions=("v1alpha1",),
    ready=Ready(observed_generation=_UNTOLD),
    # Ready stays True while it is paused.
    suspended=f"{_KEDA}paused'].orValue('false') == 'true' || {_KEDA}paused-replicas'].hasValue()",
    orphan="its target stays at 0, or at the number of its first day",
)

WELL_KNOWN: Final = (
    *(ROLLOUT, CLONE_SET, KRUISE_STATEFUL_SET, LEADER_WORKER_SET, JOB_SET),
    *(RAY_CLUSTER, RAY_JOB, RAY_SERVICE, FLINK_DEPLOYMENT, SPARK_APPLICATION, VOLCANO_JOB),
    *(PYTORCH_JOB, TF_JOB, MPI_JOB, TRAIN_JOB, KNATIVE_SERVICE, INFERENCE_SERVICE),
    *(POSTGRES_CLUSTER, KAFKA, KAFKA_NODE_POOL, HELM_RELEASE, WORKFLOW, PIPELINE_RUN, TASK_RUN),
    *(CERTIFICATE, SCALED_OBJECT),
)
