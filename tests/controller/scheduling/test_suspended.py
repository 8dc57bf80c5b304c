"""spec.suspend: the shares that it names stay as they are, whatever is decided."""

from __future__ import annotations

from typing import Any

import pytest

from controller.scheduling.decision import Decision
from tests.controller.make import cluster, decided, info, verdicts

pytestmark = pytest.mark.proves("KD78")

HELD = {"suspend": {"clusterSelector": {"held": "yes"}}}


def decide(present: dict[str, int], **fields: Any) -> Decision:
    fleet = cluster("m1"), cluster("m2", {"held": "yes"}), cluster("m3")
    decision = decided(info(present=present, **{**HELD, **fields}), *fleet)
    assert sum(decision.placements.values()) + decision.pending == decision.desired
    return decision


@pytest.mark.parametrize("distribution", ["Single", "Divided", "Duplicated"])
def test_a_suspended_cluster_takes_nothing_new(distribution: str) -> None:
    decision = decide({}, replicas=2, distribution=distribution)
    assert decision.placements
    assert "m2" not in decision.placements
    assert verdicts(decision)["m2"].startswith("suspended by spec.suspend")


@pytest.mark.parametrize(
    ("present", "replicas", "after"),
    [
        ({"m1": 3, "m2": 3}, 4, {"m1": 1, "m2": 3}),
        ({"m1": 3, "m2": 3}, 2, {"m2": 3}),
        ({"m1": 1, "m2": 3}, 0, {"m1": 0, "m2": 3}),
        ({"m1": 3, "m2": 3}, 9, {"m1": 4, "m2": 3, "m3": 2}),
    ],
)
def test_other_clusters_alone_give_and_take(
    present: dict[str, int], replicas: int, after: dict[str, int]
) -> None:
    decision = decide(present, replicas=replicas, distribution="Divided")
    assert decision.placements["m2"] == 3
    others = {name: n for name, n in decision.placements.items() if name != "m2"}
    assert sum(others.values()) == sum(n for name, n in after.items() if name != "m2")


@pytest.mark.parametrize("replicas", [1, 5])
def test_what_is_whole_and_suspended_stays_whole(replicas: int) -> None:
    decision = decide({"m2": 3}, replicas=replicas, distribution="Single")
    assert decision.placements == {"m2": 3}
    assert decision.pending == max(replicas - 3, 0)
    if decision.pending:
        assert "spec.suspend holds it there" in decision.message


def test_a_suspended_copy_keeps_its_number() -> None:
    decision = decide({"m1": 2, "m2": 2}, replicas=4, distribution="Duplicated")
    assert decision.placements == {"m1": 4, "m2": 2, "m3": 4}
    decision = decide({"m1": 2, "m2": 2, "m3": 2}, replicas=1, distribution="Duplicated")
    assert decision.placements == {"m1": 1, "m2": 2, "m3": 1}


@pytest.mark.parametrize("distribution", ["Single", "Divided", "Duplicated"])
def test_edited_rules_leave_a_suspended_cluster_as_it_is(distribution: str) -> None:
    rules = {"clusterSelector": {"nowhere": "at-all"}, "distribution": distribution}
    assert decide({"m2": 3}, replicas=3, edited=True, **rules).placements == {"m2": 3}
