"""What an object says of its moves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo, workload_info
from tests.controller import make


def moving(**spec: Any) -> Any:
    return workload_info(make.workload(**spec)).moving


@pytest.mark.proves("M11")
@pytest.mark.parametrize(
    ("kind", "budgets", "surge", "unavailable"),
    [
        ("Deployment", {}, 2, 0),
        ("StatefulSet", {}, 0, 1),
        ("Job", {}, 0, 1),
        ("CronJob", {}, 0, 1),
        ("Deployment", {"maxSurge": 0, "maxUnavailable": 2}, 0, 2),
        ("Deployment", {"maxSurge": 0}, 0, 1),
        ("StatefulSet", {"maxUnavailable": "10%"}, 0, 1),
        ("StatefulSet", {"maxSurge": 1}, 1, 0),
        ("Deployment", {"maxSurge": "34%", "maxUnavailable": "34%"}, 3, 2),
    ],
)
def test_budgets_by_kind_and_as_written(
    kind: str, budgets: dict[str, Any], surge: int, unavailable: int
) -> None:
    state = moving(kind=kind, movement=budgets)
    assert (state.surge(6), state.unavailable(6)) == (surge, unavailable)


def test_a_deployment_that_recreates_its_pods_runs_at_most_once() -> None:
    workload = make.workload()
    template = msgspec.to_builtins(workload.spec.template)
    template["spec"]["strategy"] = {"type": "Recreate"}
    body = {"metadata": {"name": "w", "namespace": "shop"}, "spec": {"template": template}}
    info = workload_info(msgspec.convert(body, type(workload)))
    assert info.moving.at_most_once


def reporting(workload: Workload, *shares: dict[str, Any]) -> WorkloadInfo:
    status = {**msgspec.to_builtins(workload.status), "clusters": shares}
    return workload_info(
        msgspec.structs.replace(workload, status=msgspec.convert(status, type(workload.status)))
    )


def test_what_a_lost_cluster_reported_is_no_surplus() -> None:
    state = reporting(
        make.workload(present={"a": 1, "b": 1}),
        {"name": "a", "scheduled": 3, "state": "Unreachable"},
        {"name": "b", "scheduled": 2, "unschedulable": 1, "state": "Running"},
    ).moving
    assert dict(state.surplus) == {"b": 2}
    assert state.under_way({"a": 1, "b": 1}) == 2


@pytest.mark.proves("M12")
@pytest.mark.parametrize(
    ("share", "placed"),
    [
        ({"state": "Leaving"}, {"a": 4, "b": 1}),
        ({"state": "Leaving", "blocked": {"reason": "NotReadyElsewhere"}}, {"a": 4, "b": 1}),
        ({"state": "Leaving", "blocked": {"reason": "DisruptionBudget"}}, {"b": 1}),
        ({"state": "Unreachable"}, {"b": 1}),
    ],
)
def test_replicas_that_wait_for_room_have_that_of_those_that_stay_until_they_are_ready(
    share: dict[str, Any], placed: dict[str, int]
) -> None:
    full: dict[str, Any] = {"groups": [{"count": 1, "free": {"cpu": "0", "memory": "0"}}]}
    workload = make.workload(replicas=5, distribution="Divided", present={"b": 1})
    decision = make.decided(
        reporting(workload, {"name": "a", "scheduled": 4, **share}),
        make.cluster("a", **full),
        make.cluster("b", **full),
    )
    assert dict(decision.placements) == placed


def test_a_workload_at_rest_shares_one_state() -> None:
    assert moving(name="a") is moving(name="b")
