"""Each kind of reference of a pod, and values that are none."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.types.pod_references import (
    Reference,
    governing_service,
    pull_secrets,
    references,
)

VOLUMES: dict[str, tuple[dict[str, Any], str]] = {
    "configMap": ({"configMap": {"name": "it"}}, "ConfigMap"),
    "secret": ({"secret": {"secretName": "it"}}, "Secret"),
    "projected configMap": (
        {"projected": {"sources": [{"configMap": {"name": "it"}}]}},
        "ConfigMap",
    ),
    "projected secret": ({"projected": {"sources": [{"secret": {"name": "it"}}]}}, "Secret"),
    "claim": ({"persistentVolumeClaim": {"claimName": "it"}}, "PersistentVolumeClaim"),
    "csi": ({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "it"}}}, "Secret"),
    "azureFile": ({"azureFile": {"secretName": "it", "shareName": "s"}}, "Secret"),
    **{
        type_: ({type_: {"secretRef": {"name": "it"}}}, "Secret")
        for type_ in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
    },
}
VARIABLES: dict[str, tuple[dict[str, Any], str]] = {
    "envFrom configMapRef": ({"envFrom": [{"configMapRef": {"name": "it"}}]}, "ConfigMap"),
    "envFrom secretRef": ({"envFrom": [{"secretRef": {"name": "it"}}]}, "Secret"),
    "configMapKeyRef": (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "it", "key": "k"}}}]},
        "ConfigMap",
    ),
    "secretKeyRef": (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "it", "key": "k"}}}]},
        "Secret",
    ),
}


@pytest.mark.parametrize("which", VOLUMES)
def test_a_volume_names_its_object(which: str) -> None:
    volume, kind = VOLUMES[which]
    assert references({"volumes": [{"name": "v", **volume}]}) == [Reference(kind, "it")]


@pytest.mark.parametrize("field", ["initContainers", "containers", "ephemeralContainers"])
@pytest.mark.parametrize("which", VARIABLES)
def test_a_container_of_each_sort_names_its_objects(field: str, which: str) -> None:
    container, kind = VARIABLES[which]
    assert references({field: [{"name": "c", **container}]}) == [Reference(kind, "it")]


def test_the_account_and_its_older_field() -> None:
    runner = [Reference("ServiceAccount", "runner")]
    assert references({"serviceAccountName": "runner"}) == runner
    assert references({"serviceAccount": "runner"}) == runner
    assert references({"serviceAccountName": "runner", "serviceAccount": "runner"}) == runner


def test_pull_secrets_of_a_pod_and_of_an_account() -> None:
    body = {"imagePullSecrets": [{"name": "pull"}, {}, {"name": "other"}]}
    assert [*pull_secrets(body)] == references(body)
    assert [each.name for each in references(body)] == ["pull", "other"]


def test_the_service_of_a_statefulset() -> None:
    assert [*governing_service("db")] == [Reference("Service", "db")]
    assert not [*governing_service("")]
    assert not [*governing_service(None)]


def test_each_object_comes_once_where_it_is_named_first() -> None:
    pod = {
        "volumes": [
            {"name": "a", "secret": {"secretName": "s"}},
            {"name": "b", "configMap": {"name": "s"}},
        ],
        "containers": [
            {"envFrom": [{"secretRef": {"name": "s"}}, {"secretRef": {"name": "t"}}]},
        ],
        "serviceAccountName": "runner",
    }
    assert [each[:2] for each in references(pod)] == [
        ("ServiceAccount", "runner"),
        ("Secret", "s"),
        ("ConfigMap", "s"),
        ("Secret", "t"),
    ]


def test_an_object_is_optional_where_each_mention_says_so() -> None:
    def pod(first: bool, second: bool) -> dict[str, Any]:
        return {
            "volumes": [{"name": "a", "configMap": {"name": "c", "optional": first}}],
            "containers": [{"envFrom": [{"configMapRef": {"name": "c", "optional": second}}]}],
        }

    assert references(pod(True, True)) == [Reference("ConfigMap", "c", optional=True)]
    assert references(pod(True, False)) == [Reference("ConfigMap", "c")]
    assert references(pod(False, True)) == [Reference("ConfigMap", "c")]


@pytest.mark.parametrize(
    "pod",
    [
        None,
        [],
        "pod",
        {},
        {"volumes": None, "containers": None, "imagePullSecrets": None},
        {"volumes": {"configMap": {"name": "c"}}, "containers": "main"},
        {
            "volumes": [
                None,
                {"configMap": None},
                {"configMap": {"name": 1}},
                {"configMap": {"name": ""}},
            ]
        },
        {"volumes": [{"projected": {"sources": None}}, {"csi": {"nodePublishSecretRef": "x"}}]},
        {"containers": [{"env": [{"valueFrom": None}, {"value": "x"}], "envFrom": [{}]}]},
        {"serviceAccountName": 7},
        {"serviceAccountName": "../../kube-system/serviceaccounts/x"},
        {
            "imagePullSecrets": [
                {"name": "A"},
                {"name": "a" * 254},
                {"name": "a b"},
                {"name": "a\n"},
            ]
        },
        {"volumes": [{"emptyDir": {}}, {"hostPath": {"path": "/"}}, {"ephemeral": {}}]},
    ],
)
def test_what_has_another_form_names_nothing(pod: Any) -> None:
    assert references(pod) == []
