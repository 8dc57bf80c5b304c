"""Objects of well-known kinds, as their authors write them: those of the worked examples."""

from __future__ import annotations

from typing import Any

from machinery.kinds.profile import Profile, Ready, Replicas


def pods(**requests: str) -> dict[str, Any]:
    """A pod template of one container that asks for that."""
    asks = {name.replace("gpu", "nvidia.com/gpu"): amount for name, amount in requests.items()}
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": asks}}]}}


LEADER_WORKERS: dict[str, Any] = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "llm"},
    "spec": {
        "replicas": 3,
        "leaderWorkerTemplate": {
            "size": 4,
            "leaderTemplate": pods(cpu="1"),
            "workerTemplate": pods(cpu="8", gpu="8"),
        },
    },
}
"""A replica is 4 pods, 25 cpu and 24 gpu."""

RAY: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "ray"},
    "spec": {
        "headGroupSpec": {"template": pods(cpu="2")},
        "workerGroupSpecs": [
            {"groupName": "tpu", "replicas": 2, "numOfHosts": 4, "template": pods(cpu="8")},
            {"groupName": "auto", "minReplicas": 3, "template": pods(cpu="8")},
        ],
    },
}
"""12 pods, 90 cpu."""

FLINK: dict[str, Any] = {
    "apiVersion": "flink.apache.org/v1beta1",
    "kind": "FlinkDeployment",
    "metadata": {"name": "flink"},
    "spec": {
        "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"},
        "jobManager": {"resource": {"cpu": 1, "memory": "2048m"}},
        "taskManager": {"resource": {"cpu": 0.5, "memory": "4g"}},
        "job": {"jarURI": "local:///job.jar", "parallelism": 5},
    },
}
"""4 pods, 2.5 cpu, 14Gi."""

SPARK: dict[str, Any] = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "spark"},
    "spec": {
        "type": "Python",
        "driver": {"cores": 1, "memory": "512m"},
        "executor": {"instances": 3, "cores": 1, "coreRequest": "500m", "memory": "4g"},
    },
}
"""896Mi and three times 5734Mi, 2.5 cpu."""


GADGET = Profile(
    group="example.com",
    kind="Gadget",
    versions=("v1",),
    replicas=Replicas("spec.size"),
    ready=Ready(
        replicas="size(status.up)",
        when=(
            "status.conditions.exists(c, c.type == 'Up' && c.status == 'True')",
            "spec.size >= status.?least.orValue(0)",
            "!status.?names.orValue([]).exists(n, status.text.contains(n))",
        ),
    ),
    degraded="status.conditions.exists(c, c.type == 'Down')",
)
"""A kind that expressions judge."""


def hostile_objects() -> dict[str, Any]:
    """Objects of that kind by which a member would hold the loop up."""
    conditions = [{"type": f"T{n}", "status": "False"} for n in range(50_000)]
    deep: Any = "x"
    for _ in range(56):
        deep = {"a": deep}
    wide = {"a" * 9 + str(n): deep for n in range(60)}
    texts = ["x" * 1000] * 4000
    return {
        "4 MiB": _gadget(up=[], texts=texts),
        "50,000 conditions": _gadget(up=[], conditions=conditions),
        "2,500 conditions": _gadget(up=[], conditions=conditions[:2500]),
        "64 levels": _gadget(up=[], conditions=[], deep=wide),
        "200 KB and 1,000 names": _gadget(
            up=[1],
            conditions=[{"type": "Up", "status": "True"}],
            text="a" * 200_000,
            names=["a" * 30 + "b"] * 1000,
        ),
    }


def _gadget(**status: Any) -> dict[str, Any]:
    meta = {"name": "g", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 1}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": meta,
        "spec": {"size": 1},
        "status": status,
    }
