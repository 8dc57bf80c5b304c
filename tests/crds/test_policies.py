"""WorkloadPolicy: what is refused, alike by a real API server and in Python, and what is filled in."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from crds.admission import validation

BASE: dict[str, Any] = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "WorkloadPolicy",
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {
        "topologyKey": "topology.kubernetes.io/zone",
        "labelSelector": {"matchLabels": {"app": "demo"}},
        "allocationPolicy": [{"name": "member", "replicas": 1}, {"name": "host", "replicas": 3}],
    },
}
GONE = object()
A = {"name": "a", "replicas": 1}
OUTSIDE = {"key": "a", "operator": "Outside"}
REFUSED = [
    ("K4", "topologyKey", GONE, "spec.topologyKey"),
    ("K4", "topologyKey", "", "spec.topologyKey"),
    ("K4", "topologyKey", "a b", "spec.topologyKey"),
    ("K5", "labelSelector", GONE, "spec.labelSelector"),
    ("K5", "labelSelector", {"matchExpressions": [OUTSIDE]}, "matchExpressions[0].operator"),
    ("K6", "allocationPolicy", GONE, "spec.allocationPolicy"),
    ("K6", "allocationPolicy", [], "spec.allocationPolicy"),
    ("K6", "allocationPolicy", [A, A], "spec.allocationPolicy"),
    ("K6", "allocationPolicy", [{"name": "a", "replicas": -1}], "allocationPolicy[0].replicas"),
    ("K6", "allocationPolicy", [{"name": "a"}], "allocationPolicy[0].replicas"),
    ("K6", "allocationPolicy", [{"name": "", "replicas": 1}], "allocationPolicy[0].name"),
    ("K7", "allocationType", "require", "spec.allocationType"),
    ("K10", "allocationMethod", "Fair", "spec.allocationMethod"),
    ("K10", "scheduleStrategy", {"type": "Fixed"}, "spec.scheduleStrategy"),
]
each = pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        pytest.param(f, v, n, marks=pytest.mark.proves(k), id=f"{f} {v}"[:40])
        for k, f, v, n in REFUSED
    ],
)


def policy(**spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(BASE)
    for field, value in spec.items():
        if value is GONE:
            del body["spec"][field]
        else:
            body["spec"][field] = value
    return body


def dry(hub: Any, body: dict[str, Any]) -> str:
    return hub.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(body), check=False)


@each
def test_it_is_refused_and_the_field_named(hub, field, value, named):
    answer = dry(hub, policy(**{field: value}))
    assert "created (server dry run)" not in answer
    assert named in answer
    assert any(named in text for text in validation.policy_violations(policy(**{field: value})))


@pytest.mark.proves("K7", "K10")
def test_the_allowed_values_are_named(hub):
    answer = dry(hub, policy(allocationType="require"))
    assert '"Required", "Preferred"' in answer
    answer = dry(hub, policy(allocationMethod="fill"))
    assert '"Fill", "Balance"' in answer


@pytest.mark.proves("K5", "K6")
def test_what_is_good_is_taken(hub):
    expression = {"key": "app", "operator": "In", "values": ["x", "y"]}
    for spec in (
        {},
        {"labelSelector": {}},
        {"labelSelector": {"matchExpressions": [expression]}},
        {"allocationPolicy": [{"name": "a", "replicas": 0}]},
        {"allocationMethod": "Fill", "scheduleStrategy": "Fill"},
    ):
        assert "created (server dry run)" in dry(hub, policy(**spec)), spec
        assert validation.policy_violations(policy(**spec)) == []


@pytest.mark.proves("K1")
def test_it_is_a_kind_of_namespaces_with_a_short_name(tenant):
    listed = tenant.kubectl("api-resources", "--namespaced=true", "--no-headers")
    line = next(each.split() for each in listed.splitlines() if "workloadpolicies" in each)
    assert line[:2] == ["workloadpolicies", "wlp"]
    tenant.kubectl("create", "namespace", f"{tenant.namespace}-too")
    for namespace in (tenant.namespace, f"{tenant.namespace}-too"):
        meta = {"name": "demo", "namespace": namespace}
        tenant.hub.kubectl("apply", "-f", "-", input=json.dumps(BASE | {"metadata": meta}))
    uids = tenant.hub.kubectl("get", "wlp", "-A", "-o", "jsonpath={.items[*].metadata.uid}")
    assert len(set(uids.split())) >= 2


@pytest.mark.proves("K7", "K10")
@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({}, "Balance"),
        ({"scheduleStrategy": "Fill"}, "Fill"),
        ({"scheduleStrategy": "Balance"}, "Balance"),
        ({"allocationMethod": "Fill"}, "Fill"),
        ({"allocationMethod": "Fill", "scheduleStrategy": "Fill"}, "Fill"),
    ],
)
def test_the_stored_object_always_shows_its_method_and_type(tenant, given, stored):
    body = policy(**given) | {"metadata": {"name": "demo", "namespace": tenant.namespace}}
    tenant.apply(body)
    spec = tenant.get("demo", "wlp")["spec"]
    assert (spec["allocationMethod"], spec["allocationType"]) == (stored, "Preferred")
    written = body["spec"] | validation.normalised_policy(body).get("spec", {})
    assert written["allocationMethod"] == stored


@pytest.mark.proves("K10")
@pytest.mark.parametrize("how", [(), ("--server-side",)])
def test_an_edited_alias_takes_the_method_with_it(tenant, how):
    def said(**spec: Any) -> dict[str, Any]:
        return policy(**spec) | {"metadata": {"name": "demo", "namespace": tenant.namespace}}

    def stored() -> str:
        return tenant.get("demo", "wlp")["spec"]["allocationMethod"]

    tenant.apply(said(scheduleStrategy="Fill"), *how)
    assert stored() == "Fill"
    tenant.apply(said(scheduleStrategy="Balance"), *how)
    assert stored() == "Balance"
    tenant.apply(said(), *how)
    assert stored() == "Balance"
    tenant.apply(said(scheduleStrategy="Fill"), *how)
    assert stored() == "Fill"
    both = said(scheduleStrategy="Fill", allocationMethod="Balance")
    answer = tenant.apply(both, *how, check=False)
    assert "spec.scheduleStrategy" in answer
    assert "is another name of allocationMethod" in answer
    assert any("scheduleStrategy" in text for text in validation.policy_violations(both))
    assert stored() == "Fill"


@pytest.mark.proves("K32")
def test_its_columns(tenant):
    tenant.apply(BASE | {"metadata": {"name": "demo", "namespace": tenant.namespace}})
    status = {"workloads": 1, "summary": "member=1/1,host=3/3"}
    tenant.kubectl(
        "patch", "wlp", "demo", "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip
    head, row = tenant.kubectl("get", "wlp", "demo").splitlines()
    assert head.split() == ["NAME", "TOPOLOGY", "TYPE", "METHOD", "WORKLOADS", "ALLOCATED", "AGE"]
    assert row.split()[1:6] == [
        "topology.kubernetes.io/zone",
        "Preferred",
        "Balance",
        "1",
        "member=1/1,host=3/3",
    ]
