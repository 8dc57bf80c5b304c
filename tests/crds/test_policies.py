"""WorkloadPolicy: what is refused, alike by a real API server and in Python, and what is filled in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from crds.admission import validation

from .asking import refusal
from .bodies import body, dry

policy = partial(body, "WorkloadPolicy")


@pytest.mark.proves("K7", "K10")
def test_the_allowed_values_are_named(asking):
    answer = dry(asking, policy(allocationType="require"))
    assert '"Required", "Preferred"' in answer
    answer = dry(asking, policy(allocationMethod="fill"))
    assert '"Fill", "Balance"' in answer


@pytest.mark.proves("K1")
def test_it_is_a_kind_of_namespaces_with_a_short_name(asking, tenant):
    served = asking.request("GET", "/apis/stowage.dev/v1alpha1")["resources"]
    kind = next(each for each in served if each["name"] == "workloadpolicies")
    assert kind["shortNames"] == ["wlp"]
    assert kind["namespaced"]
    spaces = {tenant.namespace, f"{tenant.namespace}-too"}
    space = {"name": f"{tenant.namespace}-too"}
    asking.create({"apiVersion": "v1", "kind": "Namespace", "metadata": space})
    for namespace in spaces:
        asking.create(policy(namespace=namespace))
    listed = [each["metadata"] for each in asking.list("WorkloadPolicy")]
    uids = {each["uid"] for each in listed if each["namespace"] in spaces}
    assert len(uids) == 2


@pytest.mark.proves("K7", "K10")
def test_the_stored_object_always_shows_its_method_and_type(asking):
    for given, stored in (
        ({}, "Balance"),
        ({"scheduleStrategy": "Fill"}, "Fill"),
        ({"scheduleStrategy": "Balance"}, "Balance"),
        ({"allocationMethod": "Fill"}, "Fill"),
        ({"allocationMethod": "Fill", "scheduleStrategy": "Fill"}, "Fill"),
    ):
        made = policy(**given)
        spec = asking.create(made, dry_run=True)["spec"]
        assert (spec["allocationMethod"], spec["allocationType"]) == (stored, "Preferred"), given
        written = made["spec"] | validation.normalised_policy(made).get("spec", {})
        assert written["allocationMethod"] == stored, given


@pytest.mark.proves("K10")
def test_an_edited_alias_takes_the_method_with_it(tenant):
    def said(**spec: Any) -> dict[str, Any]:
        return policy(namespace=tenant.namespace, **spec)

    def stored() -> str:
        return tenant.get("demo", "WorkloadPolicy")["spec"]["allocationMethod"]

    tenant.apply(said(scheduleStrategy="Fill"))
    assert stored() == "Fill"
    tenant.apply(said(scheduleStrategy="Balance"))
    assert stored() == "Balance"
    tenant.apply(said())
    assert stored() == "Balance"
    tenant.apply(said(scheduleStrategy="Fill"))
    assert stored() == "Fill"
    both = said(scheduleStrategy="Fill", allocationMethod="Balance")
    answer = refusal(tenant.apply, both)
    assert "spec.scheduleStrategy" in answer
    assert "is another name of allocationMethod" in answer
    assert any(
        "scheduleStrategy" in text for text in validation.object_violations("WorkloadPolicy", both)
    )
    assert stored() == "Fill"
