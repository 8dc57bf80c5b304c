"""A real API server and Python judge the objects of *refused.yaml, taken.yaml and the examples alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from crds.admission import validation

from .bodies import body, dry, examples, read

FILES = {
    "Workload": "refused.yaml",
    "WorkloadSpread": "spreads_refused.yaml",
    "WorkloadGroup": "groups_refused.yaml",
    "Reservation": "reservations_refused.yaml",
    "WorkloadPolicy": "policies_refused.yaml",
    "WorkloadQuota": "quotas_refused.yaml",
}
Cases = list[dict[str, Any]]
REFUSED = {kind: read(file) for kind, file in FILES.items()}
TAKEN = read("taken.yaml")


def tables(cases: Mapping[str, Cases]) -> list[Any]:
    """One test a kind, which proves what its cases prove: a test for each costs more than its answer."""
    return [
        pytest.param(kind, of, id=kind, marks=pytest.mark.proves(*_proven(of)))
        for kind, of in cases.items()
    ]


def _proven(cases: Cases) -> list[str]:
    return sorted({each for case in cases for each in case.get("proves", ["G1"])})


@pytest.mark.parametrize(("kind", "cases"), tables(REFUSED))
def test_the_api_server_and_python_refuse_name_the_field_and_say_what_to_do(
    asking: Any, kind: str, cases: Cases
) -> None:
    wrong = {}
    for case in cases:
        made, field, says = body(kind, **case["spec"]), case["field"], case.get("says", "")
        answer = dry(asking, made)
        found = validation.object_violations(kind, made)
        # Pydantic has words of its own for the form of these.
        told = "" if kind in ("WorkloadGroup", "WorkloadQuota") else says
        ours = any(field in text and told in text for text in found)
        if field not in answer or says not in answer or not ours:
            wrong[case["name"]] = {"the server": answer, "Python": found}
    assert not wrong


@pytest.mark.parametrize(("kind", "cases"), tables(TAKEN))
def test_what_is_good_is_taken(asking: Any, kind: str, cases: Cases) -> None:
    made = {case["name"]: body(kind, **case["spec"]) for case in cases}
    assert not refused_of(asking, made)


@pytest.mark.proves("G1")
def test_the_examples_are_taken(asking: Any) -> None:
    made = {
        f"{each['kind']} {each['metadata']['name']}": each
        | {"metadata": {**each["metadata"], "name": "demo", "namespace": "default"}}
        for each in examples(*FILES)
    }
    assert not refused_of(asking, made)


def refused_of(asking: Any, made: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What the server and Python say of those that one of the two refuses."""
    wrong = {}
    for name, each in made.items():
        answer = dry(asking, each)
        found = validation.object_violations(each["kind"], each)
        if answer or found:
            wrong[name] = {"the server": answer, "Python": found}
    return wrong


def test_the_base_of_all_cases_is_good(hub: Any) -> None:
    """And kubectl, which the other cases do without, says so."""
    create = ("create", "--dry-run=server", "-f", "-")
    answer = hub.kubectl(*create, input=json.dumps(body("Workload")))
    assert answer == "workload.stowage.dev/demo created (server dry run)\n"
    assert validation.object_violations("Workload", body("Workload")) == []


@pytest.mark.proves("C29")
def test_a_forbidden_namespace_is_no_target_by_default_either(asking: Any) -> None:
    for namespace in ("kube-system", "stowage-system"):
        workload = body("Workload", namespace=namespace)
        answer = dry(asking, workload)
        assert "spec.targetNamespace: kube-* and stowage-system are never a target" in answer
        assert "spec.targetNamespace" in validation.object_violations("Workload", workload)[0]


@pytest.mark.proves("KD68", "RB13")
def test_a_template_without_a_name_has_that_of_its_workload(asking: Any) -> None:
    template = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    good = body("Workload", targetDeployment=None, template=template)
    for length, words in ((52, ""), (53, "metadata.name: is too long")):
        named = {**good, "metadata": {**good["metadata"], "name": "x" * length}}
        assert words in dry(asking, named)
        assert bool(words) == bool(dry(asking, named))
        found = validation.object_violations("Workload", named)
        assert any("metadata.name: is too long" in each for each in found) == bool(words)
