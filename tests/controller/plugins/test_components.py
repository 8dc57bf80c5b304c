"""Room of replicas with several sorts of pods, each of which lies where it fits."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from controller.model.place import Part, Place, together
from controller.snapshot.builder import SnapshotBuilder
from controller.snapshot.nodegroups import at_most, lacking, most
from crds.names import BINDING_LABELS
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_POLICIES, WORKLOAD_QUOTAS, WORKLOADS
from tests.controller.make import cluster
from tests.controller.memory import Stage
from tests.kindsof import LEADER_WORKERS, RAY, pods

ROLLOUT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "r"},
    "spec": {"replicas": 10, "template": pods(cpu="4")},
}


def nodes(stage: Stage, name: str, number: int, **free: str) -> None:
    """A cluster of so many nodes with that much free on each."""
    free = {"memory": "64Gi", "pods": "110", **free}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeGroups": [{"count": number, "free": free}],
        "capacity": {"nodes": number, "allocatable": free, "requested": {}},
    }
    meta = {"name": name, "labels": {"name": name}}
    if any(each["metadata"]["name"] == name for each in stage.hub.all(MEMBER_CLUSTERS)):
        stage.hub.edit(MEMBER_CLUSTERS, name, {"status": status}, status=True)
        return
    stage.hub.put(MEMBER_CLUSTERS, {"metadata": meta, "spec": {}, "status": status})


def create(stage: Stage, template: Any, **spec: Any) -> None:
    more = {"targetDeployment": None, "template": template, "replicas": None, **spec}
    stage.workload("w", **more)


@pytest.mark.proves("KD11")
@pytest.mark.parametrize("distribution", ["Single", "Divided"])
async def test_a_custom_kind_goes_where_its_pods_fit(distribution: str) -> None:
    stage = Stage()
    nodes(stage, "a", 2, cpu="500m")
    nodes(stage, "b", 4, cpu="16")
    async with stage.leading() as controller:
        create(stage, ROLLOUT, distribution=distribution)
        await stage.until(lambda: stage.placed("w") == {"b": 10})
        found = await controller.diagnosis(("shop", "w"))
        (refused,) = [each for each in found["clusters"] if each["name"] == "a"]
        assert "insufficient cpu" in str(refused)


@pytest.mark.proves("KD12")
@pytest.mark.parametrize(("number", "held"), [(6, 2), (9, 3), (8, 2)])
async def test_a_group_of_leader_and_workers_is_on_a_cluster_as_a_whole(
    number: int, held: int
) -> None:
    stage = Stage()
    nodes(stage, "m", number, cpu="16", **{"nvidia.com/gpu": "8"})
    async with stage.leading():
        create(stage, LEADER_WORKERS, distribution="Divided")
        await stage.until(lambda: stage.placed("w") == {"m": held})
        said = stage.says("w")[2]
        assert ("1 cluster has no room for 3 worker of another replica" in said) is (held < 3)


@pytest.mark.proves("KD12")
async def test_one_pod_less_of_room_is_pending_with_the_component() -> None:
    stage = Stage()
    nodes(stage, "m", 11, cpu="8")  # eleven workers, and no head
    async with stage.leading():
        create(stage, RAY)
        await stage.until(lambda: stage.says("w")[0] == "False")
        assert "no room for 1 head of each replica" in stage.says("w")[2]
        nodes(stage, "m", 10, cpu="10")  # ten workers of eleven, and the head
        await stage.until(lambda: "no room for 3 auto of each replica" in stage.says("w")[2])
        nodes(stage, "m", 11, cpu="10")
        await stage.until(lambda: stage.placed("w") == {"m": 1})


@pytest.mark.proves("KD12")
async def test_a_quota_counts_all_pods_of_the_replicas() -> None:
    stage = Stage()
    nodes(stage, "m", 100, cpu="64", **{"nvidia.com/gpu": "8"})
    hard = {"requests.cpu": "200", "requests.nvidia.com/gpu": "200"}
    quota = {"metadata": {"name": "q", "namespace": "shop"}, "spec": {"hard": hard}}
    stage.hub.put(WORKLOAD_QUOTAS, quota)
    async with stage.leading():
        create(stage, LEADER_WORKERS, distribution="Divided")
        await stage.until(lambda: stage.placed("w") == {"m": 3})
        used = lambda: stage.hub.read(WORKLOAD_QUOTAS, "q")["status"]["used"]  # noqa: E731 - asked again
        await stage.until(lambda: used().get("requests.cpu") == "75")
        assert used()["requests.nvidia.com/gpu"] == "72"


@pytest.mark.proves("KD13")
async def test_an_override_of_one_component_changes_the_room_there_alone() -> None:
    stage = Stage()
    for name in ("a", "b"):
        nodes(stage, name, 12, cpu="8")
    path = "/spec/workerGroupSpecs/1/template/spec/containers/0/resources/requests/cpu"
    larger = {
        "name": "larger",
        "clusterSelector": {"name": "a"},
        "jsonPatch": [{"op": "replace", "path": path, "value": "16"}],
    }
    async with stage.leading():
        create(stage, RAY, overrides=[larger], distribution="Duplicated")
        await stage.until(lambda: stage.placed("w") == {"b": 1})


@pytest.mark.proves("KD14")
async def test_a_whole_kind_is_not_divided() -> None:
    stage = Stage()
    nodes(stage, "m", 12, cpu="8")
    async with stage.leading():
        create(stage, RAY, distribution="Divided")
        await stage.until(lambda: stage.says("w")[1] == "InvalidWorkload")
        assert "a RayCluster runs whole" in stage.says("w")[2]


@pytest.mark.proves("KD14")
async def test_a_policy_that_binds_a_whole_kind_has_it_run_whole() -> None:
    stage = Stage()
    for name in ("a", "b"):
        nodes(stage, name, 12, cpu="8")
    policy = {
        "topologyKey": "name",
        "labelSelector": {"matchLabels": {"app": "w"}},
        "allocationPolicy": [{"name": each, "replicas": 1} for each in ("a", "b")],
    }
    named = {"name": "p", "namespace": "shop"}
    stage.hub.put(WORKLOAD_POLICIES, {"metadata": named, "spec": policy})
    async with stage.leading():
        labels = {"app": "w", BINDING_LABELS[0]: "p"}
        create(stage, RAY, labels=labels)
        await stage.until(lambda: sum(stage.placed("w").values()) == 1)
        assert stage.says("w")[2] == "1 of 1 replicas have a cluster"


async def test_what_is_decided_and_not_yet_counted_takes_its_room() -> None:
    stage = Stage()
    nodes(stage, "m", 12, cpu="8")
    async with stage.leading():
        create(stage, RAY)
        await stage.until(lambda: stage.placed("w") == {"m": 1})
        other = copy.deepcopy(RAY)
        more = {"targetDeployment": None, "template": other, "replicas": None, "created": 1}
        stage.workload("x", **more)
        await stage.until(lambda: stage.says("x")[0] == "False")
        assert stage.placed("x") == {}


def test_no_more_replicas_fit_than_the_pods_of_them_do() -> None:
    """Beside a count of each replica by hand, over many small fleets."""
    dice = np.random.default_rng(7)
    for _ in range(40):
        free = [int(n) for n in dice.integers(1, 9, size=4)]
        parts = [
            Part(
                f"p{at}",
                int(dice.integers(1, 4)),
                (("cpu", 1000 * int(dice.integers(1, 5))),),
                Place(),
            )
            for at in range(3)
        ]
        ordered = together(parts)[1].parts
        groups = _groups(free)
        found = int(most(groups, ordered, at_most(groups, ordered, 1))[0])
        assert found == _by_hand(free, ordered), (free, ordered)
        assert lacking(groups, ordered, np.array([found]))[0] == -1


def _groups(free: list[int]) -> Any:
    builder = SnapshotBuilder()
    listed = [{"count": 1, "free": {"cpu": str(n), "pods": "99"}} for n in free]
    builder.upsert(cluster("m", groups=listed))
    return builder.snapshot().groups


def _by_hand(free: list[int], parts: Any) -> int:
    for replicas in range(99):
        left = [n * 1000 for n in free]
        for part in parts:
            asked = dict(part.request)["cpu"]
            for _ in range(part.count * (replicas + 1)):
                at = next((i for i, n in enumerate(left) if n >= asked), None)
                if at is None:
                    return replicas
                left[at] -= asked
    raise AssertionError


@pytest.mark.proves("KD46")
async def test_data_that_is_held_always_stays_until_its_author_says_otherwise() -> None:
    stage = Stage()
    for name in ("a", "b"):
        nodes(stage, name, 4, cpu="8")
    cluster_ = {
        "apiVersion": "postgresql.cnpg.io/v1",
        "kind": "Cluster",
        "metadata": {"name": "db"},
        "spec": {"instances": 3, "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
    }
    async with stage.leading():
        create(stage, cluster_, clusterSelector={"name": "a"})
        await stage.until(lambda: stage.placed("w") == {"a": 1})
        stage.hub.edit(WORKLOADS, "w", {"spec": {"clusterSelector": {"name": "b"}}})
        await stage.until(lambda: stage.says("w", "Moving")[1] == "HoldsData")
        said = "a: w holds data; spec.movement.data: Leave lets it go without"
        assert stage.says("w", "Moving")[2].endswith(said)
        assert stage.placed("w") == {"a": 1}


@pytest.mark.proves("KD66")
async def test_a_replica_moves_for_a_pod_without_a_node_and_not_for_its_sum() -> None:
    stage = Stage()
    for name in ("a", "b"):
        nodes(stage, name, 12, cpu="8")
    async with stage.leading():
        create(stage, RAY, clusterSelector={"name": "a"})
        await stage.until(lambda: stage.placed("w") == {"a": 1})
        edited = copy.deepcopy(RAY)
        edited["spec"]["headGroupSpec"]["template"] = pods(cpu="3")
        stage.hub.edit(WORKLOADS, "w", {"spec": {"template": edited}})
        await stage.calm(10)
        assert "NoRoom" not in stage.says("w", "Moving")
        edited["spec"]["headGroupSpec"]["template"] = pods(cpu="9")
        stage.hub.edit(WORKLOADS, "w", {"spec": {"template": edited}})
        await stage.until(lambda: "no node of a has 9 cpu" in stage.says("w", "Moving")[2])
