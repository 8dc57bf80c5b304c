"""`stowage kinds`, `kinds try`, and WorkloadKinds in the files of plan and explain."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.errors import ConfigurationError
from stowage.cli import cli
from tests.kindsof import FLINK, LEADER_WORKERS, RAY, SPARK, pods
from tests.stowage.importing import written
from tests.stowage.plain_hub import PlainHub, serving

KIND: dict[str, Any] = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "WorkloadKind",
    "metadata": {"name": "gadget.example.com"},
    "spec": {
        "group": "example.com",
        "kind": "Gadget",
        "versions": ["v1"],
        "replicas": {"path": "spec.size"},
        "pods": [{"name": "core", "template": "spec.core", "count": "spec.cores"}],
        "ready": {"replicas": "status.up", "when": ["status.phase == 'Still'"]},
    },
}
GADGET: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Gadget",
    "metadata": {"name": "g"},
    "spec": {"size": 2, "cores": 3, "core": pods(cpu="1")},
}


def workload(template: Any, name: str = "w", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def cluster(name: str, nodes: int, **free: str) -> dict[str, Any]:
    free = {"memory": "64Gi", "pods": "110", **free}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeGroups": [{"count": nodes, "free": free}],
            "capacity": {"nodes": nodes, "allocatable": free, "requested": {}},
        },
    }


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, *objects: Any) -> str:
        path = self._folder / name
        path.write_text(written(*objects))
        return str(path)


@pytest.fixture
def write(tmp_path: Path) -> Files:
    return Files(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.proves("KD6")
def test_try_prints_what_a_kind_makes_of_an_object(write: Files) -> None:
    told = run("kinds", "try", "-f", write("ray.yaml", RAY))
    assert told.exit_code == 0
    assert told.stdout == (
        "RayCluster ray.io/v1: whole, 12 pods, cpu 90\n"
        "head 1 x cpu 2 · tpu 8 x cpu 8 · auto 3 x cpu 8\n"
        "ready: no, conditions.RayClusterProvisioned is missing\n"
    )


@pytest.mark.proves("KD6")
@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({}, "ready: 0 of 2, status.phase is missing"),
        ({"up": 1, "phase": "Still"}, "ready: 1 of 2"),
        ({"up": 2, "phase": "Still"}, "ready: yes"),
        (
            {"up": 2, "phase": "Still", "observedGeneration": 1},
            "ready: 2 of 2, its status is of an older generation",
        ),
    ],
)
def test_try_reads_an_object_by_the_kind_beside_it(write: Files, status: Any, ready: str) -> None:
    there = {**GADGET, "metadata": {"name": "g", "generation": 2}, "status": status}
    told = run("kinds", "try", "-f", write("g.yaml", there), "-f", write("kind.yaml", KIND))
    assert told.stdout.splitlines() == [
        "Gadget example.com/v1: 2 replicas, 6 pods, cpu 6",
        "core 3 x cpu 1",
        ready,
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (GADGET, "Gadget example.com/v1: unknown, no WorkloadKind says what it is"),
        ({**RAY, "apiVersion": "ray.io/v9"}, "RayCluster ray.io/v9: unknown, known are v1"),
        (
            {**RAY, "spec": {"workerGroupSpecs": 3}},
            "RayCluster ray.io/v1: spec.template.spec.workerGroupSpecs: must be a list",
        ),
        (
            {**RAY, "spec": {"headGroupSpec": {"template": {"spec": {"containers": "c"}}}}},
            "RayCluster ray.io/v1: spec.template.spec.headGroupSpec.template.spec.containers: ",
        ),
    ],
)
def test_try_fails_for_what_is_not_known_or_malformed(write: Files, body: Any, says: str) -> None:
    told = run("kinds", "try", "-f", write("x.yaml", body))
    assert told.exit_code == 1
    assert says in told.stdout


@pytest.mark.proves("KD6")
def test_try_reads_a_workload_as_explain_does(write: Files) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": "none", "spec": {}}
    kind = {**KIND, "spec": {**KIND["spec"], "pods": []}}
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    alone = workload(None, "c", manifests=[named])
    del alone["spec"]["template"]
    told = run("kinds", "try", "-f", write("w.yaml", workload(widget, replicas=7), alone, kind))
    assert told.stdout.splitlines()[0] == "Gadget example.com/v1: 7 replicas"
    assert told.stdout.splitlines()[-2:] == ["ConfigMap v1: whole", "ready: yes"]
    assert told.exit_code == 0


def test_a_kind_that_cannot_be_used_is_refused_with_its_file(write: Files) -> None:
    wrong = copy.deepcopy(KIND)
    wrong["spec"]["degraded"] = "status.phase =="
    told = run("kinds", "try", "-f", write("kind.yaml", wrong, GADGET))
    assert isinstance(told.exception, ConfigurationError)
    assert "kind.yaml, document 1: WorkloadKind gadget.example.com: spec.degraded: 1:16" in str(
        told.exception
    )


@pytest.mark.proves("KD12", "KD14")
@pytest.mark.parametrize(
    ("template", "replicas", "line"),
    [
        (LEADER_WORKERS, 3, "a replica: worker 3 x cpu 8, nvidia.com/gpu 8 · leader 1 x cpu 1"),
        (RAY, 1, "runs whole: tpu 8 x cpu 8 · auto 3 x cpu 8 · head 1 x cpu 2"),
        (
            FLINK,
            1,
            "runs whole: jobManager 1 x cpu 1, memory 2Gi · taskManager 3 x cpu 500m, memory 4Gi",
        ),
        (
            SPARK,
            1,
            "runs whole: driver 1 x cpu 1, memory 896Mi · executor 3 x cpu 500m, memory 5734Mi",
        ),
    ],
    ids=["LeaderWorkerSet", "RayCluster", "FlinkDeployment", "SparkApplication"],
)
def test_explain_tells_the_pods_of_a_replica(
    write: Files, template: Any, replicas: int, line: str
) -> None:
    fleet = write("fleet.yaml", cluster("m1", 20, cpu="16", **{"nvidia.com/gpu": "8"}))
    asked = ("explain", "wl/w", "-f", write("w.yaml", workload(template)), "--fleet", fleet)
    assert line in run(*asked).stdout.splitlines()
    found = json.loads(run(*asked, "-o", "json").stdout)
    profile = found["profile"]
    assert found["assigned"] == profile["replicas"] == replicas
    assert profile["whole"] is line.startswith("runs whole")
    told = {
        f"{each['name']} {each['count']} x "
        + ", ".join(f"{name} {amount}" for name, amount in each["requests"].items())
        for each in profile["pods"]
    }
    assert told == {*line.partition(": ")[2].split(" · ")}


@pytest.mark.proves("KD6", "KD14")
def test_explain_tells_of_a_workload_that_runs_its_profile_and_the_health_of_each_share(
    write: Files,
) -> None:
    there = workload(RAY)
    there["status"] = {
        "placements": [{"cluster": "m1", "replicas": 1}],
        "clusters": [{"name": "m1", "replicas": 1, "health": "Progressing"}],
    }
    fleet = write("fleet.yaml", cluster("m1", 20, cpu="16"), cluster("m2", 20, cpu="16"), there)
    found = json.loads(run("explain", "wl/w", "--fleet", fleet, "-o", "json").stdout)
    assert found["profile"]["whole"]
    assert {each["name"]: each["count"] for each in found["profile"]["pods"]} == {
        "tpu": 8,
        "auto": 3,
        "head": 1,
    }
    assert {each["name"]: each.get("health") for each in found["clusters"]} == {
        "m1": "Progressing",
        "m2": None,
    }
    assert "runs whole: tpu 8 x cpu 8" in run("explain", "wl/w", "--fleet", fleet).stdout


@pytest.mark.proves("KD4")
def test_plan_takes_a_kind_of_its_files_as_the_hubs(write: Files) -> None:
    fleet = write("fleet.yaml", cluster("m1", 1, cpu="8"))
    made = write("w.yaml", workload(GADGET, distribution="Divided"), KIND)
    told = run("plan", "-f", made, "--fleet", fleet, "-o", "json")
    (found,) = json.loads(told.stdout)["workloads"]
    assert (found["desired"], found["assigned"]) == (2, 2)
    larger = copy.deepcopy(KIND)
    larger["spec"]["pods"][0]["count"] = "spec.cores * 2"
    there = write("fleet.yaml", cluster("m1", 1, cpu="8"), KIND)
    made = write("w.yaml", larger, workload(GADGET, distribution="Divided"))
    told = run("plan", "-f", made, "--fleet", there, "-o", "json")
    (found,) = json.loads(told.stdout)["workloads"]
    assert found["assigned"] == 1


@pytest.mark.proves("KD1", "KD5")
def test_kinds_lists_what_is_known_and_where_from(tmp_path: Path) -> None:
    hub = PlainHub()
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    hub.workloads = [workload(deployment, "a"), workload(deployment, "b"), workload(RAY, "r")]
    with serving(hub.answer, tmp_path) as file:
        there = ("--kubeconfig", str(file))
        told = run("kinds", *there)
        rows = {tuple(line.split()[:2]): line.split() for line in told.stdout.splitlines()}
        assert told.exit_code == 0
        deployments = "v1 spec.replicas 1 yes no no no built-in 2"
        assert rows["Deployment", "apps"][2:] == deployments.split()
        ray = "v1 whole 2 yes no no no built-in 1"
        assert rows["RayCluster", "ray.io"][2:] == ray.split()
        assert rows["Job", "batch"][2:9] == [
            "v1",
            "spec.parallelism",
            "1",
            "yes",
            "yes",
            "yes",
            "no",
        ]

        own = copy.deepcopy(KIND)
        own["metadata"]["name"] = "raycluster.ray.io"
        own["spec"] |= {"group": "ray.io", "kind": "RayCluster", "versions": ["v1alpha1"]}
        hub.workloadkinds = [own]
        told = run("kinds", *there)
        rows = {tuple(line.split()[:2]): line.split() for line in told.stdout.splitlines()}
        assert told.exit_code == 1
        lines = [line for line in told.stdout.splitlines() if line.startswith("RayCluster")]
        assert lines[0].split()[-2:] == ["hub", "0"]
        first = told.stdout.splitlines()[1]
        assert first.startswith("Deployment"), "those with Workloads come first"
        assert lines[1].split()[2:] == ["v1", "-", "0", "no", "no", "-", "-", "unknown", "1"]
        assert "v1 is not one of its known versions: v1alpha1" in told.stdout

        hub.workloadkinds = []
        assert run("kinds", *there).exit_code == 0
