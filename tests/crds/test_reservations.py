"""Reservation: what is refused, alike by a real API server and in Python, what is taken and filled in."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from crds.admission import validation

from .asking import refusal
from .bodies import SPECS, body, dry, taken

reservation = partial(body, "Reservation")


def of(tenant: Any, **spec: Any) -> dict[str, Any]:
    return reservation(namespace=tenant.namespace, **spec)


TEMPLATE = {
    "metadata": {"labels": {"app": "demo", "stowage.dev/workload-policy": "demo"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "resources": {"limits": {"cpu": 1, "memory": "1.5Gi"}, "claims": [{"name": "gpu"}]},
                "ports": [{"containerPort": 80, "hostPort": 8080}],
            }
        ],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "overhead": {"cpu": "10m"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"operator": "Exists"}],
        "fieldOfATomorrow": {"deep": [1, {"er": "2"}]},
    },
}


@pytest.mark.proves("E29")
def test_what_runs_stowage_may_hold_room_for_everybody(asking):
    owners = [{"object": {"name": "demo", "namespace": "shop"}}]
    body = reservation(owners=owners)
    body["metadata"]["namespace"] = "stowage-system"
    assert taken(asking, body)


@pytest.mark.proves("E25", "E29")
def test_what_nobody_says_is_filled_in_and_all_else_is_kept(tenant):
    tenant.apply(of(tenant, template=TEMPLATE))
    spec = tenant.get("demo", "Reservation")["spec"]
    assert spec == {
        "template": TEMPLATE,
        "owners": SPECS["Reservation"]["owners"],
        "replicas": 1,
        "allocateOnce": True,
        "ttl": "24h",
        "hold": "Books",
        "distribution": "Divided",
        "packing": "Proportional",
        "priority": 0,
        "schedulerName": "stowage",
    }


@pytest.mark.proves("E25")
def test_the_template_cannot_be_changed(tenant):
    tenant.apply(of(tenant))
    answer = refusal(tenant.apply, of(tenant, template=TEMPLATE))
    assert "spec.template: Invalid value" in answer
    assert "make a new Reservation" in answer
    assert tenant.get("demo", "Reservation")["spec"]["template"] == SPECS["Reservation"]["template"]
    [said] = validation.object_violations("Reservation", of(tenant, template=TEMPLATE), of(tenant))
    assert said.startswith("spec.template: cannot be changed; make a new Reservation")


@pytest.mark.proves("E29")
def test_owners_times_and_numbers_can_be_changed(tenant):
    tenant.create(of(tenant))
    edits = {
        "owners": [{"labelSelector": {"matchLabels": {"app": "demo"}}}],
        "ttl": "0",
        "expires": "2026-01-02T03:04:05Z",
        "replicas": 3,
        "allocateOnce": False,
        "hold": "Member",
    }
    tenant.patch("demo", {"spec": edits}, kind="Reservation")
    spec = tenant.get("demo", "Reservation")["spec"]
    assert {field: spec[field] for field in edits} == edits
    assert validation.object_violations("Reservation", of(tenant, **edits), of(tenant)) == []


@pytest.mark.proves("E29")
def test_owners_of_others_are_refused_by_an_edit_too(tenant):
    tenant.create(of(tenant))
    edited = of(tenant, owners=[{"object": {"name": "demo", "namespace": "other"}}])
    edit = {"spec": {"owners": edited["spec"]["owners"]}}
    assert "own namespace" in refusal(tenant.patch, "demo", edit, kind="Reservation")
    [said] = validation.object_violations("Reservation", edited, of(tenant))
    assert said.startswith("spec.owners: ")


@pytest.mark.proves("E28")
def test_a_workload_says_in_which_reservations_it_is(tenant):
    tenant.create(tenant.workload("demo"))
    inside = {"namespace": "shop", "name": "r", "uid": "u", "cluster": "member-a", "replicas": 2}
    tenant.write_status("demo", {"reservations": [inside]})
    assert tenant.get("demo")["status"]["reservations"] == [inside]
    wrong = inside | {"replicas": -1}
    refused = refusal(tenant.write_status, "demo", {"reservations": [wrong]})
    assert "reservations" in refused


@pytest.mark.proves("E25")
def test_a_large_reservation_is_judged_within_what_a_rule_may_cost(asking):
    """All that it may name: an API server that gives up refuses the lot."""
    amounts = {f"example.com/{'r' * 40}-{n}": 2**30 for n in range(32)}
    containers = [{"resources": {"requests": amounts, "limits": amounts}}] * 32
    labels = {f"example.com/{'k' * 50}-{n}": "v" for n in range(64)}
    values = [f"{'v' * 50}-{n}" for n in range(16)]
    expressions = [{"key": f"key-{n}", "operator": "In", "values": values} for n in range(16)]
    owner = {"labelSelector": {"matchLabels": labels, "matchExpressions": expressions}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": containers, "initContainers": containers, "overhead": amounts},
    }
    body = reservation(template=template, owners=[owner] * 32)
    assert len(json.dumps(body)) > 800_000
    assert dry(asking, body) == ""
