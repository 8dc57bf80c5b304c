"""Rules of several kinds on one Workload: a policy beside spread constraints, weights, packing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.config import default_profile
from controller.explain.record import record as explained
from controller.framework.events import MEMBER_CLUSTER, Action
from controller.model.observedlimits import ObservedLimit
from controller.planner.reasons import RuleKind
from controller.queue.unschedulable import Hints
from controller.scheduler import awaited
from crds.workload import ScheduledReason
from tests.controller.features.workloadpolicy.test_plugin import (
    asked,
    decided,
    policy,
    stored,
    world,
)
from tests.controller.make import CLUSTER, NOW, ZONE, cluster

HERE = {
    f"{zone}{n}": cluster(
        f"{zone}{n}",
        {ZONE: zone, CLUSTER: f"{zone}{n}"},
        groups=[{"count": 1, "free": {"cpu": str(room), "pods": "500"}}],
    )
    for zone in "ab"
    for n, room in enumerate((9, 6, 3))
}


def shares(who: Any, rules: Any) -> dict[str, int]:
    return dict(decided(who, world(rules), *HERE.values()).placements)


def weights(**by_cluster: Any) -> list[dict[str, Any]]:
    return [
        {"clusterSelector": {"matchLabels": {CLUSTER: name}}, **rule}
        for name, rule in by_cluster.items()
    ]


QUOTA = policy(stored(a=6, b=4))


@pytest.mark.proves("R13", "P7")
def test_a_policy_within_at_most_so_many_clusters() -> None:
    limit = [{"topologyKey": CLUSTER, "maxDomains": 2}]
    who = asked(replicas=10, cpu="1", spreadConstraints=limit)
    assert shares(who, QUOTA) == {"a0": 6, "b0": 4}
    one = asked(replicas=10, cpu="1", spreadConstraints=[{**limit[0], "maxDomains": 1}])
    found = decided(one, world(QUOTA), *HERE.values())
    assert found.placements == {"a0": 6}
    assert found.pending == 4
    assert "spreadConstraints leave out" in found.message


@pytest.mark.proves("R13")
def test_units_that_run_nowhere_go_elsewhere_within_the_quota() -> None:
    """Both zones are full; a0 was seen to run 2 of its 6."""
    who = asked(replicas=10, cpu="1", present={"a0": 6, "b0": 4})
    learnt = replace(who, limits={"a0": ObservedLimit(2, NOW + timedelta(hours=1))})
    assert shares(who, QUOTA) == {"a0": 6, "b0": 4}
    found = decided(learnt, world(QUOTA), *HERE.values())
    assert {name: found.placements[name] for name in ("a0", "b0")} == {"a0": 2, "b0": 4}
    assert found.pending == 0
    assert found.reason is ScheduledReason.SCHEDULED


def pairs(found: Any) -> list[str]:
    return [str(each) for each in found.binding() if each.reason.kind is RuleKind.CONTRADICTION]


@pytest.mark.proves("R13")
def test_a_lower_bound_and_a_quota_that_contradict_each_other_are_named() -> None:
    rules = weights(a0={"weight": 1, "minReplicas": 7}, a1={"weight": 1}, b0={"weight": 1})
    who = asked(replicas=20, cpu="1", distribution="Divided", distributionWeights=rules)
    found = decided(who, world(QUOTA), *HERE.values())
    assert found.placements == {"a0": 6, "b0": 4}
    named = "minReplicas 7 of cluster a0 and quota 6 of a contradict each other"
    assert pairs(found) == [named]
    assert named in found.message
    assert named in [str(reason) for reason in found.why(found.snapshot.row["a0"])]
    assert named in explained(found)["binding"][-1]["text"]


@pytest.mark.proves("R13")
def test_what_contradicts_is_named_where_all_units_have_a_place_too() -> None:
    rules = weights(a0={"weight": 1}, b0={"weight": 1, "minReplicas": 3})
    limit = [{"topologyKey": ZONE, "maxDomains": 1}]
    plain = {"distribution": "Divided", "distributionWeights": rules, "spreadConstraints": limit}
    found = decided(
        asked(replicas=4, cpu="1", present={"a0": 2}, labels={}, **plain), world(), *HERE.values()
    )
    assert found.placements == {"a0": 4}
    assert pairs(found) == [
        f"minReplicas 3 of cluster b0 and maxDomains 1 of {ZONE} contradict each other"
    ]


@pytest.mark.proves("R13")
def test_a_number_of_domains_and_a_quota_that_contradict_each_other_are_named() -> None:
    two = [{"topologyKey": ZONE, "minDomains": 2}]
    who = asked(replicas=4, cpu="1", distribution="Divided", spreadConstraints=two)
    found = decided(who, world(policy(stored(a=6, b=0))), *HERE.values())
    assert found.placements == {}
    named = f"minDomains 2 of {ZONE} and quota 0 of b contradict each other"
    assert pairs(found) == [named]
    assert named in found.message
    one = [{"topologyKey": ZONE, "maxDomains": 1}]
    who = asked(replicas=9, cpu="1", distribution="Divided", spreadConstraints=one)
    found = decided(who, world(QUOTA), *HERE.values())
    assert found.placements == {"a0": 2, "a1": 2, "a2": 2}
    assert pairs(found) == [f"maxDomains 1 of {ZONE} and quota 6 of a contradict each other"]


@pytest.mark.proves("R13")
def test_a_learnt_limit_below_a_lower_bound_is_named() -> None:
    rules = weights(a0={"weight": 1, "minReplicas": 5}, b0={"weight": 1})
    who = asked(replicas=9, cpu="1", distribution="Divided", distributionWeights=rules, labels={})
    who = replace(who, limits={"a0": ObservedLimit(2, NOW + timedelta(hours=1))})
    found = decided(who, world(), *HERE.values())
    assert found.placements == {"a0": 2, "b0": 7}
    assert pairs(found) == [
        "minReplicas 5 of cluster a0 and the limit 2 of cluster a0 contradict each other"
    ]


@pytest.mark.proves("L2", "L17")
@pytest.mark.parametrize("without", ["", "Divided"])
def test_a_plan_awaits_room_whichever_plugins_bound_it(without: str) -> None:
    profile = default_profile()
    profile = replace(profile, assign=[p for p in profile.assign if p.name != without])
    found = decided(
        asked(replicas=40, cpu="1"),
        world(policy(stored(a=20, b=20))),
        *HERE.values(),
        profile=profile,
    )
    assert (found.assigned, found.refused_by()) == (36, frozenset()), "room is what is lacking"
    awaits = awaited(found, Hints(profile), alone=True)
    assert awaits is not None
    for action in (Action.ADDED, Action.ROOM, Action.SPEC):
        assert awaits.ask(MEMBER_CLUSTER, None, action) is None, "asks no hint"
