"""Overrides laid over an object: order, both kinds of patches, variables, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from crds.fields.overrides import MOST_BYTES
from machinery.overrides.override import (
    ClusterOverride,
    OverrideMisfit,
    UnreadableOverrides,
    cluster_overrides_of,
    matching,
    overridden,
)
from machinery.overrides.variables import ClusterFacts

PODS = ("spec", "template")
EU = {"topology.kubernetes.io/region": "eu"}
MEMBER = ClusterFacts.of("member-2", EU, provider="", version="")


def web() -> dict[str, Any]:
    main = {"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [main, {"name": "side", "image": "side:1"}]},
            },
        },
    }


def override(name: str = "eu", **said: Any) -> ClusterOverride:
    body = {"name": name, "clusterSelector": {"matchLabels": EU}, **said}
    return msgspec.convert(body, ClusterOverride)


def pods(**container: Any) -> dict[str, Any]:
    """A merge patch of the container main."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


def laid(*overrides: ClusterOverride, body: dict[str, Any] | None = None) -> dict[str, Any]:
    return overridden(
        web() if body is None else body, overrides, MEMBER, pods=PODS, replicas_path="spec.replicas"
    )


def main_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.proves("O1")
def test_a_patch_changes_the_field_that_it_names_and_nothing_else() -> None:
    body = web()
    found = laid(override(patch=pods(args=["--region=eu"])), body=body)
    assert body == web()
    wanted = web()
    main_of(wanted)["args"] = ["--region=eu"]
    assert found == wanted


@pytest.mark.proves("O1")
def test_a_selector_matches_labels_the_cluster_by_its_name_and_every_cluster() -> None:
    by_name = {"matchExpressions": [{"key": "stowage.dev/cluster", "operator": "In"}]}
    by_name["matchExpressions"][0]["values"] = ["member-2"]
    all_ = [
        override("eu", patch={}),
        override("us", clusterSelector={"matchLabels": {"topology.kubernetes.io/region": "us"}}),
        override("named", clusterSelector=by_name),
        override("every", clusterSelector={}),
    ]
    assert [each.name for each in matching(all_, MEMBER.labels)] == ["eu", "named", "every"]


@pytest.mark.proves("Q9")
def test_labels_alone_select_as_match_labels() -> None:
    alone = {"topology.kubernetes.io/region": "us"}
    all_ = [override("eu", clusterSelector=EU), override("us", clusterSelector=alone)]
    assert [each.name for each in matching(all_, MEMBER.labels)] == ["eu"]


@pytest.mark.proves("O2")
def test_the_later_of_two_wins_and_patches_of_different_fields_both_hold() -> None:
    first = override("first", patch=pods(image="nginx:2", args=["one"]))
    then = override("then", patch=pods(image="nginx:3", env=[{"name": "B", "value": "2"}]))
    found = main_of(laid(first, then))
    assert (found["image"], found["args"]) == ("nginx:3", ["one"])
    assert [each["name"] for each in found["env"]] == ["B", "A"]
    assert main_of(laid(then, first))["image"] == "nginx:2"


@pytest.mark.proves("O4")
@pytest.mark.parametrize(
    ("said", "path"),
    [
        (
            {"jsonPatch": [{"op": "replace", "path": "/spec/template/spec/containers/3/image"}]},
            "/spec/template/spec/containers/3/image: no such item",
        ),
        (
            {"jsonPatch": [{"op": "test", "path": "/metadata/labels/app", "value": "other"}]},
            "/metadata/labels/app: is not what the test says",
        ),
        (
            {"jsonPatch": [{"op": "remove", "path": "/spec/template/spec/hostNetwork"}]},
            "/spec/template/spec/hostNetwork: no such item",
        ),
        (
            {"jsonPatch": [{"op": "add", "path": "/spec/minReadySeconds"}]},
            "/spec/minReadySeconds: add cannot be done there",
        ),
        (
            {"patch": {"spec": {"template": {"spec": {"containers": [{"name": "web"}]}}}}},
            "spec.template.spec.containers[0]: no container 'web' in the template",
        ),
        (
            {"patch": {"spec": {"template": {"spec": {"containers": "none"}}}}},
            "spec.template.spec.containers: must be a list",
        ),
        (
            {"patch": {"metadata": {"labels": {"a": 1}}}},
            "metadata.labels.a: must be a string",
        ),
        (
            {"patch": {"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}},
            "spec.template.metadata.labels.app: must stay web",
        ),
        (
            {"patch": {"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}]}}}}},
            "spec.template.spec.containers: the patch leaves no container",
        ),
    ],
)
def test_what_does_not_fit_names_the_override_and_the_path(said: dict[str, Any], path: str) -> None:
    for operation in said.get("jsonPatch", ()):
        if operation["op"] == "replace":
            operation["value"] = "x"
    with pytest.raises(OverrideMisfit) as found:
        laid(override(**said))
    assert found.value.override == "eu"
    assert path in str(found.value)


@pytest.mark.proves("O4")
def test_a_failed_test_quotes_no_value() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "canary"}}
    for operation in (
        {"op": "test", "path": "/data/key", "value": "other"},
        {"op": "replace", "path": "/data/none/x", "value": "other"},
    ):
        with pytest.raises(OverrideMisfit) as found:
            overridden(body, [override(jsonPatch=[operation])], MEMBER)
        assert "canary" not in str(found.value)


@pytest.mark.proves("O8")
@pytest.mark.parametrize(
    "patch",
    [
        {"apiVersion": "v1"},
        {"kind": "Job"},
        {"metadata": {"name": "other"}},
        {"metadata": {"namespace": "other"}},
        {"metadata": {"name": None}},
        {"spec": {"replicas": 7}},
        {"spec": {"selector": {"matchLabels": {"b": "c"}}}},
        {"spec": {"selector": None}},
        {"spec": {"serviceName": "x"}},
        {"spec": {"ordinals": {"start": 3}}},
    ],
)
def test_what_the_object_is_stays(patch: dict[str, Any]) -> None:
    with pytest.raises(OverrideMisfit, match="may not touch it"):
        laid(override(patch=patch))


@pytest.mark.proves("O8")
def test_the_units_of_a_custom_kind_stay_and_those_of_a_manifest_are_its_own() -> None:
    body = {"apiVersion": "ml.example/v1", "kind": "Train", "spec": {"workers": {"count": 3}}}
    more = override(patch={"spec": {"workers": {"count": 5}}})
    with pytest.raises(OverrideMisfit, match=r"spec\.workers\.count"):
        overridden(body, [more], MEMBER, replicas_path="spec.workers.count")
    assert overridden(body, [more], MEMBER)["spec"]["workers"]["count"] == 5


@pytest.mark.proves("O2")
def test_a_custom_kind_is_merged_as_rfc_7386_says() -> None:
    body = {"apiVersion": "ml.example/v1", "kind": "Train", "spec": {"a": [1, 2], "b": {"c": 1}}}
    said = override(patch={"spec": {"a": [3], "b": {"c": None, "d": 2}}})
    found = overridden(body, [said], MEMBER)
    assert found["spec"] == {"a": [3], "b": {"d": 2}}
    assert body["spec"] == {"a": [1, 2], "b": {"c": 1}}


@pytest.mark.proves("O14")
def test_the_ports_of_a_service_are_merged_by_their_number() -> None:
    ports = [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]
    body = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": copy.deepcopy(ports)}}
    said = override(patch={"spec": {"ports": [{"port": 443, "nodePort": 30443}]}})
    found = overridden(body, [said], MEMBER)["spec"]["ports"]
    assert found == [ports[0], {**ports[1], "nodePort": 30443}]


@pytest.mark.proves("O11")
def test_variables_are_the_name_and_the_labels_of_the_cluster() -> None:
    values = {
        "NAME": "$(stowage.cluster)",
        "REGION": "in $(stowage.label:topology.kubernetes.io/region)",
        "LITERAL": "$$(stowage.cluster)",
        "KUBELET": "$(HOME) $$(HOME)",
    }
    env = [{"name": name, "value": value} for name, value in values.items()]
    found = {
        each["name"]: each["value"] for each in main_of(laid(override(patch=pods(env=env))))["env"]
    }
    assert found["NAME"] == "member-2"
    assert found["REGION"] == "in eu"
    assert found["LITERAL"] == "$(stowage.cluster)"
    assert found["KUBELET"] == "$(HOME) $$(HOME)"
    path = "/spec/template/spec/containers/1/image"
    said = override(jsonPatch=[{"op": "replace", "path": path, "value": "x/$(stowage.cluster)"}])
    assert laid(said)["spec"]["template"]["spec"]["containers"][1]["image"] == "x/member-2"
    assert said.varies
    assert not override(patch=pods(args=["$(HOME)"])).varies


@pytest.mark.proves("O11")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("$(stowage.label:zone)", "the cluster has no label zone"),
        ("$(stowage.zone)", r"\$\(stowage.zone\) is no variable"),
    ],
)
def test_a_label_that_is_missing_is_no_empty_string(value: str, text: str) -> None:
    with pytest.raises(OverrideMisfit, match=text):
        laid(override(patch=pods(args=[value])))


def test_overrides_that_are_no_overrides_are_told() -> None:
    with pytest.raises(UnreadableOverrides, match=r"spec\.overrides: "):
        cluster_overrides_of(b'[{"name": "eu"}]')
    with pytest.raises(UnreadableOverrides, match=f"{MOST_BYTES} at most"):
        cluster_overrides_of(b" " * (MOST_BYTES + 1))
    assert cluster_overrides_of(b"") == cluster_overrides_of(b"null") == ()


def test_a_deep_patch_is_refused_before_it_is_walked() -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(OverrideMisfit, match="nested deeper"):
        laid(override(patch={"spec": deep}))
    said = override(jsonPatch=[{"op": "add", "path": "/spec/x", "value": deep}])
    with pytest.raises(OverrideMisfit, match="nested deeper"):
        laid(said)


def test_an_object_that_is_too_deep_for_a_copy_is_told() -> None:
    deep: Any = {}
    for _ in range(3000):
        deep = {"a": deep}
    body = {**web(), "extra": deep}
    said = override(jsonPatch=[{"op": "add", "path": "/metadata/annotations", "value": {}}])
    with pytest.raises(OverrideMisfit, match="nested too deep"):
        laid(said, body=body)


@pytest.mark.proves("O4")
@pytest.mark.parametrize(
    "path", ["/metadata/labels", "/metadata/annotations", "/spec/template/metadata"]
)
def test_metadata_of_another_form_is_no_fit(path: str) -> None:
    with pytest.raises(OverrideMisfit, match="must be a mapping"):
        laid(override(jsonPatch=[{"op": "add", "path": path, "value": "text"}]))
