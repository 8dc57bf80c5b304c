"""What would help: each sentence, and that doing what it says does help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.config import default_profile
from controller.explain.record import record
from controller.framework.percluster import PerClusterFilter
from controller.framework.profile import Profile
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import Decision
from tests.controller.make import ZONE, beside, cluster, decided, info, required_terms
from tests.kindsof import RAY

SMALL = [{"count": 1, "free": {"cpu": "2", "memory": "4Gi", "pods": "10"}}]


def said(decision: Decision) -> list[str]:
    return [note["text"] for note in record(decision)["remedies"]]


def why_pending(decision: Decision) -> list[str]:
    return [note["text"] for note in record(decision)["pendingReasons"]]


@pytest.mark.proves("E30")
def test_nothing_pending_needs_no_help() -> None:
    decision = decided(info(), cluster("a"))
    assert (said(decision), why_pending(decision)) == ([], [])


@pytest.mark.proves("E30", "C4")
def test_without_clusters_one_is_needed() -> None:
    decision = decided(info())
    assert why_pending(decision) == ["no cluster is registered"]
    assert said(decision) == ["a cluster that is registered: stowage join"]


@pytest.mark.proves("E30")
def test_room_for_all_on_one_cluster() -> None:
    asked = info(replicas=6)
    decision = decided(asked, cluster("a", groups=SMALL), cluster("b", groups=SMALL))
    assert why_pending(decision) == ["2 clusters: insufficient cpu"]
    assert said(decision) == [
        (
            "all 6 replicas need 500m cpu and 1Gi memory each on a or b: there is room for 4 at the most"
        )
    ]
    roomy = [{"count": 1, "free": {"cpu": "3", "memory": "6Gi", "pods": "10"}}]
    assert decided(asked, cluster("a", groups=roomy)).scheduled


@pytest.mark.proves("Q12")
def test_without_room_for_a_single_one_the_largest_node_is_named() -> None:
    small = [{"count": 9, "free": {"cpu": "1", "memory": "64Gi", "pods": "10"}}]
    asks = {"requests": {"cpu": "4", "memory": "8Gi"}}
    asked = info(replicas=2, pod={"containers": [{"name": "main", "resources": asks}]})
    decision = decided(asked, cluster("a", groups=SMALL), cluster("b", groups=small))
    (note,) = said(decision)
    assert note == (
        "all 2 replicas need 4 cpu and 8Gi memory each on a or b: "
        "the largest node, on a, has 2 cpu and 4Gi memory free"
    )
    full = [{"count": 1, "free": {"cpu": "0", "memory": "0", "pods": "10"}}]
    (note,) = said(decided(asked, cluster("a", groups=full)))
    assert note == "all 2 replicas need 4 cpu and 8Gi memory each on a", "there is nothing to name"


@pytest.mark.proves("E30", "KD12")
def test_a_node_is_too_small_for_one_pod_and_not_for_all_of_a_replica() -> None:
    roomy = [{"count": 11, "free": {"cpu": "8", "memory": "64Gi", "pods": "110"}}]
    (note,) = said(decided(info(template=RAY), cluster("a", groups=roomy)))
    assert note == "the replica needs 90 cpu on a", "a node takes the largest of its pods"
    small = [{"count": 50, "free": {"cpu": "4", "memory": "64Gi", "pods": "110"}}]
    (note,) = said(decided(info(template=RAY), cluster("a", groups=small)))
    assert note == "the replica needs 90 cpu on a: the largest node, on a, has 4 cpu free"


@pytest.mark.proves("E30")
def test_room_for_the_rest_of_a_divided_one() -> None:
    asked = info(replicas=10, distribution="Divided")
    decision = decided(asked, cluster("a", groups=SMALL), cluster("b", groups=SMALL))
    assert decision.pending == 2
    assert why_pending(decision) == ["2 clusters: no room for more"]
    assert said(decision) == ["2 more replicas need 500m cpu and 1Gi memory each on a or b"]


def test_only_what_is_lacking_is_named() -> None:
    narrow = [{"count": 1, "free": {"cpu": "1", "memory": "32Gi", "pods": "110"}}]
    decision = decided(info(replicas=3, distribution="Divided"), cluster("a", groups=narrow))
    assert said(decision) == ["1 more replica needs 500m cpu on a"]
    full = [{"count": 1, "free": {"cpu": "8", "memory": "32Gi", "pods": "2"}}]
    decision = decided(info(replicas=3, distribution="Divided"), cluster("a", groups=full))
    assert said(decision) == ["1 more replica needs a place among the node's pods on a"]


@pytest.mark.proves("E30", "B21")
@pytest.mark.parametrize(
    ("refused", "asked", "helps"),
    [
        (
            {"unschedulable": True},
            {},
            (
                "an end of the cordon (spec.unschedulable of the MemberCluster): "
                "that alone keeps it from a, with room for 16"
            ),
        ),
        (
            {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            {},
            "a toleration of gpu=yes:NoSchedule in spec.tolerations: that alone keeps it from a, with room for 16",
        ),
        (
            {"ready": False},
            {},
            "a cluster that is ready again: that alone keeps it from a, with room for 16",
        ),
        (
            {"namespaces": {"allow": ["web-*"]}},
            {},
            (
                "namespace shop in spec.namespaces.allow of the MemberCluster: "
                "that alone keeps it from a, with room for 16"
            ),
        ),
        (
            {},
            {"clusterSelector": {"tier": "gold"}},
            (
                "other labels in spec.clusterSelector, or these labels on the MemberCluster: "
                "that alone keeps it from a, with room for 16"
            ),
        ),
        (
            {},
            {"clusterAffinity": required_terms([{"key": "x", "operator": "Exists"}])},
            (
                "another required term in spec.clusterAffinity, or its labels on the MemberCluster: "
                "that alone keeps it from a, with room for 16"
            ),
        ),
        (
            {},
            {"workloadAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside("b")]}},
            (
                "other required terms in spec.workloadAffinity or spec.workloadAntiAffinity, "
                "or the Workloads that they select in other places: that alone keeps it from a, with room for 16"
            ),
        ),
    ],
)
def test_what_a_single_predicate_asks_for(
    refused: dict[str, Any], asked: dict[str, Any], helps: str
) -> None:
    decision = decided(info(**asked), cluster("a", **refused))
    assert said(decision) == [helps]
    other = [replace(each, text="in other words") for each in decision.refusals]
    assert said(replace(decision, refusals=other)) == [helps], "no advice hangs on the words"


@pytest.mark.proves("E30")
def test_the_predicate_that_keeps_the_most_away_comes_first() -> None:
    clusters = [cluster(f"a{n}", ready=False) for n in range(5)] + [
        cluster("c", unschedulable=True)
    ]
    notes = record(decided(info(), *clusters))["remedies"]
    assert [(n["kind"], n["name"], n["number"]) for n in notes] == [
        ("Lift", "ClusterReady", 5),
        ("Lift", "TaintToleration", 1),
    ]
    assert notes[0]["text"].endswith(
        "that alone keeps it from a0, a1 or 3 others, with room for 16 at the most"
    )


@pytest.mark.proves("E30")
def test_one_that_two_predicates_refuse_is_not_promised() -> None:
    both = cluster("a", ready=False, unschedulable=True)
    three = cluster("b", ready=False, unschedulable=True)
    asked = info(clusterSelector={"clusterName": "a"})
    decision = decided(asked, both, three)
    assert said(decision) == [
        (
            "nothing by itself; the least stands against a: "
            "ClusterReady (not ready), TaintToleration (unschedulable)"
        )
    ]


@pytest.mark.proves("E30", "C8")
def test_a_workload_refused_as_a_whole() -> None:
    assert said(decided(info(targetCluster={"name": "x"}), cluster("a"))) == [
        "another cluster in spec.targetCluster, or one that is registered by that name"
    ]


@pytest.mark.proves("E30")
def test_a_bound_is_named_where_room_is_not_lacking() -> None:
    asked = info(
        replicas=5,
        distribution="Divided",
        distributionWeights=[
            {
                "clusterSelector": {"matchLabels": {"stowage.dev/cluster": "a"}},
                "weight": 1,
                "maxReplicas": 2,
            }
        ],
    )
    decision = decided(asked, cluster("a", {"stowage.dev/cluster": "a"}), cluster("b", {ZONE: "1"}))
    assert decision.pending == 3
    assert why_pending(decision) == [
        "1 cluster: at the upper bound of spec.distributionWeights",
        "1 cluster: no rule of spec.distributionWeights",
    ]
    assert [(each["kind"], each["gain"]) for each in record(decision)["binding"]] == [
        ("Upper", 3),
    ]
    assert said(decision) == [
        "a greater maxReplicas in spec.distributionWeights for a",
        "a rule in spec.distributionWeights that matches b",
    ]


@pytest.mark.proves("E30")
def test_clusters_that_spread_constraints_leave_out_are_named() -> None:
    asked = info(
        replicas=9,
        distribution="Divided",
        spreadConstraints=[{"topologyKey": "stowage.dev/cluster", "maxDomains": 1}],
    )
    decision = decided(asked, cluster("a", groups=SMALL), cluster("b", groups=SMALL))
    assert decision.pending == 5
    (holder,) = decision.placements
    (other,) = {"a", "b"} - {holder}
    assert why_pending(decision) == [
        "1 cluster: no room for more",
        "1 cluster: left out by spec.spreadConstraints",
    ]
    assert said(decision) == [
        f"5 more replicas need 500m cpu and 1Gi memory each on {holder}",
        f"other bounds in spec.spreadConstraints, which leave out {other}, with room for 4",
    ]


@pytest.mark.proves("E30")
def test_every_filter_that_comes_with_stowage_words_its_own_cures() -> None:
    silent = [p.name for p in default_profile().filter if not hasattr(p, "cure")]
    assert silent == []


def test_a_plugin_that_knows_no_cure_is_named_with_what_it_said() -> None:
    class Mute(PerClusterFilter):
        name = "Mute"

        def fits(self, info: WorkloadInfo, cluster: MemberCluster) -> str:
            return "not today"

    enabled = {"queueSort": [default_profile().queue_sort], "filter": [Mute()]}
    profile = Profile.of("stowage", {**enabled, "assign": default_profile().assign}, {})
    (note,) = record(decided(info(), cluster("a"), profile=profile))["remedies"]
    assert note["text"].startswith("whatever makes Mute say 'not today' no longer: that alone")
