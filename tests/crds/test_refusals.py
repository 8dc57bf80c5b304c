"""Every object of refused.yaml, put to a real API server and to crds.admission.validation: both refuse alike."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.admission import validation

from .asking import Asking, refusal

BASE = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "refused", "namespace": "default"},
    "spec": {"targetDeployment": {"apiVersion": "apps/v1", "kind": "Deployment"}},
}
CASES = yaml.safe_load((Path(__file__).parent / "refused.yaml").read_text())
every_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["name"], marks=pytest.mark.proves(*case["proves"]))
        for case in CASES
    ],
)


def built(case: dict[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = copy.deepcopy(BASE)
    for field, value in case["spec"].items():
        if value is None:
            del workload["spec"][field]
        else:
            workload["spec"][field] = "x" * 254 if value == "REPEAT-254" else value
    return workload


def dry(asking: Asking, workload: dict[str, Any]) -> str:
    return refusal(asking.create, workload, dry_run=True)


@every_case
def test_the_api_server_refuses_and_names_the_field(asking, case):
    assert case["field"] in dry(asking, built(case))


@every_case
def test_python_refuses_and_names_the_field(case):
    found = validation.violations(built(case))
    assert any(case["field"] in text for text in found), found


def test_the_base_of_all_cases_is_good(hub):
    """And kubectl, which the other cases do without, says so."""
    create = ("create", "--dry-run=server", "-f", "-")
    answer = hub.kubectl(*create, input=json.dumps(BASE))
    assert answer == "workload.stowage.dev/refused created (server dry run)\n"
    assert validation.violations(BASE) == []


@pytest.mark.proves("C29")
@pytest.mark.parametrize("namespace", ["kube-system", "stowage-system"])
def test_a_forbidden_namespace_is_no_target_by_default_either(asking, namespace):
    workload = BASE | {"metadata": {"name": "refused", "namespace": namespace}}
    answer = dry(asking, workload)
    assert "spec.targetNamespace: kube-* and stowage-system are never a target" in answer
    assert "spec.targetNamespace" in validation.violations(workload)[0]
