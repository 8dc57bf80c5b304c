"""WorkloadQuota: a real API server and Python judge its amounts alike."""

from __future__ import annotations

from typing import Any

import pytest

from crds.admission import validation

from .bodies import body, dry

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
def test_amounts(asking: Any, hard: Any, fault: str) -> None:
    made = body("WorkloadQuota", hard=hard)
    said, ours = dry(asking, made), validation.object_violations("WorkloadQuota", made)
    if not fault:
        assert (said, ours) == ("", [])
        return
    assert fault in said
    assert any("hard" in each for each in ours)


def test_a_status_as_the_controller_writes_it() -> None:
    claim = {
        "workload": "shop/reservations/room",
        "uid": "u",
        "holder": "one",
        "time": "2026-01-02T03:04:05.000000Z",
        "placements": [{"cluster": "a", "replicas": 2}],
    }
    status = {
        "observedGeneration": 1,
        "hard": {"units": "5"},
        "used": {"units": "3"},
        "claims": [claim],
        "conditions": [{"type": "Ready", "status": "True", "reason": "Valid"}],
    }
    assert (
        validation.object_violations("WorkloadQuota", body("WorkloadQuota") | {"status": status})
        == []
    )
