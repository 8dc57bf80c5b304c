"""Budgets as numbers, and what a stored spec.movement may not say."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.eventhandlers import known
from controller.model.objects import ClusterStatus, Workload
from controller.model.unit import workload_info
from machinery.types.api import Movement, ShareBlocked
from machinery.types.budget import amount
from machinery.types.workload_api import DisplacedShare
from tests.controller.make import workload

KINDS = Path(__file__).resolve().parents[2] / "crds"
UNITS = st.integers(0, 2**31 - 1)
AWAY = {"key": "a", "operator": "Exists", "effect": "NoExecute"}


@given(percent=st.integers(0, 100), of=UNITS, up=st.booleans())
def test_percents_are_those_of_the_units_rounded_to_the_side_asked_for(
    percent: int, of: int, up: bool
) -> None:
    exact = Fraction(percent * of, 100)
    assert amount(f"{percent}%", of, up=up) == (ceil(exact) if up else floor(exact))


@given(value=UNITS, of=UNITS, up=st.booleans())
def test_a_number_is_itself(value: int, of: int, up: bool) -> None:
    assert amount(value, of, up=up) == value


@pytest.mark.parametrize("wrong", ["101%", "-1%", "25", "%", "1.5%", "٣%", "", -1, 2**31, "1%\n"])
def test_what_is_no_budget_is_named(wrong: int | str) -> None:
    with pytest.raises(ValueError, match="is neither a number of units nor whole percents"):
        amount(wrong, 10, up=True)


def told(**spec: Any) -> Workload:
    return known(workload("web", **spec))


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"movement": {"maxSurge": "all"}}, "spec.movement.maxSurge: 'all' is neither"),
        ({"movement": {"maxUnavailable": -1}}, "spec.movement.maxUnavailable: -1 is neither"),
        ({"movement": {"minReadySeconds": 3601}}, "minReadySeconds: 3601 is not from 0 to 3600"),
        ({"movement": {"rebalanceAfter": "soon"}}, "rebalanceAfter: 'soon' is no moment"),
        ({"movement": {"rebalanceAfter": "0001-01-01T00:00:00+14:00"}}, "is no moment"),
        ({"tolerations": [AWAY | {"tolerationSeconds": 2**70}]}, "spec.tolerations: "),
        ({"tolerations": [AWAY | {"tolerationSeconds": -1}]}, "spec.tolerations: -1 is not from"),
    ],
)
def test_what_no_schema_lets_in_is_a_fault_of_that_workload_alone(
    spec: dict[str, Any], fault: str
) -> None:
    found = told(**spec)
    assert fault in found.fault
    assert found.info.name == "web"


def test_budgets_of_every_form_are_read() -> None:
    given = {
        "maxSurge": "25%",
        "maxUnavailable": 1,
        "minReadySeconds": 10,
        "returns": False,
        "rebalanceAfter": "2026-11-23T10:00:00Z",
    }
    found = told(movement=given)
    assert not found.fault
    assert found.spec.movement == Movement(
        "25%", 1, 10, False, rebalance_after="2026-11-23T10:00:00Z"
    )


def test_movement_is_no_part_of_the_hash_and_seconds_are_where_they_are_used() -> None:
    plain = workload_info(workload("web", tolerations=[AWAY]))
    moving = workload_info(workload("web", tolerations=[AWAY], movement={"maxSurge": 0}))
    timed = workload_info(workload("web", tolerations=[AWAY | {"tolerationSeconds": 0}]))
    assert plain.hash == moving.hash != timed.hash
    # What the release before movement made of the same spec: an upgrade edits nothing.
    assert plain.hash == "053a9350f000756a-c4bd1cf6d0d77e92-160b80643d3f0bad"


def stored(file: str) -> dict[str, Any]:
    """What the schema takes, each field at once."""
    found: dict[str, Any] = yaml.safe_load((KINDS / file).read_text())
    return found


def test_what_the_schema_takes_of_a_cluster_is_read() -> None:
    told = stored("full_membercluster.yaml")["status"]
    found = msgspec.json.decode(msgspec.json.encode(told), type=ClusterStatus)
    assert msgspec.to_builtins(found.evacuation) == told["evacuation"]


def test_what_the_schema_takes_of_a_workload_is_read() -> None:
    told, spec = stored("full_status.yaml"), stored("full.yaml")["spec"]
    whole = msgspec.json.encode({"spec": spec, "status": told})
    found = msgspec.json.decode(whole, type=Workload)
    assert found.status.displaced == [
        DisplacedShare("member-b", 2, "ClusterLost", "2026-01-01T00:00:00Z")
    ]
    assert found.status.rebalanced == told["rebalanced"]
    (share,) = found.status.clusters
    assert share.available == 0
    assert share.blocked == ShareBlocked("DisruptionBudget", "shop/web allows 0")
    assert msgspec.to_builtins(found.spec.movement) == spec["movement"]
    assert [each.toleration_seconds for each in found.spec.tolerations] == [60, None]
