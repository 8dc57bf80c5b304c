"""The validating policy lets plain Workloads through by one question, never more than its own rules."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from crds.admission import policies, validation
from crds.admission.carried import guarded, kind_name
from crds.admission.plain import MANIFEST_KINDS, MANIFEST_VERSIONS, TEMPLATE_VERSIONS, cel_plain
from crds.fields.template import APPS_KINDS, BATCH_KINDS
from tests.patience import hold_on

from .asking import refusal

BEARS = {"labels": {"stowage.dev/hub": "x"}}
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("spec.targetDeployment", {"metadata": {"annotations": {"owner.stowage.dev/1": "a/b"}}}),
    ("spec.targetDeployment.spec.template", {"spec": {"template": {"metadata": BEARS}}}),
    ("spec.targetDeployment.spec.replicas", {"spec": {"replicas": -1}}),
    ("spec.targetDeployment.spec.replicas", {"spec": {"replicas": "3"}}),
    ("spec.targetDeployment.metadata.namespace", {"metadata": {"namespace": "other"}}),
]
ODD: list[dict[str, Any]] = [
    {"spec": "no map"},
    {"spec": {"template": "no map"}},
    {"spec": {"template": {"metadata": ["no map"]}}},
    {"metadata": {"labels": ["no map"]}},
    {"metadata": {"annotations": "no map"}},
]


def test_no_guarded_kind_is_plain():
    plain = itertools.product(MANIFEST_VERSIONS, MANIFEST_KINDS)
    units = itertools.product(TEMPLATE_VERSIONS, (*APPS_KINDS, *BATCH_KINDS))
    assert not [pair for pair in (*plain, *units) if guarded(kind_name(*pair))]


def create(tenant: Any, part: dict[str, Any], **spec: Any) -> tuple[str, dict[str, Any]]:
    workload = tenant.workload("demo", **spec)
    target = workload["spec"]["targetDeployment"]
    for field, value in copy.deepcopy(part).items():
        target[field] = {**target.get(field, {}), **value} if isinstance(value, dict) else value
    return refusal(tenant.create, workload, dry_run=True), workload


def test_one_wrong_thing_in_a_plain_workload_is_refused(tenant):
    for named, part in WRONG:
        answer, workload = create(tenant, part)
        assert named in answer, part
        assert any(each.startswith(named) for each in validation.violations(workload)), part


def test_what_is_of_an_odd_form_is_judged_and_never_an_error_of_the_question(tenant):
    for part in ODD:
        answer, _ = create(tenant, part)
        assert "matchCondition" not in answer, part
        assert "no such" not in answer, part


@pytest.fixture
def asked(tenant: Any) -> Iterator[Any]:
    """A policy of its own that lets through what is plain, in the tenant's namespace."""
    name = f"plain-{tenant.namespace}"
    rules = policies.validating_policy()["spec"]["matchConstraints"]
    space = {"matchLabels": {"kubernetes.io/metadata.name": tenant.namespace}}
    question = {"expression": cel_plain("object.spec"), "message": "it is not plain"}
    policy: dict[str, Any] = {"kind": "ValidatingAdmissionPolicy"}
    policy["spec"] = {"failurePolicy": "Fail", "matchConstraints": rules, "validations": [question]}
    binding: dict[str, Any] = {"kind": "ValidatingAdmissionPolicyBinding"}
    binding["spec"] = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": space},
    }
    for each in (policy, binding):
        each |= {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
        tenant.create(each)
    other = {"metadata": {"namespace": tenant.namespace}}
    hold_on(lambda: "not plain" in create(tenant, other)[0], seconds=60)
    yield tenant
    for each in (binding, policy):
        tenant.asking.delete(name, each["kind"])


def test_what_most_workloads_bring_is_plain(asked):
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}}
    labelled = {"metadata": {"labels": {"app": "demo"}, "annotations": {"example.com/a": "b"}}}
    pods = {"spec": {"replicas": 3, "template": {"metadata": {"labels": {"app": "demo"}}}}}
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    for part, spec in (
        ({}, {}),
        (labelled | pods, {"manifests": [config], "targetService": service}),
        ({}, {"targetNamespace": asked.namespace}),
    ):
        assert create(asked, part, **spec)[0] == ""
