"""What of a hub's object is copied, what never is, and what a template names. In memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from machinery.types.pod_references import Reference
from propagator.dependencies.copies import (
    CLOUD_IDENTITIES,
    NEVER,
    body_of,
    refusal,
    refusal_of_name,
)
from propagator.dependencies.named import named_by
from propagator.types.hub_objects import (
    HubConfigMap,
    HubObject,
    HubSecret,
    HubService,
    HubServiceAccount,
)


def read(type_: type[HubObject], **body: Any) -> Any:
    metadata = {"name": "it", "namespace": "shop", "resourceVersion": "7", **body.pop("meta", {})}
    return msgspec.convert({"metadata": metadata, **body}, type_)


@pytest.mark.proves("DP4")
def test_a_config_map_and_a_secret_are_copied_whole() -> None:
    values = {"data": {"a": "1"}, "binaryData": {"b": "AAE="}, "immutable": True}
    copy = body_of(read(HubConfigMap, **values), identities=False)
    assert {key: copy[key] for key in values} == values
    assert copy["metadata"] == {"name": "it"}
    assert body_of(read(HubConfigMap), identities=False).keys() == {
        "apiVersion",
        "kind",
        "metadata",
    }
    values = {"data": {"a": "MQ=="}, "type": "kubernetes.io/tls", "immutable": True}
    copy = body_of(read(HubSecret, **values), identities=False)
    assert {key: copy[key] for key in values} == values
    assert "immutable" not in body_of(read(HubSecret), identities=False)


@pytest.mark.proves("DP13")
@pytest.mark.parametrize("identities", [False, True])
def test_an_account_leaves_its_tokens_and_most_annotations_behind(identities: bool) -> None:
    cloud = dict.fromkeys(CLOUD_IDENTITIES, "of-the-hub")
    account = read(
        HubServiceAccount,
        meta={
            "labels": {"team": "shop", "stowage.dev/managed": "true"},
            "annotations": {**cloud, "example.com/other": "x", "stowage.dev/hub": "u"},
        },
        secrets=[{"name": "token"}],
        imagePullSecrets=[{"name": "pull"}],
        automountServiceAccountToken=False,
    )
    copy = body_of(account, identities=identities)
    meta = {"name": "it", "labels": {"team": "shop"}}
    assert copy == {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": meta | ({"annotations": cloud} if identities else {}),
        "imagePullSecrets": [{"name": "pull"}],
        "automountServiceAccountToken": False,
    }


def test_a_service_leaves_behind_what_its_cluster_gave_it() -> None:
    spec = {
        "type": "NodePort",
        "clusterIP": "10.0.0.7",
        "clusterIPs": ["10.0.0.7"],
        "ipFamilies": ["IPv4"],
        "healthCheckNodePort": 30001,
        "selector": {"app": "db"},
        "ports": [{"port": 80, "nodePort": 30000}],
    }
    copy = body_of(read(HubService, spec=spec), identities=False)
    assert copy["spec"] == {
        "type": "NodePort",
        "selector": {"app": "db"},
        "ports": [{"port": 80}],
    }
    headless = body_of(read(HubService, spec={"clusterIP": "None"}), identities=False)
    assert headless["spec"] == {"clusterIP": "None"}


@pytest.mark.proves("DP11")
@pytest.mark.parametrize("type_", sorted(NEVER))
def test_tokens_never_travel(type_: str) -> None:
    assert refusal(read(HubSecret, type=type_)) == f"a Secret of type {type_} never travels"


@pytest.mark.proves("DP10", "DP11")
@pytest.mark.parametrize("type_", [HubConfigMap, HubSecret, HubService, HubServiceAccount])
def test_labels_keep_an_object_where_it_is(type_: type[HubObject]) -> None:
    def labelled(**labels: str) -> str:
        return refusal(read(type_, meta={"labels": labels}))

    assert not labelled()
    assert not labelled(**{"stowage.dev/follow": "true"})
    assert "stowage.dev/follow" in labelled(**{"stowage.dev/follow": "false"})
    assert labelled(**{"stowage.dev/register": ""}) == "it registers a cluster"


@pytest.mark.proves("DP11")
@pytest.mark.parametrize("namespace", ["kube-system", "kube-anything", "stowage-system"])
def test_nothing_of_the_hubs_own_namespaces_is_read(namespace: str) -> None:
    secret = Reference("Secret", "db")
    assert refusal_of_name(secret, namespace) == f"objects of {namespace} never travel"
    assert not refusal_of_name(secret, "shop")


@pytest.mark.proves("DP18")
def test_no_representation_shows_a_value() -> None:
    for type_, values in (
        (HubSecret, {"data": {"password": "canary"}}),
        (HubConfigMap, {"data": {"password": "canary"}}),
        (HubService, {"spec": {"externalName": "canary"}}),
    ):
        assert repr(read(type_, **values)) == f"{type_.__name__}(shop/it)"


def template(kind: str, *path: str, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"spec": {"volumes": [{"configMap": {"name": "settings"}}]}}
    for part in reversed(("spec", *path)):
        body = {part: body}
    body["spec"] |= spec
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    return {"apiVersion": f"{group}/v1", "kind": kind, **body}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job"])
def test_the_pods_of_each_kind_are_found(kind: str) -> None:
    assert named_by(template(kind, "template")) == [Reference("ConfigMap", "settings")]


def test_those_of_a_cron_job_and_of_no_known_kind() -> None:
    cron = template("CronJob", "jobTemplate", "spec", "template")
    assert named_by(cron) == [Reference("ConfigMap", "settings")]
    assert named_by(template("Thing", "template")) == []
    assert named_by({}) == []


@pytest.mark.proves("KD16")
def test_each_sort_of_pods_names_what_it_needs() -> None:
    def pods(name: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"envFrom": [{"configMapRef": {"name": name}}]}]}}

    groups = [{"groupName": each, "template": pods(each)} for each in ("a", "b")]
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "spec": {"headGroupSpec": {"template": pods("head")}, "workerGroupSpecs": groups},
    }
    assert named_by(ray) == [Reference("ConfigMap", name) for name in ("head", "a", "b")]


def test_pods_that_are_told_by_their_requests_name_nothing() -> None:
    pods = {"spec": {"volumes": [{"configMap": {"name": "settings"}}]}}
    for api, kind, spec in (
        ("argoproj.io/v1alpha1", "Workflow", pods["spec"]),
        ("flink.apache.org/v1beta1", "FlinkDeployment", {"podTemplate": pods}),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", pods["spec"]),
    ):
        assert named_by({"apiVersion": api, "kind": kind, "spec": spec}) == []


def test_a_stateful_set_names_its_service_and_default_is_no_account() -> None:
    body = template("StatefulSet", "template", serviceName="db")
    body["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    assert named_by(body) == [Reference("Service", "db"), Reference("ConfigMap", "settings")]
    assert named_by(template("Deployment", "template", serviceName="db")) == [
        Reference("ConfigMap", "settings")
    ]
