"""WorkloadSpread: what is refused, alike by a real API server and in Python, what is taken and filled in."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from crds.admission import validation

from .asking import refusal
from .bodies import SPECS, body

spread = partial(body, "WorkloadSpread")


def of(tenant: Any, **spec: Any) -> dict[str, Any]:
    return spread(namespace=tenant.namespace, **spec)


PATCH = {
    "metadata": {
        "labels": {"arch": "x86", "gone": None, "stowage.dev/workload-group": "batch"},
        "annotations": {"example.com/a": "b c", "gone": None},
    },
    "spec": {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "containers": [
            {"name": "main", "resources": {"limits": {"cpu": "500m", "memory": "800Mi"}}},
            {"name": "sidecar", "$patch": "delete"},
        ],
        "fieldOfATomorrow": {"deep": [1, {"er": None}]},
    },
}


@pytest.mark.proves("W11")
def test_a_patch_is_kept_as_it_was_written(tenant):
    body = of(tenant, subsets=[{"name": "a", "patch": PATCH}])
    assert validation.object_violations("WorkloadSpread", body) == []
    tenant.apply(body)
    assert tenant.get("demo", "WorkloadSpread")["spec"]["subsets"] == body["spec"]["subsets"]


@pytest.mark.proves("W27")
@pytest.mark.parametrize("given", [{}, {"scheduleStrategy": {}}])
def test_fixed_is_stored_where_nobody_says_anything(tenant, given):
    tenant.create(of(tenant, **given))
    assert tenant.get("demo", "WorkloadSpread")["spec"]["scheduleStrategy"] == {"type": "Fixed"}


OTHER = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "other"}


@pytest.mark.proves("W35")
def test_the_target_cannot_be_changed(tenant):
    tenant.apply(of(tenant))
    edited = of(tenant, targetRef=OTHER)
    answer = refusal(tenant.apply, edited)
    assert "spec.targetRef: Invalid value" in answer
    assert "make a new WorkloadSpread" in answer
    assert (
        tenant.get("demo", "WorkloadSpread")["spec"]["targetRef"]
        == SPECS["WorkloadSpread"]["targetRef"]
    )
    [said] = validation.object_violations("WorkloadSpread", edited, of(tenant))
    assert said == (
        "spec.targetRef: cannot be changed; make a new WorkloadSpread for the other Workload"
    )


@pytest.mark.proves("W15", "W35")
def test_all_else_can_be_changed(tenant):
    tenant.create(of(tenant))
    edited = of(
        tenant, subsets=[{"name": "first", "maxReplicas": 3}, *SPECS["WorkloadSpread"]["subsets"]]
    )
    edit = {"spec": {"subsets": edited["spec"]["subsets"]}}
    tenant.patch("demo", edit, kind="WorkloadSpread")
    assert [s["name"] for s in tenant.get("demo", "WorkloadSpread")["spec"]["subsets"]] == [
        "first",
        "normal",
        "elastic",
    ]
    assert validation.object_violations("WorkloadSpread", edited, of(tenant)) == []


def test_of_one_that_was_wrong_before_only_what_is_wrong_now_is_said():
    was = spread(targetRef=OTHER | {"kind": "Deployment"})
    assert validation.object_violations("WorkloadSpread", spread(), was) == []


OVERRIDES = [
    {
        "name": "normal",
        "patch": {"metadata": {"labels": {"arch": "x86"}}, "spec": {"nodeName": "a"}},
        "clusters": [
            {
                "name": "member-a",
                "deletionCosts": [{"cost": 200, "replicas": 80}, {"cost": -100, "replicas": 3}],
            }
        ],
    },
    # As text: a merge patch of the status loses each null that it holds.
    {"name": "elastic", "patch": json.dumps(PATCH), "clusters": [{"name": "member-b"}]},
    {"clusters": [{"name": "member-c", "deletionCosts": [{"cost": -300, "replicas": 1}]}]},
]


@pytest.mark.proves("W11", "W14")
def test_what_differs_between_the_shares_is_kept_in_the_status_of_the_workload(tenant):
    tenant.create(tenant.workload("demo"))
    status = {"overrides": OVERRIDES, "clusters": [{"name": "member-a", "current": 83}]}
    tenant.write_status("demo", status)
    stored = tenant.get("demo")["status"]
    assert stored["overrides"] == OVERRIDES
    assert stored["clusters"][0]["current"] == 83
