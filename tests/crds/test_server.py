"""A real API server keeps good objects whole, fills in, prints and scales them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from crds.membercluster import MemberCluster
from crds.names import ANNOTATION_UNJOIN, GIVEN_UP

from .asking import refusal
from .bodies import body, read

FULL = read("full.yaml")


def test_the_policies_and_kinds_are_taken_without_a_warning(asking):
    policy = asking.list("ValidatingAdmissionPolicy")
    names = [p["metadata"]["name"] for p in policy]
    assert names == [
        "kinds.stowage.dev",
        "membermodes.stowage.dev",
        "membernamespaces.stowage.dev",
        "memberships.stowage.dev",
        "priorities.stowage.dev",
        "pulledmembers.stowage.dev",
        "reservations.stowage.dev",
        "workloadmarks.stowage.dev",
        "workloads.stowage.dev",
    ]
    for each in policy:
        assert not each.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
    for crd in asking.list("CustomResourceDefinition"):
        conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
        assert "NonStructuralSchema" not in conditions
        assert conditions["Established"] == "True"


@pytest.mark.proves("C2", "K30")
def test_every_field_is_kept_as_it_was_written(tenant):
    workload = FULL | {"metadata": FULL["metadata"] | {"namespace": tenant.namespace}}
    tenant.apply(workload)
    assert tenant.get("demo")["spec"] == workload["spec"]


@pytest.mark.proves("C2")
def test_a_workload_of_300_kilobytes_is_taken_whole(tenant):
    data = {f"key-{n}": "v" * 1000 for n in range(300)}
    manifests = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}}]
    workload = tenant.workload("big", manifests=[manifests[0] | {"data": data}])
    tenant.apply(workload)
    assert tenant.get("big")["spec"]["manifests"][0]["data"] == data
    data["key-0"] = "changed"
    tenant.apply(workload)
    assert tenant.get("big")["spec"]["manifests"][0]["data"] == data


@pytest.mark.proves("C21", "C24")
@pytest.mark.parametrize("given", [{}, {"schedulerName": ""}])
def test_defaults_are_stored(tenant, given):
    tenant.create(tenant.workload("plain", **given))
    spec = tenant.get("plain")["spec"]
    assert {k: v for k, v in spec.items() if k != "targetDeployment"} == {
        "schedulerName": "stowage",
        "priority": 0,
        "delivery": "Push",
        "distribution": "Single",
        "packing": "Proportional",
        "adoption": "Never",
        "drift": "Repair",
        "onDelete": "Delete",
        "dependencies": "None",
    }


@pytest.mark.proves("C22")
def test_another_scheduler_keeps_its_name(tenant):
    tenant.create(tenant.workload("theirs", schedulerName="my-customer-scheduler"))
    assert tenant.get("theirs")["spec"]["schedulerName"] == "my-customer-scheduler"


@pytest.mark.proves("W3")
def test_the_scale_subresource(tenant):
    tenant.create(tenant.workload("scaled"))
    tenant.kubectl("scale", "wl", "scaled", "--replicas=120")
    assert tenant.get("scaled")["spec"]["replicas"] == 120
    tenant.write_status("scaled", {"assigned": 7, "selector": "app=scaled"})
    path = f"/apis/stowage.dev/v1alpha1/namespaces/{tenant.namespace}/workloads/scaled/scale"
    scale = tenant.asking.request("GET", path)
    assert scale["spec"] == {"replicas": 120}
    assert scale["status"] == {"replicas": 7, "selector": "app=scaled"}
    negative = {"spec": {"replicas": -1}}
    assert "replicas" in refusal(tenant.patch, "scaled", negative, subresource="scale")
    assert tenant.get("scaled")["spec"]["replicas"] == 120


@pytest.mark.proves("C35")
def test_the_columns_of_a_template_in_its_own_namespace(tenant):
    template = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "inner"}}
    workload = tenant.workload("outer", template=template)
    del workload["spec"]["targetDeployment"]
    tenant.create(workload)
    row = tenant.kubectl("get", "wl", "-o", "wide", "--no-headers").split()
    assert row[0] == "outer"
    assert row[2:] == [tenant.namespace, "inner"]


def shown() -> list[Any]:
    return [
        pytest.param(each, id=each["kind"], marks=pytest.mark.proves(*each["proves"]))
        for each in read("shown.yaml")
    ]


@pytest.mark.parametrize("case", shown())
def test_the_status_is_kept_and_the_columns_tell_it(tenant, case):
    kind, status, wide = case["kind"], case["status"], case.get("wide", "")
    tenant.create(body(kind, namespace=tenant.namespace, **case.get("spec", {})))
    tenant.write_status("demo", status, kind)
    assert tenant.get("demo", kind)["status"] == status
    head, row = tenant.kubectl("get", kind, "demo").splitlines()
    assert head.split() == ["NAME", *case["head"].split(), "AGE"]
    assert row.split()[1:-1] == case["row"].split()
    if wide:
        head, row = tenant.kubectl("get", kind, "demo", "-o", "wide").splitlines()
        assert head.split() == ["NAME", *case["head"].split(), "AGE", *wide.split()]
        assert row.split()[-len(wide.split()) :] == case["more"].split()
    if wrong := case.get("wrong"):
        assert case["field"] in refusal(tenant.write_status, "demo", wrong, kind)


@pytest.mark.proves("C10")
def test_a_membercluster_and_its_columns(tenant):
    cluster = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": f"{tenant.namespace}-a"},
    }
    tenant.create(cluster)
    try:
        found = tenant.get(f"{tenant.namespace}-a", "MemberCluster")
        assert found["spec"] == {
            "mode": "Push",
            "reported": "Pinned",
            "unschedulable": False,
            "virtual": False,
            "namespaces": {"allow": ["*"]},
        }
        status = {
            "state": "Ready,SchedulingDisabled",
            "version": "v1.36.3",
            "provider": "kind",
            "capacity": {
                "nodes": 3,
                "allocatable": {"cpu": "12", "memory": "24684084Ki"},
                "summary": {"cpu": "12", "memory": "23.5Gi"},
            },
            "conditions": [{"type": "Ready", "status": "True", "reason": "Connected"}],
        }
        tenant.write_status(f"{tenant.namespace}-a", status, "MemberCluster")
        head, row = tenant.kubectl("get", "mc", f"{tenant.namespace}-a").splitlines()
        assert head.split() == [
            "NAME",
            "STATUS",
            "VERSION",
            "PROVIDER",
            "NODES",
            "CPU",
            "MEMORY",
            "AGE",
        ]
        cordoned = "Ready,SchedulingDisabled"
        assert row.split()[1:7] == [cordoned, "v1.36.3", "kind", "3", "12", "23.5Gi"]
    finally:
        mark = ("annotate", "mc", f"{tenant.namespace}-a", f"{ANNOTATION_UNJOIN}={GIVEN_UP}")
        tenant.kubectl(*mark)
        tenant.asking.delete(f"{tenant.namespace}-a", "MemberCluster")


def taints(*written: str) -> dict[str, Any]:
    """The spec with taints, each as `<key>:<effect>`."""
    parts = (each.split(":") for each in written)
    return {"taints": [{"key": key, "effect": effect} for key, effect in parts]}


def test_the_taints_of_a_person_are_taken(asking):
    ours = taints("stowage.dev/drain:NoExecute", "stowage.dev/out-of-service:NoExecute")
    others = taints("stowage.developers.org/a:NoSchedule", "a:NoExecute", "a:NoSchedule")
    cluster = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "tainted"},
        "spec": {"taints": [*ours["taints"], *others["taints"]]},
    }
    assert asking.create(cluster, dry_run=True)["spec"]["taints"] == cluster["spec"]["taints"]
    assert MemberCluster.model_validate(cluster).manifest() == cluster


def test_a_wrong_membercluster_is_refused(asking):
    for name, spec, field in (
        ("ok", {"taints": [{"key": "a", "effect": "Never"}]}, "spec.taints[0].effect"),
        ("ok", {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "spec.taints[1]"),
        ("ok", taints("stowage.dev/not-ready:NoExecute"), "spec.taints[0].key"),
        ("ok", taints("a:NoSchedule", "stowage.dev/cordon:NoSchedule"), "spec.taints[1].key"),
        ("ok", taints("stowage.dev/drain:NoSchedule"), "spec.taints[0].effect"),
        ("ok", taints("stowage.dev/out-of-service:PreferNoSchedule"), "spec.taints[0].effect"),
        ("ok", {"secretRef": {"namespace": "a"}}, "spec.secretRef.name"),
        ("ok", {"namespaces": {"allow": ["Shop"]}}, "spec.namespaces.allow[0]"),
        ("ok", {"virtual": "yes"}, "spec.virtual"),
        ("ok", {"maxAllocatable": {"cpu": -1}}, "maxAllocatable: must not be negative"),
        ("ok", {"maxAllocatable": {"cpu": "lots"}}, "spec.maxAllocatable"),
        ("ok", {"provider": "no provider"}, "spec.provider"),
        ("x" * 64, {}, "metadata.name"),
    ):
        cluster = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": name},
            "spec": spec,
        }
        assert field in refusal(asking.create, cluster, dry_run=True), field
        with pytest.raises(ValidationError):
            MemberCluster.model_validate(cluster)


def test_short_names_and_category(hub):
    listed = hub.kubectl("api-resources", "--api-group=stowage.dev", "--no-headers")
    assert sorted(line.split()[:2] for line in listed.splitlines()) == [
        ["assignments", "asg"],
        ["clusterdecisions", "cd"],
        ["memberclusters", "mc"],
        ["memberreports", "mr"],
        ["reservations", "rsv"],
        ["workloadgroups", "wg"],
        ["workloadkinds", "wk"],
        ["workloadpolicies", "wlp"],
        ["workloadquotas", "wq"],
        ["workloads", "wl"],
        ["workloadspreads", "ws"],
    ]
    assert "workloads" in hub.kubectl("api-resources", "--categories=stowage", "-o", "name")
