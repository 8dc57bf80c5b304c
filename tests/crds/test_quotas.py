"""What a WorkloadQuota may say, on a real API server and in the words of Python."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from crds.admission import validation

from .asking import refusal

pytestmark = pytest.mark.proves("N4")


@pytest.mark.parametrize(
    ("hard", "fault"),
    [
        (
            {
                "units": "500",
                "reservations": 5,
                "requests.cpu": "1500m",
                "requests.memory": "400Gi",
                "requests.example.com/gpu": 8,
                "requests.hugepages-2Mi": "1Gi",
            },
            "",
        ),
        ({"units": 0}, ""),
        ({}, "hard"),
        (None, "hard"),
        ({"cpu": "4"}, "names are units, reservations and requests.<resource>"),
        ({"requests.": "4"}, "names are units"),
        ({"limits.cpu": "4"}, "names are units"),
        ({"requests.a b": "4"}, "names are units"),
        ({"requests.Example.com/gpu": "4"}, "names are units"),
        ({"units": "1500m"}, "units and reservations are whole numbers"),
        ({"reservations": "2Ki"}, "units and reservations are whole numbers"),
        ({"units": "9" * 19}, "units and reservations are whole numbers"),
        ({"units": -1}, "must not be negative"),
        ({"requests.cpu": -1}, "must not be negative"),
        ({"requests.cpu": "-1"}, "hard"),
        ({"requests.cpu": "many"}, "hard"),
        ({"requests.cpu": "9" * 65}, "hard"),
        ({f"requests.r{n}": "1" for n in range(33)}, "hard"),
    ],
)
def test_amounts(tenant: Any, hard: Any, fault: str) -> None:
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadQuota",
        "metadata": {"name": "team", "namespace": tenant.namespace},
        "spec": {} if hard is None else {"hard": hard},
    }
    create = functools.partial(tenant.asking.create, dry_run=True)
    said, ours = refusal(create, body), validation.object_violations("WorkloadQuota", body)
    if not fault:
        assert (said, ours) == ("", [])
        return
    assert fault in said
    assert any("hard" in each for each in ours)


def test_a_status_as_the_controller_writes_it(tenant: Any) -> None:
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadQuota",
        "metadata": {"name": "team", "namespace": tenant.namespace},
        "spec": {"hard": {"units": "5"}},
        "status": {
            "observedGeneration": 1,
            "hard": {"units": "5"},
            "used": {"units": "3"},
            "claims": [
                {
                    "workload": f"{tenant.namespace}/reservations/room",
                    "uid": "u",
                    "holder": "one",
                    "time": "2026-01-02T03:04:05.000000Z",
                    "placements": [{"cluster": "a", "replicas": 2}],
                }
            ],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Valid"}],
        },
    }
    assert validation.object_violations("WorkloadQuota", body) == []
