"""A decision under a WorkloadSpread: order, caps, what leaves first, costs and messages."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from controller.explain.pending import obstacles, remedies
from controller.features.workloadspread import patches
from controller.features.workloadspread.compiled import compile_spread
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason
from tests.controller.features.workloadpolicy.test_plugin import policy
from tests.controller.features.workloadpolicy.test_plugin import stored as stored_policy
from tests.controller.features.workloadspread.spreads import (
    KIND,
    adaptive,
    after,
    decided,
    info,
    roomy,
    spread,
    subset,
    world,
)
from tests.controller.make import ZONE, cluster
from tests.kindsof import LEADER_WORKERS

NORMAL, ELASTIC = roomy("normal1"), roomy("elastic1")
BURST = spread(subset("normal", 100), subset("elastic"))
"""100 on the owned clusters, the rest elsewhere."""


def shares(found: Decision) -> dict[str, int]:
    return dict(found.placements)


def costs(found: Decision) -> dict[str, list[tuple[int, int]]]:
    """(cost, units) of each cluster, as the status tells."""
    return {
        each["name"]: [(cost["cost"], cost["replicas"]) for cost in each["deletionCosts"]]
        for entry in found.fields["overrides"] or ()
        for each in entry["clusters"]
    }


def big(name: str, **spec: Any) -> Any:
    return roomy(name, "1000", **spec)


@pytest.mark.proves("W4")
def test_subsets_are_filled_in_their_order() -> None:
    rules = spread(subset("a", 2), subset("b", 2), subset("c"))
    found = decided(info(replicas=5), rules, roomy("c1"), roomy("b1"), roomy("a1"))
    assert shares(found) == {"a1": 2, "b1": 2, "c1": 1}
    assert found.scheduled


@pytest.mark.proves("W3", "W10", "W13", "W14")
def test_the_elastic_ones_leave_first():
    members = (big("normal1"), big("elastic1"))
    first = decided(info(replicas=130), BURST, *members)
    then = decided(after(first, replicas=110), BURST, *members)
    assert shares(then) == {"normal1": 100, "elastic1": 10}
    less = decided(after(then, replicas=70), BURST, *members)
    assert shares(less) == {"normal1": 70}


@pytest.mark.proves("W8", "W9")
def test_proportions_hold_through_ten_five_and_ten():
    rules = spread(subset("a", "20%"), subset("b", "20%"), subset("c", "60%"))
    members = (roomy("a1"), roomy("b1"), roomy("c1"))
    found, seen = decided(info(replicas=10), rules, *members), []
    for wanted in (5, 10, 4):
        seen.append(list(shares(found).values()))
        found = decided(after(found, replicas=wanted), rules, *members)
    assert seen == [[2, 2, 6], [1, 1, 3], [2, 2, 6]]
    assert shares(found) == {"a1": 1, "b1": 1, "c1": 2}
    assert shares(decided(info(replicas=4), rules, *members)) == {"a1": 1, "b1": 1, "c1": 2}


@pytest.mark.proves("W5")
@pytest.mark.parametrize(
    ("operator", "values", "meant"),
    [
        ("In", ["2", "3"], {"n2"}),
        ("NotIn", ["1", "2"], {"n10", "none"}),
        ("Exists", [], {"n1", "n2", "n10"}),
        ("DoesNotExist", [], {"none"}),
        ("Gt", ["1"], {"n2", "n10"}),
        ("Lt", ["3"], {"n1", "n2"}),
    ],
)
def test_all_six_operators_select_clusters(operator, values, meant):
    term = {"matchExpressions": [{"key": "size", "operator": operator, "values": values}]}
    members = [roomy(f"n{n}", labels={"size": str(n)}) for n in (1, 2, 10)] + [roomy("none")]
    for field in ("requiredNodeSelectorTerm", "requiredClusterSelectorTerm"):
        only = spread({"name": "only", field: term})
        found = decided(info(replicas=len(meant) * 100 + 1, cpu="1"), only, *members)
        assert set(shares(found)) == meant
        refused = {r.text for r in found.refusals}
        assert "not in a subset of workload-spread ws" in refused or len(meant) == len(members)


@pytest.mark.proves("W12")
def test_a_preferred_term_decides_inside_a_subset():
    prefer = {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}
    rules = spread(subset("a", preferredNodeSelectorTerms=[{"weight": 10, "preference": prefer}]))
    members = (roomy("a1", "100"), roomy("a2", "5", labels={"ssd": "yes"}))
    assert shares(decided(info(replicas=5), rules, *members)) == {"a2": 5}
    assert shares(decided(info(replicas=8), rules, *members)) == {"a1": 3, "a2": 5}


@pytest.mark.proves("W12")
def test_a_tainted_cluster_takes_units_only_where_its_subset_tolerates_that():
    taint = [{"key": "spot", "effect": "NoSchedule"}]
    members = (roomy("a1", taints=taint), roomy("b1"))
    plain = spread(subset("a"), subset("b"))
    assert shares(decided(info(replicas=3), plain, *members)) == {"b1": 3}
    bears = spread(subset("a", tolerations=[{"key": "spot", "operator": "Exists"}]), subset("b"))
    assert shares(decided(info(replicas=3), bears, *members)) == {"a1": 3}
    other = spread(subset("a"), subset("b", tolerations=[{"key": "spot", "operator": "Exists"}]))
    assert shares(decided(info(replicas=3), other, *members)) == {"b1": 3}


def test_of_several_subsets_of_a_cluster_one_that_tolerates_it_opens_it():
    taint = [{"key": "gold", "effect": "NoSchedule"}]
    rules = spread(subset("all", 2, kind=""), subset("gold", tolerations=[{"operator": "Exists"}]))
    found = decided(info(replicas=5), rules, roomy("gold1", taints=taint), roomy("other1"))
    assert found.scheduled
    assert sum(shares(found).values()) == 5


@pytest.mark.proves("W14")
def test_the_deletion_costs_are_told_exactly():
    rules = spread(subset("a", 2), subset("b", 3))
    members = (roomy("a1"), roomy("b1"), roomy("c1"))
    present = {"a1": 4, "b1": 3, "c1": 1}
    found = decided(info(replicas=8, present=present), rules, *members)
    assert shares(found) == present, "nothing moves"
    assert costs(found) == {
        "a1": [(200, 2), (-100, 2)],
        "b1": [(100, 3)],
        "c1": [(-300, 1)],
    }
    assert [entry.get("name") for entry in found.fields["overrides"]] == ["a", "b", None]
    fewer = decided(after(found, replicas=5), rules, *members)
    assert shares(fewer) == {"a1": 2, "b1": 3}, "outside first, then the excess"


@pytest.mark.proves("W2", "W33")
def test_what_ran_before_the_spread_is_classified_and_stays():
    members = (roomy("a1"), roomy("b1"))
    before = info(replicas=6, present={"a1": 4, "b1": 2})
    found = decided(before, spread(subset("a", 2), subset("b")), *members)
    assert shares(found) == {"a1": 4, "b1": 2}
    assert costs(found) == {"a1": [(200, 2), (-100, 2)], "b1": [(100, 2)]}
    spilled = spread(subset("first", 2, kind=""), subset("rest", kind=""))
    both = decided(before, spilled, *members)
    assert sum(units for each in costs(both).values() for cost, units in each if cost == 200) == 2
    assert all(cost > 0 for each in costs(both).values() for cost, _ in each), "room is preferred"


@pytest.mark.proves("W2")
def test_a_whole_workload_is_divided_from_then_on_and_whole_again_afterwards():
    members = (roomy("a1"), roomy("b1"))
    one = info(replicas=4, present={"a1": 4})
    grown = decided(replace(one, replicas=6), spread(subset("a", 4), subset("b")), *members)
    assert shares(grown) == {"a1": 4, "b1": 2}
    gone = decided(after(grown, divided=False), world(), *members)
    assert shares(gone) == {"a1": 4, "b1": 2}, "shares stay when the spread is deleted"
    assert gone.fields["overrides"] is None


@pytest.mark.proves("W6")
def test_full_caps_leave_units_pending_and_name_what_would_help():
    rules = spread(subset("a", 2), subset("b", 3))
    found = decided(info(replicas=9), rules, roomy("a1"), roomy("b1"), roomy("c1"))
    assert (found.assigned, found.pending) == (5, 4)
    assert found.reason is ScheduledReason.REPLICAS_REACHED
    assert "subset a is at its cap of 2" in found.message
    texts = [each.text for each in remedies(found)]
    assert texts == ["a larger maxReplicas of subset a or b in WorkloadSpread ws"]
    assert [each.text for each in obstacles(found)] == [
        "1 cluster: not in a subset of workload-spread ws",
        "1 cluster: subset a is at its cap of 2",
        "1 cluster: subset b is at its cap of 3",
    ]


def test_a_subset_without_a_cluster_is_named() -> None:
    rules = spread(subset("a", "20%"), subset("b", "20%"), subset("c", "60%"))
    found = decided(info(replicas=10), rules, roomy("a1"), roomy("b1"))
    assert shares(found) == {"a1": 2, "b1": 2}
    assert "no cluster is in subset c of workload-spread ws" in found.message
    texts = [each.text for each in remedies(found)]
    assert "a cluster in subset c of WorkloadSpread ws" in texts
    assert decided(info(replicas=10), rules, roomy("a1"), roomy("b1"), roomy("c1")).scheduled


@pytest.mark.proves("W32")
def test_where_room_is_lacking_and_a_cap_is_not_room_helps_or_a_cluster_more() -> None:
    rules = spread(subset("a", 2), subset("b"), scheduleStrategy=adaptive())
    members = (roomy("a1"), roomy("b1", "1"), roomy("c1", "9"))
    found = decided(info(replicas=5), rules, *members)
    assert shares(found) == {"a1": 2, "b1": 1}
    assert found.reason is ScheduledReason.INSUFFICIENT_CAPACITY
    assert [each.text for each in obstacles(found)] == [
        "1 cluster: not in a subset of workload-spread ws",
        "1 cluster: subset a is at its cap of 2",
        "1 cluster: no room for more",
    ]
    assert [each.text for each in remedies(found)] == [
        "a larger maxReplicas of subset a in WorkloadSpread ws",
        "2 more replicas need 1 cpu each on b1",
        (
            "a label that puts it into subset b of WorkloadSpread ws: that alone keeps it from c1, "
            "with room for 9"
        ),
    ]


@pytest.mark.proves("W27")
@pytest.mark.parametrize(
    "strategy", [{}, {"scheduleStrategy": {}}, {"scheduleStrategy": {"type": "Fixed"}}]
)
def test_fixed_fills_a_subset_whatever_room_it_reports(strategy):
    rules = spread(subset("normal", 8), subset("elastic"), **strategy)
    members = (roomy("normal1", "2"), roomy("normal2", "0"), ELASTIC)
    found = decided(info(replicas=10), rules, *members)
    assert found.scheduled
    assert shares(found)["elastic1"] == 2
    assert sum(shares(found).values()) == 10
    waits = {"name": "normal1", "replicas": 8, "scheduled": 2, "unschedulable": 6}
    since = {"unschedulableSince": "2020-01-01T00:00:00Z", "state": "Creating"}
    present = {"normal1": 8, "elastic1": 2}
    waiting = info(replicas=10, present=present, clusters=[{**waits, **since}])
    assert shares(decided(waiting, rules, *members)) == present, "a pending share is never moved"


@pytest.mark.proves("W32")
def test_adaptive_looks_at_the_room_first():
    rules = spread(subset("normal", 8), subset("elastic"), scheduleStrategy=adaptive())
    members = (roomy("normal1", "2"), roomy("normal2", "0"), ELASTIC)
    assert shares(decided(info(replicas=10), rules, *members)) == {"normal1": 2, "elastic1": 8}
    full = (roomy("normal1", "0"), ELASTIC)
    assert shares(decided(info(replicas=3), rules, *full)) == {"elastic1": 3}
    virtual = (roomy("normal1", "0", virtual=True), ELASTIC)
    assert shares(decided(info(replicas=3), rules, *virtual)) == {"normal1": 3}
    blind = adaptive(disableSimulationSchedule=True)
    late = spread(subset("normal", 8), subset("elastic"), scheduleStrategy=blind)
    assert shares(decided(info(replicas=3), late, *full)) == {"normal1": 3}


@pytest.mark.proves("W32")
def test_the_nodes_of_a_subset_are_looked_at_and_not_their_sum():
    rules = spread(subset("normal"), subset("elastic"), scheduleStrategy=adaptive())
    small = [{"count": 8, "free": {"cpu": "1500m", "memory": "9Gi", "pods": "9"}}]
    member = cluster("normal1", {KIND: "normal"}, groups=small)
    assert shares(decided(info(replicas=2, cpu="2"), rules, member, ELASTIC)) == {"elastic1": 2}


@pytest.mark.proves("W28", "W29")
def test_a_marked_subset_takes_nothing_and_lets_go_of_units_without_a_node():
    rules = (subset("normal"), subset("elastic"))
    marked = spread(*rules, scheduleStrategy=adaptive(), marked=["normal"])
    members = (NORMAL, ELASTIC)
    assert shares(decided(info(replicas=4), marked, *members)) == {"elastic1": 4}
    waits = {
        "name": "normal1",
        "replicas": 6,
        "scheduled": 4,
        "unschedulable": 2,
        "unschedulableSince": "2020-01-01T00:00:00Z",
    }
    waiting = info(replicas=6, present={"normal1": 6}, clusters=[waits])
    assert shares(decided(waiting, marked, *members)) == {"normal1": 4, "elastic1": 2}
    full = (NORMAL, roomy("elastic1", "1"))
    assert shares(decided(waiting, marked, *full)) == {"normal1": 5, "elastic1": 1}
    unmarked = spread(*rules, scheduleStrategy=adaptive())
    assert shares(decided(waiting, unmarked, *members)) == {"normal1": 6}


@pytest.mark.proves("W35")
def test_of_two_spreads_the_older_one_divides():
    old = spread(subset("a"), name="old", created="2026-01-01T00:00:00Z")
    young = spread(subset("b"), name="young", created="2026-01-02T00:00:00Z")
    found = decided(info(replicas=2), world(young, old), roomy("a1"), roomy("b1"))
    assert shares(found) == {"a1": 2}


@pytest.mark.proves("W1", "R13")
def test_a_required_policy_and_a_spread_both_bound():
    quota = policy(stored_policy(za=3, zb=9), allocationMethod="Fill")
    rules = spread(subset("a", 5), subset("b"))
    members = [
        roomy(name, labels={ZONE: zone})
        for name, zone in (("a1", "za"), ("a2", "zb"), ("b1", "zb"))
    ]
    found = decided(
        info(replicas=14, labels={"app": "demo", "stowage.dev/workload-policy": "demo"}),
        world(quota, rules),
        *members,
    )
    assert shares(found) == {"a1": 3, "a2": 2, "b1": 7}, "a quota of 3, a cap of 5, a quota of 9"
    assert found.pending == 2
    assert found.reason is ScheduledReason.REPLICAS_REACHED


@pytest.mark.proves("W12")
def test_weights_and_packing_decide_inside_a_subset():
    weights = [
        {"clusterSelector": {"matchLabels": {"n": "1"}}, "weight": 3},
        {"clusterSelector": {}, "weight": 1},
    ]
    members = [roomy(name, labels={"n": name[-1]}) for name in ("a1", "a2", "b1")]
    rules = spread(subset("a", 8), subset("b"))
    who = info(replicas=10, distribution="Divided", distributionWeights=weights)
    assert shares(decided(who, rules, *members)) == {"a1": 6, "a2": 2, "b1": 2}
    packed = info(replicas=10, distribution="Divided", packing="Fewest")
    found = shares(decided(packed, rules, *members))
    assert found["b1"] == 2
    assert len(found) == 2


@pytest.mark.proves("W9", "W12")
def test_weights_decide_who_leaves_a_subset_and_who_waits_in_it() -> None:
    def ruled(**by_number: int) -> dict[str, Any]:
        weights = [
            {"clusterSelector": {"matchLabels": {"n": name[1:]}}, "weight": weight}
            for name, weight in by_number.items()
        ]
        return {"distribution": "Divided", "distributionWeights": weights}

    members = [roomy(name, "20", labels={"n": name[-1]}) for name in ("a1", "a2", "b3")]
    half = spread(subset("a", "50%"), subset("b"))
    found = decided(info(replicas=20, **ruled(n1=1, n2=1, n3=1)), half, *members)
    assert shares(found) == {"a1": 5, "a2": 5, "b3": 10}
    fewer = decided(after(found, replicas=10), half, *members)
    assert shares(fewer) == {"a1": 3, "a2": 2, "b3": 5}
    full = [roomy(name, "0", labels={"n": name[-1]}) for name in ("a1", "a2")]
    waits = decided(info(replicas=8, **ruled(n1=0, n2=2, n3=1)), half, *full, members[2])
    assert shares(waits) == {"a2": 4, "b3": 4}
    both = decided(info(replicas=8, **ruled(n1=1, n2=3, n3=1)), half, *full, members[2])
    assert shares(both) == {"a1": 1, "a2": 3, "b3": 4}


@pytest.mark.proves("W27")
def test_fixed_passes_the_room_again_and_again_and_by_weights_where_there_are() -> None:
    rules = spread(subset("a", 20), subset("b"))
    members = (roomy("a1", "0"), roomy("a2", "0"), roomy("b1"))
    first = decided(info(replicas=3), rules, *members)
    assert "b1" not in shares(first)
    more = decided(after(first, replicas=15), rules, *members)
    assert sum(shares(more).values()) == 15
    assert "b1" not in shares(more)
    only = [{"clusterSelector": {"matchLabels": {"n": "1"}}, "weight": 1}]
    members = tuple(roomy(name, "0", labels={"n": name[-1]}) for name in ("a1", "a2"))
    who = info(replicas=9, distribution="Divided", distributionWeights=only)
    assert shares(decided(who, rules, *members)) == {"a1": 9}, "no rule means a2"


PATCH = {
    "metadata": {"labels": {"arch": "arm"}},
    "spec": {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}],
        "nodeSelector": {"arch": "arm64"},
    },
}


@pytest.mark.proves("W11")
def test_a_patched_unit_is_reckoned_with_as_it_is_there():
    rules = spread(subset("a", patch=PATCH), subset("b"), scheduleStrategy=adaptive())
    nodes = {"cpu": "1", "memory": "9Gi", "pods": "99"}
    arm = {"count": 1, "labels": {"arch": "arm64"}, "free": nodes}

    def member(*groups: Any) -> Any:
        return cluster("a1", {KIND: "a"}, groups=list(groups))

    found = decided(info(replicas=12), rules, member(arm), roomy("b1"))
    assert shares(found) == {"a1": 10, "b1": 2}, "ten of 100m, and no more"
    assert found.fields["overrides"][0]["patch"] == PATCH
    assert "patch" not in found.fields["overrides"][1]
    other = {**arm, "labels": {"arch": "amd64"}}
    assert shares(decided(info(replicas=2), rules, member(other), roomy("b1"))) == {"b1": 2}


@pytest.mark.proves("W11")
def test_a_patch_that_takes_away_is_told_as_text():
    rules = spread(subset("a", patch={"spec": {"nodeSelector": None}}))
    found = decided(info(replicas=1), rules, roomy("a1"))
    assert found.fields["overrides"][0]["patch"] == '{"spec":{"nodeSelector":null}}'


@pytest.mark.proves("W11")
@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({"spec": {"containers": [{"name": "mian", "resources": {}}]}}, "image"),
        ({"spec": {"containers": [{"image": "x"}]}}, "spec.containers[0]"),
        ({"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}, "containers"),
        ({"spec": {"containers": {"name": "main"}}}, "spec.containers"),
        (
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "x"}}}]}},
            "spec.containers[0].resources: not a quantity",
        ),
        ({"spec": {"tolerations": [{"key": 3}]}}, "spec.tolerations[0].key"),
        ({"spec": {"nodeSelector": {"a": 1}}}, "spec.nodeSelector"),
    ],
)
def test_a_bad_patch_stops_the_whole_spread_and_loses_nothing(patch, says):
    rules = spread(subset("a", 2), subset("b", patch=patch))
    members = (roomy("a1"), roomy("b1"))
    fresh = decided(info(replicas=4), rules, *members)
    assert (shares(fresh), fresh.reason) == ({}, ScheduledReason.INVALID_SPREAD)
    assert "workload-spread ws: spec.subsets[1].patch: " in fresh.message
    assert says in fresh.message
    assert "WorkloadSpread ws as its rules say" in remedies(fresh)[0].text
    held = decided(info(replicas=6, present={"a1": 2, "b1": 2}), rules, *members)
    assert shares(held) == {"a1": 2, "b1": 2}
    assert held.pending == 2
    assert "overrides" not in held.fields, "what is told already stays, so that nothing restarts"


@pytest.mark.proves("W8")
def test_a_spread_that_makes_no_sense_keeps_what_there_is():
    rules = spread(subset("a", "40%"), subset("b", "70%"))
    held = decided(info(replicas=6, present={"a1": 2, "c1": 2}), rules, roomy("a1"), roomy("c1"))
    assert shares(held) == {"a1": 2, "c1": 2}
    assert held.reason is ScheduledReason.INVALID_SPREAD
    assert "the percents of maxReplicas must add up to 100%" in held.message


@pytest.mark.proves("W1")
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_every_kind_with_replicas_is_divided(kind):
    rules = spread(subset("a", 2), subset("b"))
    found = decided(info(replicas=5, kind=kind), rules, roomy("a1"), roomy("b1"))
    assert shares(found) == {"a1": 2, "b1": 3}


@pytest.mark.proves("W1")
def test_a_custom_kind_is_divided_by_its_path_and_takes_no_patch():
    rules = spread(subset("a", 2), subset("b"))
    about = {
        "kind": "CloneSet",
        "replicas": None,
        "replicasPath": "spec.size",
        "template": {
            "apiVersion": "apps.example.com/v1",
            "kind": "CloneSet",
            "spec": {"size": 5},
        },
    }
    members = (roomy("a1"), roomy("b1"))
    assert shares(decided(info(**about), rules, *members)) == {"a1": 2, "b1": 3}
    patched = spread(subset("a", patch=PATCH), subset("b"))
    assert "a CloneSet has no pod template" in decided(info(**about), patched, *members).message


@pytest.mark.proves("W1", "KD13")
def test_a_patch_is_laid_over_each_sort_of_pods():
    """A replica is a leader and three workers."""
    body = copy.deepcopy(LEADER_WORKERS)
    for pods in ("leaderTemplate", "workerTemplate"):
        body["spec"]["leaderWorkerTemplate"][pods]["spec"]["containers"][0]["image"] = "x"
    made = info(template=body, replicas=5)
    pool = {"spec": {"nodeSelector": {"pool": "big"}}}
    assert patches.fault_of(compile_spread(spread(subset("a", patch=pool))), made) == ""
    request, place = patches.patched(made, pool)
    assert request == made.request
    assert {(each.name, each.count) for each in place.parts} == {("leader", 1), ("worker", 3)}
    assert all(each.place.labels == (("pool", "big"),) for each in place.parts)
    other = {"spec": {"containers": [{"name": "none"}]}}
    wrong = compile_spread(spread(subset("a", patch=other)))
    assert "image" in patches.fault_of(wrong, made)
    assert "no pod template" in patches.fault_of(wrong, replace(made, source=None))


@pytest.mark.proves("W1")
def test_a_cron_job_goes_to_the_first_subset_that_takes_it():
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {}}}}}
    about = {"template": {"apiVersion": "batch/v1", "kind": "CronJob", "spec": body}}
    who = info(replicas=None, **about)
    rules = spread(subset("a", 2), subset("b"))
    assert shares(decided(who, rules, roomy("a1"), roomy("b1"))) == {"a1": 1}
    assert shares(decided(who, rules, roomy("a1", ready=False), roomy("b1"))) == {"b1": 1}


@pytest.mark.proves("W1")
def test_a_daemon_set_is_refused_in_clear_words():
    pods = {"spec": {"containers": [{"name": "main"}]}}
    about = {"template": {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": pods}}}
    found = decided(info(replicas=None, **about), spread(subset("a")), roomy("a1"))
    assert found.reason is ScheduledReason.INVALID_SPREAD
    assert "its target demo holds a DaemonSet, which runs on every cluster in full" in found.message


def test_why_names_the_subset():
    found = decided(info(replicas=130), BURST, big("normal1"), big("elastic1"))
    reasons = {
        name: [str(each) for each in found.why(row)] for name, row in found.snapshot.row.items()
    }
    assert any("subset normal" in text for text in reasons["normal1"])
    assert any("subset elastic" in text for text in reasons["elastic1"])
