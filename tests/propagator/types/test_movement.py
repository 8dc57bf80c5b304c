"""The budgets of a move, as numbers of units."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propagator.types.movement import Movement, units_of
from propagator.types.workload import Workload, workload_of
from tests.propagator.stage import deployment


def template(kind: str, **spec: Any) -> dict[str, Any]:
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {**deployment("web", **spec), "apiVersion": group, "kind": kind}


def moving(
    body: dict[str, Any], leaving: dict[str, str] | None = None, **movement: Any
) -> Workload:
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "web", "uid": "u"},
            "spec": {"replicas": 6, "template": body, "movement": movement},
            "status": {
                "placements": [{"cluster": "m1", "replicas": 1}, {"cluster": "m2", "replicas": 5}],
                "leaving": [
                    {"cluster": name, "replicas": 2, "cause": cause}
                    for name, cause in (leaving or {}).items()
                ],
            },
        }
    )


@pytest.mark.proves("M51", "M56")
@pytest.mark.parametrize(
    ("body", "movement", "once", "unavailable"),
    [
        (template("Deployment"), {}, False, 0),
        (template("StatefulSet"), {}, True, 1),
        (template("Job"), {}, True, 1),
        (template("CronJob"), {}, True, 1),
        (template("Deployment", strategy={"type": "Recreate"}), {}, True, 1),
        (template("Deployment", strategy={"type": 7}), {}, False, 0),
        (template("StatefulSet"), {"maxSurge": 1}, False, 0),
        (template("StatefulSet"), {"maxSurge": "1%"}, False, 0),
        (template("Deployment"), {"maxSurge": 0, "maxUnavailable": 2}, True, 2),
        (template("Deployment"), {"maxSurge": "0%", "maxUnavailable": "10%"}, True, 1),
        (template("Deployment"), {"maxSurge": 0}, True, 1),
        (template("Deployment"), {"maxUnavailable": "34%"}, False, 2),
        (template("StatefulSet"), {"maxUnavailable": 3}, True, 3),
    ],
)
def test_the_defaults_are_those_of_the_kind(
    body: dict[str, Any], movement: dict[str, Any], once: bool, unavailable: int
) -> None:
    workload = moving(body, **movement)
    assert (workload.at_most_once, workload.unavailable) == (once, unavailable)


@pytest.mark.proves("M51")
def test_what_runs_at_most_once_is_not_to_stand_where_it_leaves() -> None:
    """But after a loss as long as `leaving` says, as what runs there was not known."""
    leaving = {"m1": "Drained"}
    assert moving(template("Deployment"), leaving).shares["m1"] == 3
    assert moving(template("StatefulSet"), leaving).shares["m1"] == 1
    assert moving(template("StatefulSet"), {"m1": ""}).shares["m1"] == 1
    assert moving(template("StatefulSet"), {"m1": "ClusterLost"}).shares["m1"] == 3


@pytest.mark.proves("M51")
def test_what_another_scheduler_moves_without_a_word_gives_first() -> None:
    """Its successors wait until it is gone, so that it cannot wait for these."""
    moved = moving(template("StatefulSet"))
    assert moved.gives_first("left")
    assert not moving(template("Deployment")).gives_first("left")


@given(st.integers(0, 100), st.integers(0, 10_000))
def test_percents_are_rounded_down(percents: int, wanted: int) -> None:
    units = units_of(f"{percents}%", wanted)
    assert 100 * units <= percents * wanted < 100 * (units + 1)


@pytest.mark.parametrize("odd", ["", "%", "-1%", "101%", "1.5%", "many", -1])
def test_what_no_schema_lets_in_is_no_budget(odd: int | str) -> None:
    assert units_of(odd, 100) == 0
    assert Movement(min_ready_seconds=-5).ready_seconds == 0
    assert Movement(min_ready_seconds=10**9).ready_seconds == 3600
