"""What an agent tells of a share passes the schema of a Workload, and stays small."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from propagator.members.views import told_in
from propagator.types.assignment import Assignment

Json = dict[str, Any]


def told(**status: Any) -> Json:
    of = {"namespace": "shop", "name": "web", "uid": "u", "generation": 1}
    spec = {"workload": of, "order": "Apply", "targetNamespace": "shop", "digest": "d"}
    body = {"metadata": {"name": "u"}, "spec": {**spec, "decided": "5"}, "status": status}
    return told_in(msgspec.convert(body, Assignment), "paris", 2)


@pytest.mark.proves("PL17")
def test_an_address_of_any_form_and_size_is_brought_into_the_one_that_is_stored() -> None:
    huge = {"ingress": [{"ip": "1.2.3.4", "note": "x" * 10_000}] * 1000, "more": "x" * 500_000}
    said = told(loadBalancer=huge)["loadBalancer"]
    assert said.keys() == {"ingress"}
    assert said["ingress"][0] == {"ip": "1.2.3.4"}
    assert len(msgspec.json.encode(said)) < 10_000
    assert "loadBalancer" not in told(loadBalancer={"ingress": "none"})


@pytest.mark.proves("PL17")
def test_a_field_of_an_endless_name_is_left_out() -> None:
    assert told(fields={"a": "1", "x" * 100_000: "2"})["fields"] == {"a": "1"}


@pytest.mark.proves("PL17")
def test_no_more_is_ready_than_is_asked_for() -> None:
    assert told(counts={"asked": 2, "ready": 9})["ready"] == 2
