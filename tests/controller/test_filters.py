"""Each filter: which clusters it refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from crds.workload import ScheduledReason, WorkloadState

from .make import (
    REQUIRED,
    ZONE,
    beside,
    cluster,
    decided,
    expression,
    index,
    info,
    required_terms,
    verdicts,
)

GOOD = ""


def selected(selector: dict[str, Any], *clusters: Any) -> dict[str, str]:
    return verdicts(decided(info(clusterSelector=selector), *clusters))


@pytest.mark.proves("C5", "C25")
class TestOutcome:
    """What the condition and the state say."""

    def test_the_one_cluster_that_matches_gets_all(self) -> None:
        decision = decided(info(replicas=3), cluster("a"))
        assert decision.placements == {"a": 3}
        assert (decision.desired, decision.pending) == (3, 0)
        assert decision.reason is ScheduledReason.SCHEDULED
        assert decision.message == "3 of 3 replicas have a cluster"

    def test_a_refusal_counts_clusters_by_reason_the_most_frequent_first(self) -> None:
        decision = decided(
            info(clusterSelector={"tier": "gold"}),
            cluster("a"),
            cluster("b", {"tier": "gold"}, ready=False),
            cluster("c"),
        )
        assert decision.message == "0/3 clusters: 2 didn't match clusterSelector, 1 not ready"
        assert decision.reason is ScheduledReason.FAILED_TO_SCHEDULE
        assert decision.state is WorkloadState.FAILED
        assert (decision.placements, decision.pending) == ({}, 2)

    def test_equal_counts_go_by_text(self) -> None:
        decision = decided(info(), cluster("a", unschedulable=True), cluster("b", ready=False))
        assert decision.message == "0/2 clusters: 1 not ready, 1 unschedulable"

    @pytest.mark.proves("C4")
    def test_no_cluster_at_all_is_failed_and_says_so(self) -> None:
        decision = decided(info())
        assert decision.state is WorkloadState.FAILED
        assert decision.message == "0/0 clusters: none registered"

    def test_only_room_lacking_is_pending(self) -> None:
        decision = decided(info(replicas=1000), cluster("a"), cluster("b", ready=False))
        assert decision.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert decision.state is WorkloadState.PENDING
        assert decision.message == "0/2 clusters: 1 insufficient cpu, 1 not ready"

    def test_the_first_filter_in_order_names_the_reason(self) -> None:
        found = cluster("a", ready=False, unschedulable=True)
        assert selected({"tier": "gold"}, found) == {"a": "didn't match clusterSelector"}
        assert selected({}, found) == {"a": "not ready"}


@pytest.mark.proves("C8")
class TestNamedCluster:
    """spec.targetCluster."""

    def test_only_that_one_is_considered(self) -> None:
        decision = decided(info(targetCluster={"name": "b"}), cluster("a"), cluster("b"))
        assert verdicts(decision) == {"a": "didn't match targetCluster", "b": GOOD}
        assert list(decision.placements) == ["b"]

    def test_a_missing_one_is_named(self) -> None:
        decision = decided(info(targetCluster={"name": "demo-cluster"}), cluster("a"))
        assert decision.state is WorkloadState.FAILED
        assert decision.reason is ScheduledReason.FAILED_TO_SCHEDULE
        assert decision.message == "0/1 clusters: cluster demo-cluster not found"
        assert decision.pending == 2

    def test_the_namespace_is_that_of_its_secret(self) -> None:
        found = cluster("a", secretRef={"name": "a", "namespace": "fleet"})
        there = info(targetCluster={"name": "a", "namespace": "fleet"})
        elsewhere = info(targetCluster={"name": "a", "namespace": "other"})
        assert verdicts(decided(there, found)) == {"a": GOOD}
        assert verdicts(decided(elsewhere, found)) == {"a": "didn't match targetCluster"}

    def test_it_and_a_selector_must_both_hold(self) -> None:
        both = info(targetCluster={"name": "a"}, clusterSelector={"tier": "gold"})
        decision = decided(both, cluster("a"), cluster("b", {"tier": "gold"}))
        assert decision.state is WorkloadState.FAILED
        assert decision.message == (
            "0/2 clusters: 1 didn't match clusterSelector, 1 didn't match targetCluster"
        )


class TestClusterSelector:
    """spec.clusterSelector."""

    @pytest.mark.proves("C11")
    def test_every_pair_must_hold(self) -> None:
        found = selected(
            {"tier": "gold", "foo": "bar"},
            cluster("a", {"tier": "gold"}),
            cluster("b", {"tier": "gold", "foo": "bar"}),
            cluster("c", {"tier": "iron", "foo": "bar"}),
        )
        refused = "didn't match clusterSelector"
        assert found == {"a": refused, "b": GOOD, "c": refused}

    @pytest.mark.proves("C9")
    @pytest.mark.parametrize(
        "selector", [{"clusterName": "b"}, {"clusterNamespace": "fleet"}], ids=str
    )
    def test_name_and_namespace_are_reserved_keys(self, selector: dict[str, str]) -> None:
        found = selected(
            selector,
            cluster("a", secretRef={"name": "a", "namespace": "stowage-system"}),
            cluster("b", secretRef={"name": "b", "namespace": "fleet"}),
        )
        assert [name for name, reason in found.items() if reason == GOOD] == ["b"]

    @pytest.mark.proves("C10")
    @pytest.mark.parametrize("key", ["cloudProvider", "clusterProvider"])
    @pytest.mark.parametrize("value", ["GCP", "gcp", "Gcp"])
    def test_the_provider_is_found_whatever_its_case(self, key: str, value: str) -> None:
        found = selected(
            {key: value},
            cluster("a", status={"provider": "aws"}),
            cluster("b", status={"provider": "gcp"}),
            cluster("c", {"stowage.dev/provider": "GCP"}),
            cluster("d"),
        )
        assert [name for name, reason in found.items() if reason == GOOD] == ["b", "c"]

    @pytest.mark.proves("C10")
    @pytest.mark.parametrize("value", ["1.11.4", "v1.11.4"])
    def test_the_version_is_exact_with_or_without_its_v(self, value: str) -> None:
        found = selected(
            {"clusterVersion": value},
            cluster("a", status={"version": "v1.11.4"}),
            cluster("b", status={"version": "v1.11.40"}),
            cluster("c", {"stowage.dev/version": "v1.11.4"}),
            cluster("d"),
        )
        assert [name for name, reason in found.items() if reason == GOOD] == ["a", "c"]

    def test_a_label_of_a_reserved_name_counts_too(self) -> None:
        assert selected({"cloudProvider": "own"}, cluster("a", {"cloudProvider": "own"})) == {
            "a": GOOD
        }


AGENT_OLD = [{"type": each, "status": "True"} for each in ("Ready", "AgentOld")]
LABELS = {"zone": "z1", "size": "10", "word": "many"}
OPERATORS = [
    (expression("zone", "In", "z0", "z1"), True),
    (expression("zone", "In", "z0"), False),
    (expression("none", "In", "z1"), False),
    (expression("zone", "NotIn", "z0"), True),
    (expression("zone", "NotIn", "z1"), False),
    (expression("none", "NotIn", "z1"), True),
    (expression("zone", "Exists"), True),
    (expression("none", "Exists"), False),
    (expression("zone", "DoesNotExist"), False),
    (expression("none", "DoesNotExist"), True),
    (expression("size", "Gt", "9"), True),
    (expression("size", "Gt", "10"), False),
    (expression("word", "Gt", "1"), False),
    (expression("none", "Gt", "1"), False),
    (expression("size", "Lt", "11"), True),
    (expression("size", "Lt", "10"), False),
    (expression("word", "Lt", "1"), False),
]


@pytest.mark.proves("C13")
class TestClusterAffinity:
    """spec.clusterAffinity, required."""

    @pytest.mark.parametrize(("requirement", "holds"), OPERATORS, ids=str)
    def test_six_operators(self, requirement: dict[str, Any], holds: bool) -> None:
        asked = info(clusterAffinity=required_terms([requirement]))
        reason = GOOD if holds else "didn't match clusterAffinity"
        assert verdicts(decided(asked, cluster("a", LABELS))) == {"a": reason}

    @pytest.mark.parametrize(
        ("terms", "holds"),
        [
            ([[expression("zone", "In", "z0")], [expression("size", "Exists")]], True),
            ([[expression("zone", "In", "z1"), expression("none", "Exists")]], False),
            ([[expression("zone", "In", "z1"), expression("size", "Exists")]], True),
            ([[]], False),
            ([[], [expression("zone", "Exists")]], True),
            ([], False),
        ],
        ids=["ored", "anded-no", "anded-yes", "empty", "empty-and-another", "no-terms"],
    )
    def test_terms_are_ored_and_expressions_anded(self, terms: Any, holds: bool) -> None:
        asked = info(clusterAffinity=required_terms(*terms))
        assert bool(decided(asked, cluster("a", LABELS)).placements) is holds


class TestState:
    """What a cluster's own state says."""

    @pytest.mark.parametrize(
        ("found", "reason"),
        [
            (cluster("a", ready=False), "not ready"),
            (cluster("a", status={"conditions": []}), "not ready"),
            (cluster("a", deleting=True), "being deleted"),
            (cluster("a", status={"conditions": AGENT_OLD}), "agent too old (AgentOld)"),
            (cluster("a", unschedulable=True), "unschedulable"),
        ],
        ids=lambda found: found if isinstance(found, str) else "",
    )
    @pytest.mark.proves("PL20")
    def test_new_units_go_to_healthy_clusters_only(self, found: Any, reason: str) -> None:
        assert verdicts(decided(info(), found)) == {"a": reason}

    @pytest.mark.parametrize(
        ("effect", "tolerations", "holds"),
        [
            ("NoSchedule", [], False),
            ("NoExecute", [], False),
            ("PreferNoSchedule", [], True),
            ("NoSchedule", [{"operator": "Exists"}], True),
            ("NoSchedule", [{"key": "maintenance", "value": "yes"}], True),
            ("NoSchedule", [{"key": "maintenance", "value": "no"}], False),
            ("NoSchedule", [{"key": "maintenance", "operator": "Exists"}], True),
            ("NoSchedule", [{"key": "other", "operator": "Exists"}], False),
            ("NoSchedule", [{"operator": "Exists", "effect": "NoExecute"}], False),
        ],
    )
    def test_hard_taints_need_a_toleration(
        self, effect: str, tolerations: list[Any], holds: bool
    ) -> None:
        tainted = cluster("a", taints=[{"key": "maintenance", "value": "yes", "effect": effect}])
        reason = GOOD if holds else "had taints that were not tolerated"
        assert verdicts(decided(info(tolerations=tolerations), tainted)) == {"a": reason}

    @pytest.mark.parametrize(
        ("allow", "target", "holds"),
        [
            (["*"], "shop", True),
            (["shop"], "shop", True),
            (["team-*"], "team-a", True),
            (["team-*"], "shop", False),
            (["team-?", "shop"], "team-ab", False),
            ([], "shop", False),
        ],
    )
    def test_a_cluster_takes_the_namespaces_that_its_rule_allows(
        self, allow: list[str], target: str, holds: bool
    ) -> None:
        asked = info(targetNamespace=target)
        reason = GOOD if holds else f"namespace {target} is not allowed"
        found = cluster("a", namespaces={"allow": allow})
        assert verdicts(decided(asked, found)) == {"a": reason}

    @pytest.mark.proves("N18")
    @pytest.mark.parametrize(
        ("told", "holds"),
        [
            ({}, True),
            ({"refused": ["other"]}, True),
            ({"refused": ["other", "shop"]}, False),
            ({"given": ["other", "shop"]}, True),
            ({"given": ["other"]}, False),
            ({"given": []}, False),
        ],
    )
    def test_a_member_takes_the_namespaces_that_were_given_there(
        self, told: dict[str, Any], holds: bool
    ) -> None:
        reason = GOOD if holds else "namespace shop was not given to Stowage"
        found = cluster("a", status={"namespaces": told})
        assert verdicts(decided(info(), found)) == {"a": reason}

    @pytest.mark.proves("N18")
    def test_what_a_member_says_of_its_namespaces_moves_nothing(self) -> None:
        refusing = cluster("a", status={"namespaces": {"given": []}})
        decision = decided(info(replicas=2, present={"a": 2}), refusing, cluster("b"))
        assert decision.placements == {"a": 2}

    @pytest.mark.parametrize("target", ["kube-system", "kube-public", "stowage-system"])
    def test_some_namespaces_are_never_a_target(self, target: str) -> None:
        decision = decided(info(targetNamespace=target), cluster("a"), cluster("b"))
        assert decision.message == f"0/2 clusters: 2 namespace {target} is never a target"

    @pytest.mark.proves("S1")
    @pytest.mark.parametrize(
        ("listed", "holds"),
        [
            ([], False),
            (["rbac.authorization.k8s.io/Role"], False),
            (["rbac.authorization.k8s.io/Role", "core/Namespace", "core/Node"], True),
        ],
    )
    def test_a_cluster_takes_the_guarded_kinds_that_it_lists(
        self, listed: list[str], holds: bool
    ) -> None:
        asked = info(
            manifests=[
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"},
                {"apiVersion": "v1", "kind": "ConfigMap"},
            ]
        )
        said = "core/Namespace, rbac.authorization.k8s.io/Role not in spec.allowedKinds"
        found = cluster("a", allowedKinds=listed)
        assert verdicts(decided(asked, found)) == {"a": GOOD if holds else said}

    def test_who_brings_along_nothing_guarded_needs_no_list(self) -> None:
        asked = info(manifests=[{"apiVersion": "v1", "kind": "ConfigMap"}, {"kind": 5}])
        assert verdicts(decided(asked, cluster("a"))) == {"a": GOOD}


class TestRoom:
    """ClusterResources."""

    def test_single_needs_room_for_all_units_in_one_cluster(self) -> None:
        decision = decided(info(replicas=17), cluster("a"), cluster("b"))
        assert verdicts(decision) == {"a": "insufficient cpu", "b": "insufficient cpu"}
        assert decided(info(replicas=16), cluster("a")).placements == {"a": 16}

    def test_the_lacking_resource_is_named(self) -> None:
        poor = {"count": 1, "free": {"cpu": "8", "memory": "1Gi", "pods": "110"}}
        full = {"count": 1, "free": {"cpu": "8", "memory": "32Gi", "pods": "1"}}
        mixed = [
            {"count": 1, "free": {"cpu": "8", "memory": "0", "pods": "9"}},
            {"count": 1, "free": {"cpu": "0", "memory": "32Gi", "pods": "9"}},
        ]
        found = verdicts(
            decided(
                info(),
                cluster("a", groups=[poor]),
                cluster("b", groups=[full]),
                cluster("c", groups=mixed),
            )
        )
        assert found == {
            "a": "insufficient memory",
            "b": "insufficient pods",
            "c": "insufficient room",
        }

    def test_a_kind_without_replicas_is_not_checked(self) -> None:
        decision = decided(info(kind="DaemonSet"), cluster("a", groups=[]))
        assert decision.placements == {"a": 1}

    def test_units_that_are_there_count_as_room(self) -> None:
        one = {"count": 1, "free": {"cpu": "500m", "memory": "1Gi", "pods": "1"}}
        asked = info(replicas=3, present={"a": 2})
        decision = decided(asked, cluster("a", groups=[one]), cluster("b", groups=[]))
        assert decision.placements == {"a": 3}


TOWARD, AWAY = "workloadAffinity", "workloadAntiAffinity"
SIBLING = info("sibling", labels={"app": "front"})


@pytest.mark.proves("C16", "C18")
class TestWorkloadAffinity:
    """Required rules between Workloads."""

    ZONED = (
        cluster("a", {ZONE: "x"}),
        cluster("b", {ZONE: "x"}),
        cluster("c", {ZONE: "y"}),
        cluster("d"),
    )

    def reasons(self, asked: Any, *placed: Any) -> dict[str, str]:
        return verdicts(decided(asked, *self.ZONED, bound=index(*placed)))

    def test_affinity_wants_a_domain_that_holds_a_match(self) -> None:
        asked = info("front", workloadAffinity={REQUIRED: [beside("back", ZONE)]})
        refused = "didn't match workloadAffinity"
        found = self.reasons(asked, (info("back"), {"b": 1}))
        assert found == {"a": GOOD, "b": GOOD, "c": refused, "d": refused}

    def test_affinity_to_nobody_is_refused_with_a_reason(self) -> None:
        asked = info("front", workloadAffinity={REQUIRED: [beside("back")]})
        decision = decided(asked, *self.ZONED)
        assert decision.state is WorkloadState.FAILED
        assert decision.message == "0/4 clusters: 4 didn't match workloadAffinity"

    @pytest.mark.parametrize(
        ("rules", "others", "good"),
        [
            ({TOWARD: [beside("back", ZONE)]}, [info("back"), {"a": 0}], ""),
            ({TOWARD: [beside("back", ZONE)]}, [info("back", namespace="bank"), {"a": 1}], ""),
            (
                {TOWARD: [beside("back", ZONE), beside("cache")]},
                [info("back"), {"a": 1}, info("cache"), {"b": 1}],
                "b",
            ),
            ({AWAY: [beside("back", ZONE)]}, [info("back"), {"a": 1}], "cd"),
            ({AWAY: [beside("back", ZONE)]}, [info("back"), {"d": 1}], "abcd"),
            ({TOWARD: [beside("front", ZONE)]}, [SIBLING, {"c": 1}], "c"),
            ({TOWARD: [beside("front", ZONE)]}, [SIBLING, {"gone": 1}], "abc"),
            (
                {},
                [info("friend", workloadAffinity={REQUIRED: [beside("front")]}), {"b": 2}],
                "abcd",
            ),
        ],
    )
    def test_what_others_hold_lets_it_in_or_keeps_it_out(
        self, rules: Any, others: list[Any], good: str
    ) -> None:
        asked = info("front", **{field: {REQUIRED: terms} for field, terms in rules.items()})
        found = self.reasons(asked, *zip(others[::2], others[1::2], strict=True))
        assert "".join(name for name, reason in found.items() if reason == GOOD) == good

    def test_anti_affinity_is_symmetric(self) -> None:
        holder = info("loner", workloadAntiAffinity={REQUIRED: [beside("front", ZONE)]})
        refused = "kept away by another Workload's workloadAntiAffinity"
        found = self.reasons(info("front"), (holder, {"b": 2}))
        assert found == {"a": refused, "b": refused, "c": GOOD, "d": GOOD}
        assert set(self.reasons(info("other"), (holder, {"b": 2})).values()) == {GOOD}

    def test_the_first_of_a_set_that_wants_its_own_kind_is_let_in_where_the_key_is(self) -> None:
        asked = info(
            "one", labels={"app": "set"}, workloadAffinity={REQUIRED: [beside("set", ZONE)]}
        )
        refused = "didn't match workloadAffinity"
        assert self.reasons(asked) == {"a": GOOD, "b": GOOD, "c": GOOD, "d": refused}

    def test_one_that_forbids_its_own_kind_does_not_forbid_itself(self) -> None:
        rule = {REQUIRED: [beside("front", ZONE)]}
        asked = info("front", present={"a": 1}, workloadAntiAffinity=rule)
        assert set(self.reasons(asked, (asked, {"a": 1})).values()) == {GOOD}


@pytest.mark.proves("Q9")
class TestBothFormsOfASelector:
    """Labels alone are the matchLabels of a selector, and an expression reads reserved keys too."""

    def test_they_select_the_same_clusters_and_are_no_edit_of_each_other(self) -> None:
        there = [cluster("a", {"tier": "gold"}), cluster("b")]
        labels = {"tier": "gold", "clusterName": "a"}
        for form in (labels, {"matchLabels": labels}):
            assert selected(form, *there) == {"a": GOOD, "b": "didn't match clusterSelector"}
        one, other = (
            info(clusterSelector=form, distributionWeights=[{"clusterSelector": form, "weight": 1}])
            for form in (labels, {"matchLabels": labels})
        )
        assert one.hash == other.hash

    def test_expressions(self) -> None:
        there = [cluster("a", {"tier": "gold"}, provider="gcp"), cluster("b", provider="AWS")]

        def found(key: str, operator: str, *values: str) -> set[str]:
            each = {"key": key, "operator": operator, "values": [*values]}
            told = selected({"matchExpressions": [each]}, *there)
            return {name for name, text in told.items() if text == GOOD}

        assert found("tier", "Exists") == {"a"}
        assert found("tier", "DoesNotExist") == {"b"}
        assert found("cloudProvider", "In", "gcp", "azure") == {"a"}
        assert found("cloudProvider", "NotIn", "GCP") == {"b"}
        assert found("clusterName", "NotIn", "b") == {"a"}
