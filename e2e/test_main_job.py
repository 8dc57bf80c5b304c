"""The main job: a Workload on the hub becomes objects on its members, and its state comes back."""

from __future__ import annotations

import pytest

from e2e.harness import Playground, deployment, pod_template, wait, workload


@pytest.mark.proves("C3", "C5", "C26", "C31", "C35", "D2")
def test_a_workload_becomes_a_deployment_and_a_service(
    playground: Playground, namespace: str
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    template = deployment("web", replicas=3)
    playground.hub.apply(
        workload(
            "web",
            namespace,
            targetDeployment=template,
            targetService=service,
            targetCluster={"name": "member-2"},
        )
    )
    status = playground.until_running(namespace, "web")

    assert status["placements"] == [{"cluster": "member-2", "replicas": 3}]
    assert (status["desired"], status["assigned"], status["pending"]) == (3, 3, 0)
    assert status["clusterRef"]["name"] == "member-2"
    assert status["clusterRef"]["kind"] == "MemberCluster"
    assert status["ready"] == 3
    landed = playground.seen("member-2", namespace, "web")
    assert landed is not None
    assert landed["spec"]["replicas"] == 3
    assert playground.seen("member-2", namespace, "web", version="v1", kind="Service")
    assert playground.seen("member-1", namespace, "web") is None

    columns = playground.hub("-n", namespace, "get", "wl", "web").splitlines()
    assert columns[0].split() == [
        "NAME", "STATE", "CLUSTERS", "DESIRED", "ASSIGNED", "READY", "AGE",
    ]  # fmt: skip
    assert columns[1].split()[:6] == ["web", "Running", "member-2=3", "3", "3", "3/3"]
    wide = playground.hub("-n", namespace, "get", "wl", "web", "-o", "wide").splitlines()[0]
    for column in ("PENDING", "NAMESPACE", "DEPLOYMENT", "SERVICE-EXTERNAL-IP"):
        assert column in wide


KINDS = {
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "it"},
        "spec": {
            "replicas": 2,
            "serviceName": "it",
            "selector": {"matchLabels": {"app": "it"}},
            "template": pod_template("it"),
        },
    },
    "ReplicaSet": {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "it"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "it"}},
            "template": pod_template("it"),
        },
    },
    "DaemonSet": {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "it"},
        "spec": {"selector": {"matchLabels": {"app": "it"}}, "template": pod_template("it")},
    },
    "Job": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "it"},
        "spec": {"parallelism": 2, "template": pod_template("it", restartPolicy="Never")},
    },
    "CronJob": {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "it"},
        "spec": {
            "schedule": "0 3 * * *",
            "jobTemplate": {"spec": {"template": pod_template("it", restartPolicy="Never")}},
        },
    },
}


@pytest.mark.long
@pytest.mark.proves("D4", "K28")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_runs_on_every_cluster(
    playground: Playground, namespace: str, kind: str
) -> None:
    template = KINDS[kind]
    playground.hub.apply(workload("it", namespace, template=template, distribution="Duplicated"))
    # kwok ends the pods of a Job at once.
    runs = ("Running", "Complete") if kind == "Job" else ("Running",)
    wait("it to run", lambda: playground.status(namespace, "it").get("state") in runs)
    firsts = []
    for member in playground.members:
        landed = playground.seen(member, namespace, "it", version=template["apiVersion"], kind=kind)
        assert landed is not None
        firsts.append(landed["spec"].get("ordinals", {}).get("start", 0))
    if kind == "StatefulSet":
        ranges = [set(range(first, first + 2)) for first in firsts]
        assert len(set.union(*ranges)) == 2 * len(playground.members)
