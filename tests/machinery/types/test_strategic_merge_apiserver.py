"""Strategic merge, held against the API server's own."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS
from machinery.api.verbs import JSON
from machinery.kinds.paths import steps
from machinery.kinds.table import known_kind
from machinery.types.strategic_merge import CONTAINER_LISTS, merge, merge_keys
from stowage.playground.controlplanes import Cluster

STRATEGIC = "application/strategic-merge-patch+json"
PODS: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"a": "1"}},
    "spec": {
        "initContainers": [{"name": "init", "image": "init"}],
        "containers": [
            {
                "name": "main",
                "image": "nginx",
                "command": ["nginx", "-g"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"mountPath": "/data", "name": "data"}],
                "livenessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 5},
            },
            {"name": "side", "image": "side:1"},
        ],
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["one"]}],
        "imagePullSecrets": [{"name": "one"}],
        "nodeSelector": {"disk": "ssd"},
        "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
    },
}


def main(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


PATCHES = [
    {"metadata": {"labels": {"arch": "arm", "tier": None}}},
    {"metadata": {"annotations": {"$patch": "replace", "b": "2"}}},
    {"metadata": {"annotations": {"$patch": "delete"}}},
    main(resources={"limits": {"cpu": "500m", "memory": "800Mi"}}),
    main(env=[{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]),
    main(
        env=[{"name": "B", "value": "3"}, {"name": "C", "value": "4"}, {"name": "A", "value": "5"}]
    ),
    main(env=[{"name": "A", "$patch": "delete"}, {"name": "C", "value": "4"}]),
    main(env=[{"$patch": "replace"}, {"name": "C", "value": "4"}]),
    main(command=["sleep"], args=["1"]),
    main(command=None, livenessProbe=None),
    main(livenessProbe={"periodSeconds": 9, "initialDelaySeconds": None}),
    main(livenessProbe={"$patch": "replace", "httpGet": {"port": 80, "path": "/"}}),
    main(livenessProbe={"$retainKeys": ["httpGet"], "httpGet": {"port": 80, "path": "/"}}),
    main(ports=[{"containerPort": 443, "name": "https"}, {"containerPort": 81}]),
    main(volumeMounts=[{"mountPath": "/data", "name": "data", "readOnly": True}]),
    {"spec": {"containers": [{"name": "third", "image": "x"}]}},
    {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}},
    {"spec": {"containers": [{"$patch": "replace"}, {"name": "one", "image": "x"}]}},
    {"spec": {"initContainers": None, "nodeSelector": {"disk": None, "cpu": "fast"}}},
    {"spec": {"hostAliases": [{"ip": "192.0.2.1", "hostnames": ["two"]}, {"ip": "192.0.2.2"}]}},
    {"spec": {"imagePullSecrets": [{"name": "two"}]}},
    {"spec": {"securityContext": {"sysctls": [], "runAsUser": 7}}},
    {"spec": {"tolerations": [{"key": "other", "operator": "Exists"}]}},
    {
        "spec": {
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
                {"topologyKey": "host", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
            ]
        }
    },
    {
        "spec": {
            "volumes": [
                {"name": "data", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}},
                {"name": "more", "emptyDir": {}},
            ]
        }
    },
]


@pytest.fixture
async def client(apiserver: Cluster) -> AsyncIterator[ApiClient]:
    async with ApiClient(apiserver.connection(), name="merge") as client:
        yield client


@pytest.fixture
async def stored(client: ApiClient) -> AsyncIterator[dict[str, Any]]:
    """The Deployment as the server gives it back, with its defaults."""
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "merged", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": PODS},
    }
    yield await client.create(DEPLOYMENTS, body, namespace="default")
    await client.delete(DEPLOYMENTS, "merged", namespace="default")


@pytest.mark.proves("W11", "RB1")
async def test_the_server_makes_the_same_of_it(client: ApiClient, stored: dict[str, Any]) -> None:
    async def dry(method: str, body: dict[str, Any], content_type: str) -> dict[str, Any]:
        answer = await client.request(
            method,
            DEPLOYMENTS.path("default", "merged"),
            params={"dryRun": "All"},
            body=body,
            content_type=content_type,
        )
        return json.loads(answer)

    for patch in PATCHES:
        theirs = await dry("PATCH", {"spec": {"template": patch}}, STRATEGIC)
        ours = copy.deepcopy(stored)
        ours["spec"]["template"] = merge(stored["spec"]["template"], patch)
        told = await dry("PUT", ours, JSON)  # with its defaults
        assert told["spec"]["template"] == theirs["spec"]["template"], patch


CARRIED = (
    *(f"apps.v1.{kind}" for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
    *(f"batch.v1.{kind}" for kind in ("Job", "CronJob")),
    *(f"core.v1.{kind}" for kind in ("ConfigMap", "Secret", "Service", "ServiceAccount")),
    "core.v1.PersistentVolumeClaim",
    "autoscaling.v2.HorizontalPodAutoscaler",
    *(f"networking.v1.{kind}" for kind in ("Ingress", "NetworkPolicy")),
    "policy.v1.PodDisruptionBudget",
    *(f"rbac.v1.{kind}" for kind in ("Role", "RoleBinding")),
)
"""The kinds that Workloads bring along."""


@pytest.mark.proves("W11")
def test_every_list_that_the_servers_schema_merges_is_merged_by_its_key(
    apiserver: Cluster,
) -> None:
    found = json.loads(apiserver.kubectl("get", "--raw", "/openapi/v2"))["definitions"]
    theirs = dict(_merged(found, "io.k8s.api.core.v1.PodTemplateSpec", ()))
    for schema in CARRIED:
        group, _, kind = schema.split(".")
        pods = steps(known_kind(group, kind).pod_path)
        for path, key in _merged(found, f"io.k8s.api.{schema}", (kind,)):
            above = bool(pods) and path[1 : 1 + len(pods)] == pods
            if path[1] not in ("metadata", "status") and not above and "metadata" not in path:
                theirs[path] = key
    assert theirs == {path: keys[0] for path, keys in merge_keys().items()}


def _merged(
    definitions: dict[str, Any], name: str, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for field, schema in definitions[name].get("properties", {}).items():
        here = (*path, field)
        key = schema.get("x-kubernetes-patch-merge-key")
        if key and "merge" in schema.get("x-kubernetes-patch-strategy", ""):
            yield here, key
        inner = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
        if inner and (key or "items" not in schema) and len(here) < 8:
            yield from _merged(definitions, inner, here)


def test_the_lists_of_containers_are_known() -> None:
    assert {("spec", each) for each in CONTAINER_LISTS} <= set(merge_keys())
