"""A real API server and Python judge the objects of *refused.yaml, taken.yaml and the examples alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds.admission import validation

from .bodies import body, dry, taken

HERE = Path(__file__).parent
FILES = {
    "Workload": "refused.yaml",
    "WorkloadSpread": "spreads_refused.yaml",
    "WorkloadGroup": "groups_refused.yaml",
    "Reservation": "reservations_refused.yaml",
    "WorkloadPolicy": "policies_refused.yaml",
    "WorkloadQuota": "quotas_refused.yaml",
}
CASES = [
    pytest.param(
        kind,
        case,
        id=f"{kind}: {case['name']}",
        marks=pytest.mark.proves(*case.get("proves", ["G1"])),
    )
    for kind, file in FILES.items()
    for case in yaml.safe_load((HERE / file).read_text())
]
GOOD = [
    pytest.param(
        kind,
        case["spec"],
        id=f"{kind}: {case['name']}",
        marks=pytest.mark.proves(*case["proves"]),
    )
    for kind, cases in yaml.safe_load((HERE / "taken.yaml").read_text()).items()
    for case in cases
]
EXAMPLES = [
    document
    for path in sorted((HERE.parent.parent / "examples").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document["kind"] in FILES
]


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_api_server_and_python_refuse_name_the_field_and_say_what_to_do(
    asking: Any, kind: str, case: dict[str, Any]
) -> None:
    made, says = body(kind, **case["spec"]), case.get("says", "")
    answer = dry(asking, made)
    assert case["field"] in answer
    assert says in answer
    found = validation.object_violations(kind, made)
    # Pydantic has words of its own for the form of these.
    told = "" if kind in ("WorkloadGroup", "WorkloadQuota") else says
    assert any(case["field"] in text and told in text for text in found), found


@pytest.mark.parametrize(("kind", "spec"), GOOD)
def test_what_is_good_is_taken(asking: Any, kind: str, spec: dict[str, Any]) -> None:
    assert taken(asking, body(kind, **spec))


@pytest.mark.proves("G1")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e['kind']}-{e['metadata']['name']}")
def test_the_examples_are_taken(asking: Any, example: dict[str, Any]) -> None:
    metadata = {**example["metadata"], "name": "demo", "namespace": "default"}
    assert taken(asking, example | {"metadata": metadata})


def test_the_base_of_all_cases_is_good(hub: Any) -> None:
    """And kubectl, which the other cases do without, says so."""
    create = ("create", "--dry-run=server", "-f", "-")
    answer = hub.kubectl(*create, input=json.dumps(body("Workload")))
    assert answer == "workload.stowage.dev/demo created (server dry run)\n"
    assert validation.object_violations("Workload", body("Workload")) == []


@pytest.mark.proves("C29")
@pytest.mark.parametrize("namespace", ["kube-system", "stowage-system"])
def test_a_forbidden_namespace_is_no_target_by_default_either(asking: Any, namespace: str) -> None:
    workload = body("Workload", namespace=namespace)
    answer = dry(asking, workload)
    assert "spec.targetNamespace: kube-* and stowage-system are never a target" in answer
    assert "spec.targetNamespace" in validation.object_violations("Workload", workload)[0]
