"""The profiles of well-known kinds: their pods, and their statuses as their controllers write."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.place import together
from controller.model.requests import parts_of
from crds.fields.shares import ShareHealth
from machinery.kinds.expressions import value
from machinery.kinds.profile import TtlWhen, values_of
from machinery.kinds.readiness import Result, counts_of, judge
from machinery.kinds.table import profile_of
from machinery.kinds.templates import claims_in
from machinery.kinds.wellknown import WELL_KNOWN
from tests.kindsof import FLINK, GADGET, LEADER_WORKERS, RAY, SPARK, hostile_objects
from tests.kindsof import pods as one_pod

GI, MI = 2**30, 2**20


def profile(body: Any) -> Any:
    return profile_of(body["apiVersion"], body["kind"])


def judged(body: Any, asked: int = 1, *, generation: int = 1, **status: Any) -> Any:
    found = judge(profile(body), {"metadata": {}, **body, "status": status}, generation=generation)
    return found, counts_of(found, asked)


def conditions(**said: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": status} for kind, status in said.items()]


@pytest.mark.parametrize("known", WELL_KNOWN, ids=lambda each: f"{each.kind}.{each.group}")
def test_each_value_compiles_and_is_no_longer_than_an_administrator_may_write(known: Any) -> None:
    for field, text in values_of(known):
        if text:
            value(text)
            assert len(text) <= 1024, field


@pytest.mark.proves("KD12")
@pytest.mark.parametrize(
    ("body", "pods", "total"),
    [
        (LEADER_WORKERS, {"leader": 1, "worker": 3}, {"cpu": 25_000, "pods": 4, "gpu": 24}),
        (RAY, {"head": 1, "tpu": 8, "auto": 3}, {"cpu": 90_000, "pods": 12}),
        (
            FLINK,
            {"jobManager": 1, "taskManager": 3},
            {"cpu": 2_500, "memory": 14 * GI, "pods": 4},
        ),
        (
            SPARK,
            {"driver": 1, "executor": 3},
            {"cpu": 2_500, "memory": (896 + 3 * 5734) * MI, "pods": 4},
        ),
    ],
    ids=["LeaderWorkerSet", "RayCluster", "FlinkDeployment", "SparkApplication"],
)
def test_the_pods_of_a_replica_and_their_sum(body: Any, pods: Any, total: Any) -> None:
    parts = parts_of(profile(body), body)
    assert {each.name: each.count for each in parts} == pods
    request, _ = together(parts)
    assert {name.rpartition("/")[2]: n for name, n in request.items()} == total


def made(api_version: str, kind: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


ASKS = {"requests": {"cpu": "1", "memory": "2Gi"}}
KSERVE, FLINK_V1, STRIMZI = (
    "serving.kserve.io/v1beta1",
    "flink.apache.org/v1beta1",
    "kafka.strimzi.io",
)


@pytest.mark.proves("KD12")
@pytest.mark.parametrize(
    ("body", "pods", "total"),
    [
        (
            made(KSERVE, "InferenceService", {"predictor": {"model": {"resources": ASKS}}}),
            {"predictor": 1},
            {"cpu": 1000, "memory": 2 * GI, "pods": 1},
        ),
        (
            made(
                KSERVE,
                "InferenceService",
                {
                    "predictor": {
                        "minReplicas": 2,
                        "sklearn": {"resources": {"limits": {"cpu": 2}}},
                    },
                    "transformer": {"containers": [{"resources": ASKS}]},
                },
            ),
            {"predictor": 2, "transformer": 1},
            {"cpu": 5000, "memory": 2 * GI, "pods": 3},
        ),
        (
            made(
                KSERVE,
                "InferenceService",
                {
                    "predictor": {
                        "model": {"resources": {"requests": {"nvidia.com/gpu": "8"}}},
                        "workerSpec": {
                            "pipelineParallelSize": 3,
                            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}],
                        },
                    }
                },
            ),
            {"predictor": 1, "worker": 2},
            {"gpu": 24, "pods": 3},
        ),
        (
            made(
                FLINK_V1,
                "FlinkDeployment",
                {
                    "flinkConfiguration": {"taskmanager": {"numberOfTaskSlots": 2}},
                    "jobManager": {"resources": {"requests": {"cpu": "1", "memory": "2048m"}}},
                    "taskManager": {"resources": {"requests": {"cpu": "1", "memory": "2048m"}}},
                    "job": {"parallelism": 3},
                },
            ),
            {"jobManager": 1, "taskManager": 2},
            {"cpu": 3000, "memory": 6 * GI, "pods": 3},
        ),
        (
            made(f"{STRIMZI}/v1beta2", "Kafka", {"kafka": {"replicas": 3, "resources": ASKS}}),
            {"kafka": 3},
            {"cpu": 3000, "memory": 6 * GI, "pods": 3},
        ),
        (
            made(f"{STRIMZI}/v1", "KafkaNodePool", {"replicas": 3, "resources": ASKS}),
            {"node": 3},
            {"cpu": 3000, "memory": 6 * GI, "pods": 3},
        ),
    ],
    ids=["model", "with a transformer", "on several nodes", "resources", "brokers", "pool"],
)
def test_the_room_of_forms_that_their_own_examples_have(body: Any, pods: Any, total: Any) -> None:
    parts = [each for each in parts_of(profile(body), body) if each.count]
    assert {each.name: each.count for each in parts} == pods
    request, _ = together(parts)
    assert {name.rpartition("/")[2]: n for name, n in request.items()} == total


@pytest.mark.proves("KD12")
@pytest.mark.parametrize(
    "body",
    [
        made(f"{STRIMZI}/v1", "Kafka", {"kafka": {"version": "4.3.1"}}),
        made("argoproj.io/v1alpha1", "Workflow", {"entrypoint": "main"}),
        made("tekton.dev/v1", "PipelineRun", {"pipelineRef": {"name": "build"}}),
    ],
    ids=lambda each: each["kind"],
)
def test_pods_of_unknown_number_take_no_room(body: Any) -> None:
    assert not [each for each in parts_of(profile(body), body) if each.count]


@pytest.mark.proves("KD33", "KD32")
@pytest.mark.parametrize("kind", ["PipelineRun", "TaskRun"])
def test_a_run_of_tekton_ends_by_its_one_condition(kind: str) -> None:
    body = made("tekton.dev/v1", kind, {})
    for said, result, ready in (
        ("Unknown", None, 1),
        ("True", Result.SUCCEEDED, 1),
        ("False", Result.FAILED, 0),
    ):
        found, counts = judged(body, conditions=conditions(Succeeded=said))
        assert (found.result, counts.ready) == (result, ready)
    assert judged(body)[1].ready == 0
    pending = made("tekton.dev/v1", kind, {"status": f"{kind}Pending"})
    assert judged(pending)[0].health is ShareHealth.SUSPENDED
    assert profile(body).once


def test_a_suspended_flink_job_and_a_pool_that_lacks_nodes_are_not_ready() -> None:
    body = made(FLINK_V1, "FlinkDeployment", {"job": {"state": "suspended"}})
    assert judged(body, lifecycleState="SUSPENDED")[0].health is ShareHealth.SUSPENDED
    pool = made(f"{STRIMZI}/v1", "KafkaNodePool", {"replicas": 3})
    for nodes, ready in ((2, 0), (3, 1)):
        assert judged(pool, observedGeneration=1, replicas=nodes)[1].ready == ready


@pytest.mark.proves("KD36")
def test_a_rollout_observes_its_generation_as_text() -> None:
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"replicas": 2}}
    said = {"observedGeneration": "5", "readyReplicas": 2, "updatedReplicas": 2}
    assert judged(body, 2, generation=5, **said)[1].ready == 2
    assert not judged(body, 2, generation=6, **said)[1].observed


@pytest.mark.proves("KD82")
def test_an_aborted_rollout_stays_where_it_is_whatever_its_health() -> None:
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"replicas": 2}}
    for phase in ("Degraded", "Healthy", "Paused"):
        found, _ = judged(body, 2, observedGeneration="1", phase=phase, abort=True)
        assert found.holds.startswith("its abort stands in its status alone")
    for said in ({}, {"abort": False}, {"abort": "true"}):
        assert not judged(body, 2, observedGeneration="1", **said)[0].holds


@pytest.mark.proves("KD37")
def test_a_postgres_cluster_that_lost_its_instances_is_not_ready_whatever_its_condition() -> None:
    body = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "spec": {"instances": 3}}
    found, counts = judged(body, readyInstances=0, conditions=conditions(Ready="True"))
    assert (counts.ready, counts.lasting, found.health) == (0, 0, ShareHealth.PROGRESSING)
    _, counts = judged(body, readyInstances=3, conditions=conditions(Ready="True"))
    assert (counts.ready, counts.lasting) == (1, 1)
    slept = {**body, "metadata": {"annotations": {"cnpg.io/hibernation": "on"}}}
    assert judged(slept, conditions=conditions(Ready="True"))[0].health is ShareHealth.SUSPENDED


@pytest.mark.proves("KD46")
def test_a_job_set_holds_the_claims_of_its_policies() -> None:
    def policy(*names: str) -> dict[str, Any]:
        return {"templates": [{"metadata": {"name": each}} for each in names]}

    policies = [policy("a", "b"), policy("c"), {"templates": "none"}, 7]
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    spec = {"replicatedJobs": [], "volumeClaimPolicies": policies}
    assert claims_in(profile(body), {**body, "spec": spec}) == ("a", "b", "c")
    assert claims_in(profile(body), {**body, "spec": {"volumeClaimPolicies": {}}}) == ()


def test_what_ends_or_has_data_runs_once() -> None:
    once = {each.kind for each in WELL_KNOWN if each.once}
    assert {"JobSet", "FlinkDeployment", "SparkApplication", "Job", "Cluster"} <= once
    assert not {"Rollout", "RayCluster", "LeaderWorkerSet"} & once


RAY_READY = conditions(HeadPodReady="True", RayClusterProvisioned="True")


@pytest.mark.parametrize(
    ("status", "ready", "why"),
    [
        ({}, 0, "conditions.RayClusterProvisioned is missing"),
        ({"conditions": RAY_READY, "desiredWorkerReplicas": 3}, 0, "status.?readyWorker"),
        (
            {"conditions": RAY_READY, "desiredWorkerReplicas": 3, "readyWorkerReplicas": 3},
            1,
            "",
        ),
        (
            {"conditions": [*RAY_READY, *conditions(ReplicaFailure="True")]},
            0,
            "conditions.?ReplicaFailure",
        ),
    ],
)
def test_a_ray_cluster_is_ready_with_all_of_its_workers(status: Any, ready: int, why: str) -> None:
    found, counts = judged(RAY, **status)
    assert counts.ready == ready
    assert found.message.startswith(why)


def test_how_a_job_set_a_spark_application_and_a_volcano_job_end() -> None:
    job = {"name": "w", "replicas": 2, "template": {"spec": {"template": {}}}}
    jobs = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"replicatedJobs": [job]},
    }
    runs = {"replicatedJobsStatus": [{"name": "w", "ready": 1, "succeeded": 1}]}
    assert judged(jobs, **runs)[1].ready == 1
    assert judged(jobs, replicatedJobsStatus=[{"name": "w", "ready": 1}])[1].ready == 0
    assert judged(jobs, conditions=conditions(Failed="True"))[0].result is Result.FAILED
    assert judged(jobs, conditions=conditions(Completed="True"))[1].succeeded == 1

    for state, result in (
        ("RUNNING", None),
        ("SUBMISSION_FAILED", None),
        ("COMPLETED", Result.SUCCEEDED),
        ("FAILED", Result.FAILED),
    ):
        assert judged(SPARK, applicationState={"state": state})[0].result is result

    flink = of("flink.apache.org/v1beta1", "FlinkDeployment", job={"jarURI": "local:///j"})
    assert judged(flink, jobStatus={"state": "FINISHED"})[0].result is Result.SUCCEEDED

    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": []}}
    aborted, _ = judged(volcano, state={"phase": "Aborted"})
    assert (aborted.health, aborted.result) == (ShareHealth.SUSPENDED, None)
    assert judged(volcano, state={"phase": "Terminated"})[0].result is Result.FAILED
    running = {"state": {"phase": "Running"}, "running": 2, "minAvailable": 2}
    assert judged(volcano, **running)[1].ready == 1
    assert judged(volcano, state={"phase": "Running"})[1].ready == 0


def of(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "spec": spec}


_WORKERS = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
_HALF = {"Master": {"active": 1}, "Worker": {"active": 2}}
_ALL = {"Master": {"active": 1}, "Worker": {"active": 2, "succeeded": 1}}
TRAINING = [
    of("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=_WORKERS),
    of("kubeflow.org/v1", "TFJob", tfReplicaSpecs=_WORKERS),
    of("kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs=_WORKERS),
    of("kubeflow.org/v1", "MPIJob", mpiReplicaSpecs=_WORKERS),
]


@pytest.mark.proves("KD33")
@pytest.mark.parametrize("body", TRAINING, ids=lambda each: f"{each['kind']} {each['apiVersion']}")
def test_a_training_job_is_ready_with_all_of_its_workers_and_ends(body: Any) -> None:
    running = conditions(Running="True")
    assert judged(body, conditions=running, replicaStatuses=_HALF)[1].ready == 0
    assert judged(body, conditions=running, replicaStatuses=_ALL)[1].ready == 1
    assert judged(body, conditions=running)[1].ready == 0
    for state, result in (("Succeeded", Result.SUCCEEDED), ("Failed", Result.FAILED)):
        assert judged(body, conditions=conditions(**{state: "True"}))[0].result is result
    found = profile(body)
    assert found.once
    assert found.ended.ttl == "spec.runPolicy.ttlSecondsAfterFinished"
    slept = {**body, "spec": {**body["spec"], "runPolicy": {"suspend": True}}}
    assert judged(slept, conditions=running)[0].health is ShareHealth.SUSPENDED


@pytest.mark.proves("KD33")
def test_where_what_ends_says_how_long_it_stays() -> None:
    ended = {(each.group, each.kind): each.ended for each in WELL_KNOWN}
    for group, kind, ttl, when in (
        ("jobset.x-k8s.io", "JobSet", "spec.ttlSecondsAfterFinished", TtlWhen.ENDED),
        ("batch.volcano.sh", "Job", "spec.ttlSecondsAfterFinished", TtlWhen.ENDED),
        ("argoproj.io", "Workflow", "spec.ttlStrategy", TtlWhen.ENDED),
        ("sparkoperator.k8s.io", "SparkApplication", "spec.timeToLiveSeconds", TtlWhen.CREATED),
    ):
        assert (ended[group, kind].ttl, ended[group, kind].ttl_when) == (ttl, when)


@pytest.mark.proves("KD33")
@pytest.mark.parametrize(
    ("deployment", "job", "result", "health"),
    [
        ("Running", "RUNNING", None, ShareHealth.HEALTHY),
        ("Running", "SUCCEEDED", None, ShareHealth.HEALTHY),
        ("Complete", "SUCCEEDED", Result.SUCCEEDED, ShareHealth.HEALTHY),
        ("Complete", "STOPPED", Result.FAILED, ShareHealth.DEGRADED),
        ("Complete", "FAILED", Result.FAILED, ShareHealth.DEGRADED),
        ("Failed", "RUNNING", Result.FAILED, ShareHealth.DEGRADED),
        ("Failed", None, Result.FAILED, ShareHealth.DEGRADED),
        ("ValidationFailed", None, None, ShareHealth.DEGRADED),
        ("Initializing", None, None, ShareHealth.PROGRESSING),
    ],
)
def test_a_ray_job_ends_by_both_of_its_fields(
    deployment: str, job: str | None, result: Result | None, health: ShareHealth
) -> None:
    said = {"jobDeploymentStatus": deployment, **({"jobStatus": job} if job else {})}
    found, _ = judged(of("ray.io/v1", "RayJob"), **said)
    assert (found.result, found.health) == (result, health)


@pytest.mark.proves("KD33")
def test_how_a_train_job_and_a_workflow_end() -> None:
    train = of("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert judged(train, jobsStatus=[{"name": "node", "ready": 0}])[1].ready == 0
    assert judged(train, jobsStatus=[{"name": "node", "ready": 1}])[1].ready == 1
    assert judged(train, conditions=conditions(Complete="True"))[0].result is Result.SUCCEEDED
    assert judged(train, conditions=conditions(Failed="True"))[0].result is Result.FAILED
    flow = of("argoproj.io/v1alpha1", "Workflow")
    for phase, result in (
        ("Running", None),
        ("Succeeded", Result.SUCCEEDED),
        ("Failed", Result.FAILED),
        ("Error", Result.FAILED),
    ):
        assert judged(flow, phase=phase)[0].result is result
    stopped = of("argoproj.io/v1alpha1", "Workflow", suspend=True)
    assert judged(stopped, phase="Running")[0].health is ShareHealth.SUSPENDED


_UP = conditions(Ready="True")


@pytest.mark.proves("KD86")
@pytest.mark.parametrize(
    ("body", "annotations"),
    [
        (of("postgresql.cnpg.io/v1", "Cluster"), {"cnpg.io/hibernation": "on"}),
        (of("helm.toolkit.fluxcd.io/v2", "HelmRelease", suspend=True), {}),
        (of("keda.sh/v1alpha1", "ScaledObject"), {"autoscaling.keda.sh/paused": "true"}),
        (of("keda.sh/v1alpha1", "ScaledObject"), {"autoscaling.keda.sh/paused-replicas": "0"}),
    ],
    ids=["Cluster", "HelmRelease", "ScaledObject paused", "ScaledObject paused at a number"],
)
def test_what_its_own_controller_holds_is_suspended_whatever_its_condition_says(
    body: Any, annotations: Any
) -> None:
    held = {**body, "metadata": {"annotations": annotations}}
    for generation in (1, 2):
        said = {"conditions": _UP, "readyInstances": 1, "observedGeneration": 2}
        found, counts = judged(held, generation=generation, **said)
        assert (found.health, counts.ready) == (ShareHealth.SUSPENDED, 0)
    free = {**body, "spec": {}}
    assert judged(free, conditions=_UP, readyInstances=1)[1].ready == 1


@pytest.mark.parametrize(
    "body",
    [
        of("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
        of("cert-manager.io/v1", "Certificate"),
        of("keda.sh/v1alpha1", "ScaledObject"),
        of("kafka.strimzi.io/v1beta2", "Kafka"),
        of("serving.kserve.io/v1beta1", "InferenceService"),
        of("ray.io/v1", "RayService"),
    ],
    ids=lambda each: each["kind"],
)
def test_what_is_ready_by_its_condition_is_so_by_one_of_its_own_generation(body: Any) -> None:
    assert judged(body, conditions=_UP)[1].ready == 1
    older = [{"type": "Ready", "status": "True", "observedGeneration": 1}]
    found, counts = judged(body, generation=2, conditions=older)
    assert (counts.ready, found.health) == (0, ShareHealth.UNKNOWN)
    assert judged(body)[0].health is ShareHealth.UNKNOWN


_MODEL = {"model": {"resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}}}
_TRAINER = {
    "numNodes": 4,
    "resourcesPerNode": {"requests": {"cpu": 3}, "limits": {"memory": "1Gi"}},
}


@pytest.mark.parametrize(
    ("body", "pods", "total"),
    [
        (
            of("ray.io/v1", "RayJob", rayClusterSpec=RAY["spec"]),
            {"head": 1, "tpu": 8, "auto": 3, "submitter": 1},
            {"cpu": 90_500, "pods": 13},
        ),
        (
            of("ray.io/v1", "RayJob", rayClusterSpec=RAY["spec"], submissionMode="HTTPMode"),
            {"head": 1, "tpu": 8, "auto": 3},
            {"cpu": 90_000, "pods": 12},
        ),
        (
            of("ray.io/v1", "RayService", rayClusterConfig=RAY["spec"]),
            {"head": 1, "tpu": 8, "auto": 3},
            {"cpu": 90_000, "pods": 12},
        ),
        (
            of(
                "kubeflow.org/v1",
                "PyTorchJob",
                pytorchReplicaSpecs={"Worker": {"replicas": 3, "template": one_pod(cpu="2")}},
            ),
            {"Worker": 3},
            {"cpu": 6_000, "pods": 3},
        ),
        (
            of("trainer.kubeflow.org/v1alpha1", "TrainJob", trainer=_TRAINER),
            {"node": 4},
            {"cpu": 12_000, "memory": 4 * GI, "pods": 4},
        ),
        (of("trainer.kubeflow.org/v1alpha1", "TrainJob", trainer={"numNodes": 4}), {}, {}),
        (
            of(
                "kafka.strimzi.io/v1beta2",
                "Kafka",
                kafka={"replicas": 3, "resources": {"requests": {"cpu": "1"}}},
            ),
            {"kafka": 3},
            {"cpu": 3_000, "pods": 3},
        ),
        (
            of(
                "serving.kserve.io/v1beta1",
                "InferenceService",
                predictor={"minReplicas": 0, **_MODEL},
            ),
            {"predictor": 1},
            {"cpu": 2_000, "gpu": 1, "pods": 1},
        ),
    ],
    ids=lambda each: each.get("kind", "") if "kind" in each else None,
)
def test_the_pods_of_further_kinds(body: Any, pods: Any, total: Any) -> None:
    parts = [each for each in parts_of(profile(body), body) if each.count]
    assert {each.name: each.count for each in parts} == pods
    request, _ = together(parts)
    found = {name.rpartition("/")[2]: n for name, n in request.items() if n}
    assert {name: n for name, n in found.items() if name in {"cpu", *total}} == total


@pytest.mark.proves("KD2")
@pytest.mark.parametrize(
    ("version", "kind", "replicas"),
    [
        ("apps.kruise.io/v1beta1", "StatefulSet", "spec.replicas"),
        ("batch.volcano.sh/v1alpha1", "Job", ""),
        ("serving.knative.dev/v1", "Service", ""),
    ],
)
def test_a_kind_of_another_group_is_read_by_its_own_profile(
    version: str, kind: str, replicas: str
) -> None:
    found = profile_of(version, kind)
    assert found.known
    assert found.replicas_path == replicas
    assert not found.ordered


@pytest.mark.proves("KD8")
@pytest.mark.parametrize("name", sorted(hostile_objects()))
def test_a_hostile_object_is_never_ready_and_its_neighbours_are_judged(name: str) -> None:
    found = judge(GADGET, hostile_objects()[name], generation=1)
    assert counts_of(found, 1).ready == 0
    assert found.message
    if name in ("4 MiB", "50,000 conditions", "200 KB and 1,000 names"):
        assert found.health is ShareHealth.UNKNOWN
    up = [{"type": "Up", "status": "True"}]
    good = {"metadata": {}, "spec": {"size": 1}, "status": {"up": [1], "conditions": up}}
    assert counts_of(judge(GADGET, good, generation=1), 1).ready == 1


@pytest.mark.proves("KD7")
def test_an_expression_that_fails_on_one_object_fails_on_that_alone() -> None:
    said = {"up": 3, "conditions": [{"type": "Up", "status": "True"}]}
    found = judge(GADGET, {"metadata": {}, "spec": {"size": 1}, "status": said}, generation=1)
    assert (found.health, counts_of(found, 1).ready) == (ShareHealth.UNKNOWN, 0)
    assert found.message.startswith("size(status.up): No matching overloads found")
