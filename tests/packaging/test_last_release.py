"""This version over what the last release left: nothing is lost, written or started anew.

A release records itself (`tests/packaging/released.py`). A change that this finds needs a step of
`stowage upgrade`, or another way.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from crds.admission.validation import admitted, normalised, violations
from tests.packaging import released

pytestmark = pytest.mark.proves("PK17")

LAST = released.last()
WORKLOADS_THERE = released.stored(LAST)


def test_each_field_of_the_last_release_is_there() -> None:
    recorded = (LAST / "fields.txt").read_text().splitlines()
    assert len(recorded) > 500
    assert set(recorded) - {*released.fields()} == set()


@pytest.mark.parametrize("workload", WORKLOADS_THERE, ids=lambda each: each["metadata"]["name"])
def test_a_stored_workload_is_taken_as_it_is(workload: dict[str, Any]) -> None:
    assert violations(workload) == []
    assert normalised(workload) == {}
    assert "spec" not in admitted(workload)


def test_no_pod_on_a_member_starts_anew() -> None:
    found = [f"{each['metadata']['name']} {released.pods(each)}" for each in WORKLOADS_THERE]
    assert len(found) > 20
    assert found == (LAST / "pods.txt").read_text().splitlines()


def test_another_pod_template_is_another_digest() -> None:
    first = copy.deepcopy(WORKLOADS_THERE[0])
    before = released.pods(first)
    main = first["spec"].get("targetDeployment") or first["spec"]["template"]
    main["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    assert released.pods(first) != before
