"""What goes wrong around a policy, static weights and sheer numbers, with the words that users read.

Every decision here is held against the invariant: what has a cluster and what is pending are
together what is wanted, and nobody has less than nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.pending import obstacles, remedies
from controller.features.workloadpolicy.counts import Tally, WorkloadPolicy
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason as Reason
from crds.workload import WorkloadState as State
from tests.controller.make import NOW, ZONE, adds_up, builder, cluster, counting, info, policy_spec

POLICY = ("shop", "demo")
LABEL = "stowage.dev/workload-policy"
BIG = 100_000
MISSING = "0/2 clusters: workload-policy demo does not exist in namespace shop"
MISMATCH = "0/2 clusters: 2 didn't match the workload-policy constraints"
NOWHERE = "0/2 clusters: 2 not in a domain of workload-policy demo"
MEMBER, HOST = cluster("m1", {ZONE: "member"}), cluster("h1", {ZONE: "host"})
OUTSIDE = cluster("other")


def bound(replicas: int = 6, *, app: str = "demo", **fields: Any) -> WorkloadInfo:
    """A unit whose pods name the policy, and are counted by it unless they are another `app`'s."""
    return info(replicas=replicas, labels={"app": app, LABEL: "demo"}, **fields)


def spec(kind: str = "Required", **domains: int) -> dict[str, Any]:
    """The policy's spec, in JSON spelling."""
    return policy_spec(kind, selector={"matchLabels": {"app": "demo"}}, **domains)


def rules(body: Mapping[str, Any]) -> PlacementIndex:
    """A world with that policy and no Workload."""
    meta = {"namespace": POLICY[0], "name": POLICY[1], "uid": "p", "generation": 1}
    return counting(msgspec.convert({"metadata": meta, "spec": body}, WorkloadPolicy))


def told(
    who: WorkloadInfo,
    index: PlacementIndex,
    *members: MemberCluster,
) -> Decision:
    """The decision, with the Workload's own shares counted; it adds up, and says what is in the way."""
    if who.present:
        index.put(who, who.present)
    decision = decide(builder(members).snapshot(), who, index, default_profile(), NOW)
    adds_up(decision)
    assert bool(obstacles(decision)) == (decision.pending > 0)
    return decision


def says(decision: Decision, reason: Reason, *parts: str) -> None:
    """This reason, these parts of a message; the state follows from them and from the shares."""
    without = {Reason.SCHEDULED: State.SCHEDULED, Reason.FAILED_TO_SCHEDULE: State.FAILED}
    state = State.SCHEDULED if decision.assigned else without.get(reason, State.PENDING)
    assert (decision.reason, decision.state) == (reason, state)
    assert decision.message == "; ".join(parts)


@pytest.mark.proves("K16")
def test_the_policy_is_not_there() -> None:
    decision = told(bound(), PlacementIndex(), MEMBER, HOST)
    says(decision, Reason.POLICY_NOT_FOUND, MISSING)
    assert (decision.placements, decision.pending) == ({}, 6)
    assert [note.text for note in remedies(decision)] == ["WorkloadPolicy demo in namespace shop"]


@pytest.mark.proves("K16", "K29", "D3")
@pytest.mark.parametrize(("wanted", "pending"), [(6, 2), (4, 0), (2, 0)])
def test_the_policy_was_deleted_under_a_workload_that_runs(wanted: int, pending: int) -> None:
    present = {"m1": 1, "h1": 3}
    decision = told(bound(wanted, present=present), PlacementIndex(), MEMBER, HOST)
    says(decision, Reason.POLICY_NOT_FOUND, MISSING)
    assert decision.pending == pending
    assert all(units <= present[name] for name, units in decision.placements.items())
    assert wanted < 4 or decision.placements == present


@pytest.mark.proves("K17")
@pytest.mark.parametrize("present", [{}, {"m1": 1, "h1": 3}])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"topologyKey": ""}, "spec.topologyKey: String should have at least 1 character, not ''"),
        ({"labelSelector": None}, "spec.labelSelector: Input should be an object"),
        (
            {"allocationPolicy": []},
            "spec.allocationPolicy: List should have at least 1 item after validation, not 0",
        ),
        (
            {"allocationPolicy": [{"name": "host", "replicas": 1}] * 2},
            "spec.allocationPolicy: only one element with name host",
        ),
        (
            {"allocationPolicy": [{"name": "host", "replicas": -1}]},
            "spec.allocationPolicy[0].replicas: Input should be greater than or equal to 0, not -1",
        ),
        (
            {"allocationType": "require"},
            "spec.allocationType: Input should be 'Required' or 'Preferred', not 'require'",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "spec.labelSelector.matchExpressions[0].operator: Input should be 'In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt' or 'Lt', not 'Near'",
        ),
        (
            {"allocationMethod": "Fair"},
            "spec.allocationMethod: Input should be 'Fill' or 'Balance', not 'Fair'",
        ),
        (
            {"scheduleStrategy": "Fill"},
            (
                "spec.scheduleStrategy: is another name of allocationMethod: give one of the two, "
                "or the same for both"
            ),
        ),
    ],
)
def test_the_policy_is_stored_wrong(
    wrong: dict[str, Any], words: str, present: dict[str, int]
) -> None:
    decision = told(bound(present=present), rules({**spec(host=3), **wrong}), MEMBER, HOST)
    says(decision, Reason.INVALID_POLICY, f"0/2 clusters: workload-policy demo: {words}")
    assert decision.placements == present
    assert [note.text for note in remedies(decision)] == ["WorkloadPolicy demo as its rules say"]


@pytest.mark.proves("K21")
@pytest.mark.parametrize("kind", ["Required", "Preferred"])
def test_the_policy_does_not_select_the_units_that_name_it(kind: str) -> None:
    decision = told(bound(app="else"), rules(spec(kind, member=1, host=3)), MEMBER, HOST)
    says(decision, Reason.FAILED_TO_SCHEDULE, MISMATCH)
    assert (decision.placements, decision.pending) == ({}, 6)
    (help_,) = [note.text for note in remedies(decision)]
    assert help_ == (
        "labels on its replicas that spec.labelSelector of WorkloadPolicy demo matches: "
        "that alone keeps it from h1 or m1, with room for 32"
    )


@pytest.mark.proves("K5", "K21")
def test_the_policy_selects_nobody_at_all() -> None:
    nobody = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["nobody"]}]}
    index = rules({**spec(host=3), "labelSelector": nobody})
    decision = told(bound(), index, MEMBER, HOST)
    assert decision.message == MISMATCH
    assert decision.state is State.FAILED
    assert index.ledger(Tally).members(POLICY) == 0


@pytest.mark.proves("K3", "K8", "K9")
def test_no_cluster_has_the_topology_key() -> None:
    body = {**spec(member=1, host=3), "topologyKey": "example.com/rack"}
    decision = told(bound(), rules(body), MEMBER, HOST)
    says(decision, Reason.FAILED_TO_SCHEDULE, NOWHERE)
    assert decision.placements == {}
    soft = told(bound(), rules({**body, "allocationType": "Preferred"}), MEMBER, HOST)
    assert (soft.placements, soft.scheduled) == ({"m1": 3, "h1": 3}, True)


@pytest.mark.proves("K6", "K22")
def test_a_domain_has_no_cluster() -> None:
    decision = told(bound(), rules(spec(mars=2, host=3)), OUTSIDE, HOST)
    says(
        decision,
        Reason.REPLICAS_REACHED,
        "3 of 6 replicas have a cluster",
        "1/2 clusters: 1 not in a domain of workload-policy demo",
        "workload-policy demo reached host (3/3)",
    )
    assert (decision.placements, decision.pending) == ({"h1": 3}, 3)
    alone = told(bound(), rules(spec(mars=2)), OUTSIDE, HOST)
    says(alone, Reason.FAILED_TO_SCHEDULE, NOWHERE)


@pytest.mark.proves("K6", "K13", "K22")
def test_a_quota_of_zero() -> None:
    decision = told(bound(), rules(spec(member=0, host=0)), MEMBER, HOST)
    says(
        decision,
        Reason.REPLICAS_REACHED,
        "0/2 clusters: 2 reached the replicas of workload-policy demo",
        "workload-policy demo reached member (0/0), host (0/0)",
    )
    assert (decision.placements, decision.pending) == ({}, 6)
    (note,) = remedies(decision)
    assert note.text == "a larger quota in WorkloadPolicy demo for host or member"
    partly = told(bound(), rules(spec(member=1, host=0)), MEMBER, HOST)
    says(
        partly,
        Reason.REPLICAS_REACHED,
        "1 of 6 replicas have a cluster",
        "1/2 clusters: 1 reached the replicas of workload-policy demo",
        "workload-policy demo reached member (1/1), host (0/0)",
    )
    soft = told(bound(), rules(spec("Preferred", member=0, host=0)), MEMBER, HOST)
    assert soft.scheduled
    none = told(bound(0), rules(spec(member=0, host=0)), MEMBER, HOST)
    says(none, Reason.SCHEDULED, "0 of 0 replicas have a cluster")


@pytest.mark.proves("K29", "K22")
def test_a_quota_below_what_is_placed() -> None:
    present = {"m1": 1, "h1": 3}
    decision = told(bound(present=present), rules(spec(member=1, host=1)), MEMBER, HOST)
    says(
        decision,
        Reason.REPLICAS_REACHED,
        "4 of 6 replicas have a cluster",
        "0/2 clusters: 2 reached the replicas of workload-policy demo",
        "workload-policy demo reached member (1/1), host (3/1)",
    )
    assert (decision.placements, decision.pending) == (present, 2)
    whole = told(bound(4, present=present), rules(spec(member=1, host=1)), MEMBER, HOST)
    says(whole, Reason.SCHEDULED, "4 of 4 replicas have a cluster")
    fewer = told(bound(3, present=present), rules(spec(member=1, host=1)), MEMBER, HOST)
    assert fewer.placements == {"m1": 1, "h1": 2}, "what is over its number shrinks first"


@pytest.mark.proves("D3")
@pytest.mark.parametrize("packing", ["Proportional", "Fewest"])
def test_static_weights_that_are_all_zero(packing: str) -> None:
    """Admission lets none through; what is stored all the same ends, and moves nothing."""
    nothing = [{"clusterSelector": {}, "weight": 0}]
    asked = {"distribution": "Divided", "packing": packing, "distributionWeights": nothing}
    words = "2/2 clusters: distributionWeights give weight 0 to 2 clusters"
    decision = told(info(replicas=5, **asked), PlacementIndex(), MEMBER, HOST)
    says(decision, Reason.FAILED_TO_SCHEDULE, words)
    assert (decision.placements, decision.pending) == ({}, 5)
    held = told(info(replicas=5, present={"m1": 2}, **asked), PlacementIndex(), MEMBER, HOST)
    says(held, Reason.INSUFFICIENT_CAPACITY, "2 of 5 replicas have a cluster", words)
    assert (held.placements, held.pending) == ({"m1": 2}, 3)


@pytest.mark.proves("D3")
def test_no_static_weight_for_any_cluster_that_would_do() -> None:
    elsewhere = {"clusterSelector": {"matchLabels": {ZONE: "mars"}}, "weight": 1}
    asked = {"distribution": "Divided", "distributionWeights": [elsewhere]}
    says(
        told(info(replicas=5, **asked), PlacementIndex(), MEMBER, HOST),
        Reason.FAILED_TO_SCHEDULE,
        "2/2 clusters: no rule of distributionWeights matches a cluster that would do",
    )


@pytest.mark.proves("K8", "D3")
def test_no_room_in_the_domains_that_have_a_quota() -> None:
    full = cluster("h1", {ZONE: "host"}, groups=[{"count": 1, "free": {"cpu": "0", "pods": "9"}}])
    says(
        told(bound(), rules(spec(host=6)), full),
        Reason.INSUFFICIENT_CAPACITY,
        "0/1 clusters: 1 insufficient cpu",
    )


class TestNumbers:
    """No units, one, a hundred thousand; over the same two clusters, each with room for 16."""

    @pytest.mark.proves("D3")
    @pytest.mark.parametrize("distribution", ["Single", "Divided", "Duplicated"])
    def test_none(self, distribution: str) -> None:
        decision = told(info(replicas=0, distribution=distribution), PlacementIndex(), MEMBER, HOST)
        says(decision, Reason.SCHEDULED, "0 of 0 replicas have a cluster")
        assert sum(decision.placements.values()) == 0

    @pytest.mark.proves("D3")
    @pytest.mark.parametrize(("distribution", "units"), [("Single", 1), ("Divided", 1)])
    def test_one(self, distribution: str, units: int) -> None:
        decision = told(info(replicas=1, distribution=distribution), PlacementIndex(), MEMBER, HOST)
        assert list(decision.placements.values()) == [units]
        assert decision.message == "1 of 1 replicas have a cluster"

    @pytest.mark.proves("D3")
    @pytest.mark.parametrize("distribution", ["Single", "Duplicated"])
    def test_far_too_many_for_any_cluster(self, distribution: str) -> None:
        decision = told(
            info(replicas=BIG, distribution=distribution), PlacementIndex(), MEMBER, HOST
        )
        says(decision, Reason.INSUFFICIENT_CAPACITY, "0/2 clusters: 2 insufficient cpu")
        assert (decision.placements, decision.pending) == ({}, BIG)

    @pytest.mark.proves("D3")
    @pytest.mark.parametrize("packing", ["Proportional", "Fewest"])
    def test_far_too_many_for_all_of_them(self, packing: str) -> None:
        asked = {"distribution": "Divided", "packing": packing}
        decision = told(info(replicas=BIG, **asked), PlacementIndex(), MEMBER, HOST)
        says(
            decision,
            Reason.INSUFFICIENT_CAPACITY,
            "32 of 100000 replicas have a cluster",
            "2/2 clusters: no room for more",
        )
        (help_,) = [note.text for note in remedies(decision)]
        assert help_ == "99968 more replicas need 500m cpu each on h1 or m1"

    @pytest.mark.proves("K2", "D3")
    @pytest.mark.parametrize("replicas", [0, 1, BIG])
    @pytest.mark.parametrize("kind", ["Required", "Preferred"])
    def test_under_a_policy(self, replicas: int, kind: str) -> None:
        nodes = [{"count": BIG, "free": {"cpu": "8", "memory": "32Gi", "pods": "110"}}]
        members = [cluster(f"{zone}{n}", {ZONE: zone}, groups=nodes) for zone in "ab" for n in "12"]
        decision = told(bound(replicas), rules(spec(kind, a=60_000, b=40_000)), *members)
        says(decision, Reason.SCHEDULED, f"{replicas} of {replicas} replicas have a cluster")
        for row, name in enumerate(decision.snapshot.names):
            assert bool(decision.why(row)) == (decision.placements.get(name, 0) > 0)
        sums = {z: sum(n for c, n in decision.placements.items() if c[0] == z) for z in "ab"}
        assert sums == {0: {"a": 0, "b": 0}, 1: {"a": 1, "b": 0}}.get(
            replicas, {"a": 60_000, "b": 40_000}
        )


class TestRelabelled:
    """A cluster comes to another domain, while it holds shares."""

    MEMBERS = (cluster("h1", {ZONE: "B"}), cluster("a1", {ZONE: "A"}))

    @pytest.mark.proves("C15", "K29")
    def test_all_of_them_stay_and_are_told_as_over_the_number(self) -> None:
        decision = told(bound(9, present={"h1": 3}), rules(spec(A=5, B=1)), *self.MEMBERS)
        says(
            decision,
            Reason.REPLICAS_REACHED,
            "8 of 9 replicas have a cluster",
            "1/2 clusters: 1 reached the replicas of workload-policy demo",
            "workload-policy demo reached A (5/5), B (3/1)",
        )
        assert decision.placements == {"a1": 5, "h1": 3}
        row = decision.snapshot.row["h1"]
        assert [str(reason) for reason in decision.why(row)] == [
            "3 stay where they are",
            "domain B holds 3 of its 1",
        ]

    @pytest.mark.proves("K9", "K29")
    def test_a_soft_policy_leaves_it_too_and_gives_it_no_more(self) -> None:
        decision = told(
            bound(9, present={"h1": 3}), rules(spec("Preferred", A=5, B=1)), *self.MEMBERS
        )
        assert decision.placements == {"a1": 6, "h1": 3}

    @pytest.mark.proves("K8", "K29")
    def test_out_of_every_domain(self) -> None:
        members = (cluster("h1"), cluster("a1", {ZONE: "A"}))
        decision = told(bound(9, present={"h1": 3}), rules(spec(A=5, B=1)), *members)
        says(
            decision,
            Reason.REPLICAS_REACHED,
            "8 of 9 replicas have a cluster",
            "1/2 clusters: 1 not in a domain of workload-policy demo",
            "workload-policy demo reached A (5/5)",
        )
        assert decision.placements == {"a1": 5, "h1": 3}


@pytest.mark.proves("K21", "K29", "D3")
def test_the_labels_of_the_units_were_edited_so_that_they_count_no_longer() -> None:
    """They stay, they can be given back, and nothing is added."""
    present, index = {"m1": 1, "h1": 3}, rules(spec(member=1, host=3))
    same = told(bound(4, app="else", present=present), index, MEMBER, HOST)
    assert (same.placements, same.message) == (present, "4 of 4 replicas have a cluster")
    fewer = told(bound(2, app="else", present=present), index, MEMBER, HOST)
    assert (fewer.assigned, fewer.message) == (2, "2 of 2 replicas have a cluster")
    assert all(units <= present[name] for name, units in fewer.placements.items())
    more = told(bound(6, app="else", present=present), index, MEMBER, HOST)
    assert (more.placements, more.pending) == (present, 2)
    assert more.message == (
        "4 of 6 replicas have a cluster; 0/2 clusters: 2 didn't match the workload-policy constraints"
    )


class TestClaimedByAnotherProcess:
    """Units that nobody shows yet, because another scheduler has only claimed them."""

    @pytest.mark.proves("K24")
    def test_a_domain_that_only_claims_fill_is_reached(self) -> None:
        index = rules(spec(host=3))
        index.ledger(Tally).set_foreign(POLICY, {("shop", "else"): {"h1": 3}})
        decision = told(bound(), index, OUTSIDE, HOST)
        says(
            decision,
            Reason.REPLICAS_REACHED,
            "0/2 clusters: 1 not in a domain of workload-policy demo, 1 reached the replicas of workload-policy demo",
            "workload-policy demo reached host (3/3)",
        )
        assert (decision.placements, decision.pending) == ({}, 6)

    @pytest.mark.proves("K20", "K24")
    def test_claims_on_clusters_that_nobody_here_knows(self) -> None:
        index = rules(spec(mars=3, host=3))
        index.ledger(Tally).set_foreign(POLICY, {("shop", "else"): {"m-ars": 3, "h1": 2}})
        decision = told(bound(), index, OUTSIDE, HOST)
        assert decision.placements == {"h1": 1}
        assert decision.reason is Reason.REPLICAS_REACHED
        assert decision.message.endswith("; workload-policy demo reached host (3/3)")

    @pytest.mark.proves("K20", "K24")
    def test_claims_that_are_all_there_is_to_a_workload_of_ours(self) -> None:
        """Its own name, claimed elsewhere: counted, and never given back by us."""
        index = rules(spec(host=3))
        index.ledger(Tally).set_foreign(POLICY, {("shop", "demo"): {"h1": 3}})
        assert told(bound(), index, OUTSIDE, HOST).reason is Reason.REPLICAS_REACHED
        held = told(bound(1, present={"h1": 2}), index, OUTSIDE, HOST)
        assert held.placements == {"h1": 1}
