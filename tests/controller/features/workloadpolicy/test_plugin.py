"""A WorkloadPolicy in a decision: what binds, what counts, what is refused, and with which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pytest

from controller import catalogue
from controller.cache.placements import PlacementIndex
from controller.config import default_profile, parse
from controller.explain.record import record
from controller.features.workloadpolicy.counts import Tally, WorkloadPolicy, compile_policy
from controller.features.workloadpolicy.plugin import NAME
from controller.features.workloadpolicy.plugin import WorkloadPolicyPlugin as Plugin
from controller.framework.interface import CycleState
from controller.model.unit import WorkloadInfo, workload_info
from controller.planner.reasons import RuleKind
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason
from machinery.types.metadata import Key
from tests.controller.make import NOW, ZONE, builder, cluster, counting, policy_spec, workload

LABEL = "stowage.dev/workload-policy"
BOUND = {LABEL: "demo"}
Placed: TypeAlias = Sequence[tuple[WorkloadInfo, Mapping[str, int]]]


def stored(
    name: str = "demo", *, namespace: str = "shop", selector: Any = None, **domains: int
) -> dict[str, Any]:
    meant = {"matchLabels": {"app": "demo"}} if selector is None else selector
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
        "spec": policy_spec(selector=meant, **domains),
    }


def policy(body: Mapping[str, Any], **spec: Any) -> WorkloadPolicy:
    return msgspec.convert({**body, "spec": {**body["spec"], **spec}}, WorkloadPolicy)


def world(*bodies: WorkloadPolicy, placed: Placed = ()) -> PlacementIndex:
    index = counting(*bodies)
    for each, shares in placed:
        index.put(each, shares)
    return index


MEMBERS = (cluster("m1", {ZONE: "member"}), cluster("h1", {ZONE: "host"}), cluster("other"))


def asked(name: str = "demo", replicas: int = 6, **fields: Any) -> WorkloadInfo:
    """A unit whose Workload carries `labels`, and its pods `pods`."""
    labels, pods = fields.pop("labels", BOUND), fields.pop("pods", {"app": "demo"})
    cpu = fields.pop("cpu", "100m")
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}

    def made(decided: str) -> WorkloadInfo:
        body = workload(name, replicas=replicas, labels=pods, pod=pod, decided=decided, **fields)
        meta = msgspec.structs.replace(body.metadata, labels=labels)
        return workload_info(msgspec.structs.replace(body, metadata=meta))

    return made(made("").hash)


def decided(
    who: WorkloadInfo, index: PlacementIndex, *members: Any, profile: Any = None
) -> Decision:
    if who.present:
        index.put(who, who.present)
    snapshot = builder(members or MEMBERS).snapshot()
    return decide(snapshot, who, index, profile or default_profile(), NOW)


@pytest.mark.proves("K8", "K22", "K26")
@pytest.mark.parametrize("method", ["Fill", "Balance"])
def test_the_worked_example(method):
    rules = policy(stored(member=1, host=3), allocationMethod=method)
    decision = decided(asked(), world(rules))
    assert list(decision.placements.items()) == [("m1", 1), ("h1", 3)], "in the list's order"
    assert (decision.desired, decision.assigned, decision.pending) == (6, 4, 2)
    assert decision.reason is ScheduledReason.REPLICAS_REACHED
    assert "workload-policy demo reached member (1/1), host (3/3)" in decision.message


@pytest.mark.proves("K3")
def test_a_domain_of_two_clusters_holds_its_number_in_sum():
    members = (cluster("a1", {ZONE: "A"}), cluster("a2", {ZONE: "A"}), cluster("b", {ZONE: "B"}))
    decision = decided(asked(replicas=9), world(policy(stored(A=4, B=2))), *members)
    assert decision.placements == {"a1": 2, "a2": 2, "b": 2}


@pytest.mark.proves("K5")
@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"app": "demo"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["demo", "x"]}]},
    ],
)
def test_what_counts_are_the_units_of_the_same_namespace_that_are_selected(selector):
    rules = policy(stored(host=3, selector=selector))
    others = [
        (asked("sibling", labels={}), {"h1": 2}),
        (asked("stranger", labels={}, pods={"app": "else"}), {"h1": 9}),
        (asked("abroad", labels={}, namespace="elsewhere"), {"h1": 9}),
    ]
    decision = decided(asked(replicas=5), world(rules, placed=others))
    assert decision.placements == {"h1": 1}


@pytest.mark.proves("K33", "SC26")
def test_nothing_is_kept_of_a_namespace_without_a_policy_and_the_first_one_counts_all():
    """The replicas are those of a policy that was there before the Workloads."""
    first, later = world(policy(stored(host=9))), world()
    for index in (first, later):
        index.put(asked("one"), {"h1": 2})
        index.put(replace(asked("two"), deleting=True), {"h1": 2})
        index.assume(asked("three").with_present({"h1": 3}), {"m1": 1})
    tally = later.ledger(Tally)
    assert tally.counted("shop") == {}
    tally.put_policy(compile_policy(policy(stored(host=9))))
    key = ("shop", "demo")
    assert tally.replicas_of(key) == first.ledger(Tally).replicas_of(key) == {"h1": 5, "m1": 1}
    assert tally.members(key) == first.ledger(Tally).members(key) == 3
    tally.drop_policy(key)
    assert tally.counted("shop") == {}


@pytest.mark.proves("K33")
def test_a_workload_on_its_way_out_fills_no_quota():
    index = world(policy(stored(host=3)))
    sibling = asked("sibling", labels={})
    index.put(sibling, {"h1": 2})
    assert decided(asked(replicas=3), index).placements == {"h1": 1}
    index.put(replace(sibling, deleting=True), {"h1": 2})
    assert decided(asked(replicas=3), index).placements == {"h1": 3}


@pytest.mark.proves("K14")
@pytest.mark.parametrize("label", [LABEL, "workload-policy.kosmos.io", "workload-policy/kosmos.io"])
@pytest.mark.parametrize("where", ["labels", "pods"])
def test_any_of_the_labels_binds(label, where):
    labels = {label: "demo"} if where == "labels" else {}
    pods = {"app": "demo"} | ({label: "demo"} if where == "pods" else {})
    decision = decided(asked(labels=labels, pods=pods), world(policy(stored(member=1, host=3))))
    assert decision.assigned == 4


@pytest.mark.proves("K14")
def test_two_that_differ_are_ambiguous_and_move_nothing():
    labels = {LABEL: "demo", "workload-policy.kosmos.io": "else"}
    decision = decided(asked(labels=labels, present={"h1": 6}), world(policy(stored(host=3))))
    assert decision.reason is ScheduledReason.AMBIGUOUS_POLICY
    assert "demo, else" in decision.message
    assert decision.placements == {"h1": 6}


@pytest.mark.proves("K15")
def test_without_a_label_and_for_kinds_without_replicas_it_is_inert():
    index = world(policy(stored(host=1)))
    free = decided(asked(labels={}), index)
    assert (free.scheduled, NAME in free.scores) == (True, False)
    everywhere = decided(asked(kind="DaemonSet"), index)
    assert sorted(everywhere.placements) == ["h1", "m1", "other"]


@pytest.mark.proves("K17")
def test_clusters_that_the_workload_excludes_are_neither_counted_nor_chosen():
    members = (
        cluster("h1", {ZONE: "host", "tier": "gold"}),
        cluster("h2", {ZONE: "host", "tier": "tin"}),
    )
    taken = [(asked("sibling", labels={}), {"h2": 3})]
    index = world(policy(stored(host=3)), placed=taken)
    decision = decided(asked(clusterSelector={"tier": "gold"}), index, *members)
    assert decision.placements == {"h1": 3}


@pytest.mark.proves("K19")
def test_an_edit_between_two_points_does_not_change_the_pass():
    index, who = world(policy(stored(host=3))), asked()
    snapshot, plugin = builder(MEMBERS).snapshot(), Plugin()
    state = CycleState(enabled=default_profile().names)
    assert plugin.pre_filter(state, who, snapshot, index).ok
    index.ledger(Tally).put_policy(compile_policy(policy(stored(host=0))))
    index.put(asked("sibling", labels={}), {"h1": 3})
    ((full, _),) = plugin.filter(state, who, snapshot, index).reached
    assert not full[snapshot.row["h1"]]
    assert plugin.score(state, who, snapshot, index)[snapshot.row["h1"]] == 100


@pytest.mark.proves("K20")
def test_what_if_a_share_came_or_went():
    index, who, other = world(policy(stored(host=3))), asked(), asked("other")
    snapshot, plugin = builder(MEMBERS).snapshot(), Plugin()

    def score(bound):
        state = CycleState(enabled=default_profile().names)
        plugin.pre_filter(state, who, snapshot, bound)
        return plugin.score(state, who, snapshot, bound)[snapshot.row["h1"]]

    came = index.overlay({other.key: (other, {"h1": 2, "nowhere": 5})})
    assert score(came) == 33
    assert score(came.overlay({other.key: (other, {"h1": 1, "nowhere": 5})})) == 66
    assert score(index) == 100


def test_where_only_room_is_lacking_the_reason_is_capacity():
    members = (cluster("h1", {ZONE: "host"}),)
    who = asked(replicas=20, cpu="1")
    decision = decided(who, world(policy(stored(host=20))), *members)
    assert decision.placements == {"h1": 8}
    assert decision.reason is ScheduledReason.INSUFFICIENT_CAPACITY


@pytest.mark.proves("K11", "K13")
def test_the_policy_column_is_that_of_the_next_unit():
    members = (cluster("a", {ZONE: "A"}), cluster("b", {ZONE: "B"}), cluster("c", {ZONE: "C"}))
    taken = [(asked("sibling", labels={}), {"a": 4, "c": 1})]
    rules = policy(stored(A=5, B=3, C=1), allocationType="Preferred")
    decision = decided(asked(replicas=1), world(rules, placed=taken), *members)
    row = decision.snapshot.row
    column = decision.scores[NAME]
    assert [int(column[row[name]]) for name in "abc"] == [20, 100, 0]


@pytest.mark.proves("K11", "K12")
def test_the_record_tells_the_order_in_which_units_were_given():
    balance = world(policy(stored(member=5, host=3)))
    decision = decided(asked(replicas=8), balance)
    order = "member host member host member member host member"
    assert decision.assignment_order() == order.split()
    fill = world(policy(stored(member=2, host=3), allocationMethod="Fill"))
    decision = decided(asked(replicas=6), fill)
    assert record(decision)["order"] == ["member"] * 2 + ["host"] * 3
    beyond = world(policy(stored(member=1), allocationType="Preferred"))
    assert decided(asked(replicas=2, cpu="8"), beyond).assignment_order() == ["member", "-"]
    assert decided(asked(labels={}), balance).assignment_order() == []


@pytest.mark.proves("K23")
def test_each_point_can_be_switched_off_by_itself():
    def profile(*points: str) -> Any:
        off = "".join(f"\n    {p}: {{disabled: [{{name: WorkloadPolicy}}]}}" for p in points)
        text = (
            "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"
            f"profiles:\n- schedulerName: stowage\n  plugins:{off}\n"
        )
        return parse(text, catalogue.registry()).profiles["stowage"]

    index = world(policy(stored(member=2, host=3)))
    members = (
        cluster("m1", {ZONE: "member"}),
        cluster("h1", {ZONE: "host"}, groups=[{"count": 9, "free": {"cpu": "8", "pods": "110"}}]),
    )
    three = asked(replicas=3, cpu="1")
    balanced = decided(three, index, *members)
    assert balanced.placements == {"m1": 1, "h1": 2}
    ranked = decided(three, index, *members, profile=profile("score"))
    assert sum(ranked.placements.values()) == 3
    assert ranked.placements.get("m1", 0) <= 2
    assert ranked.placements.get("h1", 0) <= 3
    assert ranked.placements != balanced.placements
    unfiltered = decided(asked(replicas=9), index, *members, profile=profile("filter"))
    assert unfiltered.pending == 0, "without Filter the numbers bind nobody"
    inert = decided(asked(replicas=9), index, *members, profile=profile("preFilter"))
    assert inert.scheduled
    assert len(inert.placements) == 1, "without PreFilter its distribution decides"


@pytest.mark.proves("B19")
def test_a_cluster_is_left_out_of_the_counts_by_rules_that_the_profile_has():
    who = asked(replicas=3, clusterSelector={ZONE: "member"})
    snapshot, plugin = builder(MEMBERS).snapshot(), Plugin()

    def score(names: Any) -> list[int]:
        index = world(policy(stored(host=4)), placed=[(asked("sibling"), {"h1": 2})])
        state = CycleState(enabled=names)
        assert plugin.pre_filter(state, who, snapshot, index).ok
        return [int(each) for each in plugin.score(state, who, snapshot, index)]

    known = default_profile().names
    without = {**known, "filter": tuple(n for n in known["filter"] if n != "ClusterSelector")}
    row = snapshot.row["h1"]
    assert score(known)[row] == 100, "what runs where it may not be counts for nothing"
    assert score(without)[row] == 50


@pytest.mark.proves("K28", "K29")
def test_editing_moves_nothing_and_shrinking_starts_where_it_is_over():
    before = {"m1": 1, "h1": 3}
    lowered = world(policy(stored(member=1, host=1)))
    same = decided(asked(replicas=4, present=before), lowered)
    assert same.placements == before
    lowered = world(policy(stored(member=1, host=1)))
    assert decided(asked(replicas=2, present=before), lowered).placements == {"h1": 1, "m1": 1}
    raised = world(policy(stored(member=3, host=3)))
    assert decided(asked(replicas=6, present=before), raised).placements == {"h1": 3, "m1": 3}


def test_each_number_has_its_reasons():
    who = asked(replicas=5, present={"h1": 2})
    decision = decided(who, world(policy(stored(member=1, host=3))))
    reasons = {(r.kind, r.number, r.name) for r in decision.why(decision.snapshot.row["h1"])}
    assert reasons == {(RuleKind.KEPT, 2, ""), (RuleKind.DOMAIN_QUOTA, 3, "host")}
    assert decision.why(decision.snapshot.row["other"]) == ()


@pytest.mark.proves("K18")
def test_counting_costs_a_table_whatever_lies_behind_it(monkeypatch):
    """200 clusters and 2000 shares: no Workload is looked at in a decision."""
    names = [f"c{n:03}" for n in range(200)]
    members = [cluster(name, {ZONE: f"z{n % 10}"}) for n, name in enumerate(names)]
    rules = policy(stored(**{f"z{n}": 1000 for n in range(10)}))
    placed = [
        (asked(f"w{n}", labels={}), {names[(n * 7 + k) % 200]: 1 for k in range(10)})
        for n in range(200)
    ]
    index = world(rules, placed=placed)
    looked: list[Any] = []
    matches = type(compile_policy(rules).selector).matches

    def counted(self: Any, labels: Any) -> bool:
        looked.append(labels)
        return bool(matches(self, labels))

    monkeypatch.setattr("machinery.types.selectors.LabelSelector.matches", counted)
    decision = decided(asked(replicas=100), index, *members)
    assert decision.scheduled
    assert len(looked) <= 2
    assert sum(index.ledger(Tally).replicas_of(("shop", "demo")).values()) == 2000


def test_a_workload_that_takes_less_or_leaves_the_policy_eases_it():
    told = list[tuple[set[Key], set[Key]]]()
    tally = Tally(lambda *changed: told.append(changed))
    tally.put_policy(compile_policy(policy(stored(host=3))))
    demo, ours, none = ("shop", "demo"), asked("web", labels={}), set[Key]()
    for who, placed, eased in (
        (ours, {"c0": 2}, none),
        (ours, {"c0": 2, "c1": 1}, none),
        (ours, {"c0": 1, "c1": 3}, {demo}),
        (asked("web", labels={}, pods={"app": "else"}), {"c0": 1, "c1": 3}, {demo}),
        (ours, {"c0": 1}, none),
    ):
        told.clear()
        tally.put(who, placed)
        assert told == [({demo}, eased)]


def test_the_table_follows_every_change():
    rng = np.random.default_rng(7)
    index = world(policy(stored(host=3)))
    shares: dict[str, dict[str, int]] = {}
    for _ in range(400):
        name = f"w{rng.integers(6)}"
        match rng.integers(4):
            case 0:
                index.drop(("shop", name))
                shares.pop(name, None)
            case 1:
                placed = {f"c{c}": int(rng.integers(1, 5)) for c in range(rng.integers(3))}
                index.put(asked(name, labels={}), placed)
                shares[name] = placed
            case 2:
                index.put(asked(name, labels={}, pods={"app": "else"}), {"c0": 3})
                shares.pop(name, None)
            case 3:
                index.ledger(Tally).put_policy(compile_policy(policy(stored(host=3))))
        expected: dict[str, int] = {}
        for placed in shares.values():
            for where, units in placed.items():
                expected[where] = expected.get(where, 0) + units
        assert dict(index.ledger(Tally).replicas_of(("shop", "demo"))) == expected
        assert index.ledger(Tally).members(("shop", "demo")) == len(shares)
