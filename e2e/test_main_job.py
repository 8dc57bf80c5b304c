"""The main job: a Workload on the hub becomes objects on its members, and its state comes back."""

from __future__ import annotations

import base64
import json

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


@pytest.mark.long
@pytest.mark.proves("C32", "K30", "K31")
def test_the_template_passes_through_and_drift_is_repaired(
    playground: Playground, namespace: str
) -> None:
    template = deployment("app", replicas=2)
    template["spec"]["template"]["spec"] |= {
        "terminationGracePeriodSeconds": 7,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "schedulerName": "default-scheduler",
    }
    template["spec"]["template"]["metadata"]["annotations"] = {"example.com/note": "kept"}
    playground.hub.apply(workload("app", namespace, targetDeployment=template))
    status = playground.until_running(namespace, "app")
    member = status["placements"][0]["cluster"]

    landed = playground.seen(member, namespace, "app")
    assert landed is not None
    pods, asked = landed["spec"]["template"], template["spec"]["template"]
    assert pods["metadata"]["annotations"] == asked["metadata"]["annotations"]
    assert set(pods["metadata"]["labels"]) - set(asked["metadata"]["labels"]) == {
        "stowage.dev/workload-uid"
    }
    for key, value in asked["spec"].items():
        if key != "containers":
            assert pods["spec"][key] == value

    playground.members[member]("-n", namespace, "scale", "deploy/app", "--replicas=5")
    wait(
        "the drift to be repaired",
        lambda: (playground.seen(member, namespace, "app") or {})["spec"]["replicas"] == 2,
    )
    template["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.9"
    playground.hub.apply(workload("app", namespace, targetDeployment=template))
    wait(
        "the new image to reach the member",
        lambda: (playground.seen(member, namespace, "app") or {})["spec"]["template"]["spec"][
            "containers"
        ][0]["image"].endswith(":3.9"),
    )


@pytest.mark.long
@pytest.mark.proves("W3")
def test_a_workload_scales_like_anything_else(playground: Playground, namespace: str) -> None:
    playground.hub.apply(workload("scaled", namespace))
    member = playground.until_running(namespace, "scaled")["placements"][0]["cluster"]
    playground.hub("-n", namespace, "scale", "wl/scaled", "--replicas=4")
    wait(
        "four replicas",
        lambda: (
            (status := playground.status(namespace, "scaled")).get("ready") == 4
            and status["desired"] == 4
        ),
    )
    assert playground.placements(namespace, "scaled") == {member: 4}
    scale = json.loads(
        playground.hub(
            "get",
            "--raw",
            f"/apis/stowage.dev/v1alpha1/namespaces/{namespace}/workloads/scaled/scale",
        )
    )
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (4, 4)
    playground.hub("-n", namespace, "autoscale", "wl/scaled", "--min=2", "--max=6", "--cpu=80%")
    assert playground.hub.exists("-n", namespace, "hpa", "scaled")


@pytest.mark.long
@pytest.mark.proves("C27", "C28")
def test_connection_secrets_travel_ahead_and_rotate(playground: Playground, namespace: str) -> None:
    for name in ("first", "second"):
        playground.hub.apply(
            workload(
                name,
                namespace,
                targetCluster={"name": "member-1"},
                resources=[{"name": "database", "secretName": "db-credentials"}],
            )
        )
    playground.until_condition(namespace, "first", "Propagated", reason="SecretNotFound")
    assert playground.seen("member-1", namespace, "first") is None

    def create(password: str) -> None:
        playground.hub.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "db-credentials", "namespace": namespace},
                "stringData": {"password": password},
            }
        )

    def copied() -> str:
        secret = playground.seen(
            "member-1", namespace, "db-credentials", version="v1", kind="Secret"
        )
        return base64.b64decode(secret["data"]["password"]).decode() if secret else ""

    create("one")
    playground.until_running(namespace, "first")
    playground.until_running(namespace, "second")
    assert copied() == "one"
    create("two")
    wait("the rotated Secret", lambda: copied() == "two")

    playground.hub("-n", namespace, "delete", "wl", "first")
    assert copied() == "two"
    playground.hub("-n", namespace, "delete", "wl", "second")
    wait("the Secret to go with its last Workload", lambda: not copied())


@pytest.mark.long
@pytest.mark.proves("C30", "C2")
def test_deleting_a_workload_cleans_its_members(playground: Playground, namespace: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"mode": "fast"},
    }
    playground.hub.apply(workload("gone", namespace, distribution="Duplicated", manifests=[config]))
    playground.until_running(namespace, "gone")
    assert set(playground.placements(namespace, "gone")) == set(playground.members)
    for member in playground.members:
        assert playground.seen(member, namespace, "settings", version="v1", kind="ConfigMap")
    playground.hub("-n", namespace, "delete", "wl", "gone")
    for member in playground.members:
        assert playground.seen(member, namespace, "gone") is None
        assert not playground.seen(member, namespace, "settings", version="v1", kind="ConfigMap")


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
    playground.until_running(namespace, "it")
    firsts = []
    for member in playground.members:
        landed = playground.seen(member, namespace, "it", version=template["apiVersion"], kind=kind)
        assert landed is not None
        firsts.append(landed["spec"].get("ordinals", {}).get("start", 0))
    if kind == "StatefulSet":
        ranges = [set(range(first, first + 2)) for first in firsts]
        assert len(set.union(*ranges)) == 2 * len(playground.members)


@pytest.mark.long
@pytest.mark.proves("D4")
def test_a_custom_kind_runs_by_its_replica_path(playground: Playground, namespace: str) -> None:
    group = f"{namespace}.example.com"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"rollouts.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "rollouts", "singular": "rollout", "kind": "Rollout"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    rollout = {
        "apiVersion": f"{group}/v1",
        "kind": "Rollout",
        "metadata": {"name": "it"},
        "spec": {"size": {"workers": 3}, "colour": "blue"},
    }
    playground.hub.apply(
        workload(
            "it",
            namespace,
            template=rollout,
            replicasPath="spec.size.workers",
            targetCluster={"name": "member-1"},
        )
    )
    refusal = playground.until_condition(namespace, "it", "Propagated", reason="Rejected")
    assert "Rollout" in refusal["message"]
    playground.members["member-1"].apply(crd)
    try:
        wait(
            "the custom object, once its kind exists",
            lambda: playground.seen(
                "member-1", namespace, "it", version=f"{group}/v1", kind="Rollout"
            ),
        )
        playground.hub("-n", namespace, "scale", "wl/it", "--replicas=5")
        wait(
            "the custom object to be scaled",
            lambda: (
                (
                    playground.seen(
                        "member-1", namespace, "it", version=f"{group}/v1", kind="Rollout"
                    )
                    or {}
                )["spec"]
                == {"size": {"workers": 5}, "colour": "blue"}
            ),
        )
    finally:
        playground.hub("-n", namespace, "delete", "wl", "it")
        playground.members["member-1"]("delete", "crd", f"rollouts.{group}")


@pytest.mark.long
@pytest.mark.proves("D1", "C4", "C10")
def test_a_secret_alone_registers_a_cluster(playground: Playground, namespace: str) -> None:
    """The Secret's cluster is member-3: a cluster is served under one name at a time."""
    before = playground.hub.get("secret", "member-3", namespace="stowage-system")
    data = {"data": before["data"], "type": before["type"]}
    kubeconfig = base64.b64decode(before["data"]["kubeconfig"]).decode()
    playground.hub.apply(
        workload("waiting", namespace, targetCluster={"name": "late"}),
    )
    status = playground.until_state(namespace, "waiting", "Failed")
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "FailedToSchedule"
    assert "cluster late not found" in failed["message"]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "late",
            "namespace": "stowage-system",
            "labels": {"stowage.dev/register": "true", "tier": "gold"},
        },
        "stringData": {"kubeconfig": kubeconfig},
    }
    playground.hub("-n", "stowage-system", "delete", "secret", "member-3")
    playground.hub("annotate", "mc", "member-3", "stowage.dev/unjoin=GivenUp")
    playground.hub("delete", "mc", "member-3")
    try:
        playground.hub.apply(secret)
        wait("Ready=True", lambda: playground.ready("late")["status"] == "True", timeout=30)
        labels = playground.hub.get("mc", "late")["metadata"]["labels"]
        assert labels["tier"] == "gold"
        assert labels["stowage.dev/cluster"] == "late"
        assert labels["stowage.dev/provider"]
        assert labels["stowage.dev/version"].startswith("v1.")
        playground.until_running(namespace, "waiting")
    finally:
        playground.hub("-n", namespace, "delete", "wl", "waiting")
        playground.hub("-n", "stowage-system", "delete", "secret", "late")
        wait(
            "Ready=False, SecretNotFound",
            lambda: playground.ready("late")["reason"] == "SecretNotFound",
        )
        playground.hub("annotate", "mc", "late", "stowage.dev/unjoin=GivenUp")
        playground.hub("delete", "mc", "late")
        meta = {key: before["metadata"][key] for key in ("name", "namespace", "labels")}
        playground.hub.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, **data})
        wait("Ready=True", lambda: playground.ready("member-3")["status"] == "True")
