"""Kosmos' WorkloadPolicy and what it binds, imported: the same numbers, and nothing left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stowage.importing import Files, bound, cluster, deployment, policy, runs, spread, subset


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


FLEET = (
    cluster("a", **{"workload-test": "member"}),
    cluster("b", **{"workload-test": "host"}),
    cluster("c"),
)
"""With one cluster too many."""


def planned(files: Files, *objects: Any) -> dict[str, int]:
    return files.planned(*objects, fleet=FLEET)


@pytest.mark.proves("K27")
def test_the_first_example_of_kosmos_goes_through_and_places_two_and_three(files: Files) -> None:
    assert planned(files, policy(scheduleStrategy="Fill"), bound()) == {"a": 2, "b": 3}


def test_what_becomes_of_the_policy_and_its_deployment(files: Files) -> None:
    made = files.imported(policy(scheduleStrategy="Fill"), bound())
    assert list(made) == ["WorkloadPolicy/two-to-three", "Workload/web"]
    assert made["WorkloadPolicy/two-to-three"] == {
        **policy(allocationMethod="Fill"),
        "apiVersion": "stowage.dev/v1alpha1",
    }
    workload = made["Workload/web"]
    assert workload["metadata"] == {
        "name": "web",
        "namespace": "shop",
        "labels": {"stowage.dev/workload-policy": "two-to-three"},
    }
    assert workload["spec"]["schedulerName"] == "stowage"
    assert workload["spec"]["replicas"] == 5
    template = workload["spec"]["targetDeployment"]["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "web", "multi-cluster": "true"}
    assert "schedulerName" not in template["spec"]
    assert files.notes(policy(scheduleStrategy="Fill"), bound()) == [
        (
            "note: WorkloadPolicy two-to-three: spec.scheduleStrategy: Fill is allocationMethod: Fill"
            " now"
        ),
        (
            "note: WorkloadPolicy two-to-three: spec.topologyKey: is a label of MemberClusters now:"
            " give it to each of them, with its domain (member, host)"
        ),
        (
            "note: Deployment web: spec.replicas: is spec.replicas of the Workload now: scale that one,"
            " by hand or by an HPA"
        ),
        (
            "note: Deployment web: spec.template.metadata.labels: workload-policy/kosmos.io is the"
            " label stowage.dev/workload-policy of the Workload now"
        ),
        (
            "note: Deployment web: spec.template.spec.schedulerName: kosmos-scheduler is"
            " spec.schedulerName: stowage of the Workload now; pods get their node from the member's"
            " own scheduler"
        ),
        (
            "note: Deployment web: the policy is Preferred: spec.clusterAffinity keeps the replicas on the"
            " domains that it lists, as Kosmos does; remove that where others may help"
        ),
    ]


def test_units_beyond_a_preferred_policy_stay_on_its_domains_as_in_kosmos(files: Files) -> None:
    one_to_three = [{"name": "member", "replicas": 1}, {"name": "host", "replicas": 3}]
    six = bound(replicas=6)
    assert planned(files, policy(allocationPolicy=one_to_three), six) == {"a": 2, "b": 4}
    required = policy(allocationPolicy=one_to_three, allocationType="Required")
    assert planned(files, required, six) == {"a": 1, "b": 3}
    assert "clusterAffinity" not in files.imported(required, six)["Workload/web"]["spec"]


def test_more_domains_than_one_requirement_takes(files: Files) -> None:
    many = [{"name": f"d{number}", "replicas": 1} for number in range(100)]
    affinity = files.imported(policy(allocationPolicy=many), bound())["Workload/web"]["spec"]
    (terms,) = affinity["clusterAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ].values()
    values = [each["matchExpressions"][0]["values"] for each in terms]
    assert [len(each) for each in values] == [64, 36]


@pytest.mark.parametrize("key", ["workload-policy.kosmos.io", "workload-policy/kosmos.io"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_either_label_binds(files: Files, key: str, kind: str) -> None:
    made = files.imported(policy(), bound(key) | {"kind": kind})["Workload/web"]
    assert made["metadata"]["labels"] == {"stowage.dev/workload-policy": "two-to-three"}
    field = "targetDeployment" if kind == "Deployment" else "template"
    assert made["spec"][field]["kind"] == kind


def test_a_label_on_the_object_alone_binds_with_a_note(files: Files) -> None:
    labelled = deployment(schedulerName="kosmos-scheduler")
    labelled["metadata"]["labels"]["workload-policy.kosmos.io"] = "two-to-three"
    made = files.imported(policy(), labelled)["Workload/web"]
    assert made["metadata"]["labels"] == {"stowage.dev/workload-policy": "two-to-three"}
    assert made["spec"]["targetDeployment"]["metadata"]["labels"] == {"team": "a"}
    assert any("from pods alone" in note for note in files.notes(policy(), labelled))


def test_a_label_that_selects_pods_stays_on_them(files: Files) -> None:
    given = bound()
    given["spec"]["selector"]["matchLabels"]["workload-policy/kosmos.io"] = "two-to-three"
    labels = files.imported(policy(), given)["Workload/web"]["spec"]["targetDeployment"]["spec"][
        "template"
    ]["metadata"]["labels"]
    assert labels["workload-policy/kosmos.io"] == "two-to-three"


def test_labels_that_name_two_policies_are_refused(files: Files) -> None:
    given = bound()
    given["metadata"]["labels"]["workload-policy.kosmos.io"] = "other"
    assert "several policies: other, two-to-three" in files.refusal(policy(), given)


def test_another_scheduler_stays_and_the_policy_holds_with_a_note(files: Files) -> None:
    made = files.imported(policy(), bound(schedulerName="volcano"))["Workload/web"]
    pod = made["spec"]["targetDeployment"]["spec"]["template"]["spec"]
    assert pod["schedulerName"] == "volcano"
    assert any(
        "volcano does not read" in n for n in files.notes(policy(), bound(schedulerName="volcano"))
    )


def test_a_missing_policy_is_named(files: Files) -> None:
    made = files.imported(bound())
    assert list(made) == ["Workload/web"]
    assert any("no WorkloadPolicy two-to-three is among" in note for note in files.notes(bound()))


def test_the_words_of_its_page_are_understood(files: Files) -> None:
    made = files.imported(policy(allocationType="require", allocationMethod="fill"))
    spec = made["WorkloadPolicy/two-to-three"]["spec"]
    assert (spec["allocationType"], spec["allocationMethod"]) == ("Required", "Fill")


def test_the_last_of_two_domains_of_one_name_counts_as_in_kosmos(files: Files) -> None:
    listed = [
        {"name": "a", "replicas": 1},
        {"name": "b", "replicas": 2},
        {"name": "a", "replicas": 5},
    ]
    made = files.imported(policy(allocationPolicy=listed))["WorkloadPolicy/two-to-three"]
    assert made["spec"]["allocationPolicy"] == [
        {"name": "a", "replicas": 5},
        {"name": "b", "replicas": 2},
    ]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"scheduleStrategy": "Fill", "allocationMethod": "Balance"}, "says"),
        ({"allocationType": "Sometimes"}, "none of Required, Preferred"),
        ({"topologyKey": ""}, "spec.topologyKey: is missing"),
        ({"labelSelector": None}, "spec.labelSelector: is missing"),
        ({"allocationPolicy": []}, "spec.allocationPolicy: is missing"),
        ({"allocationPolicy": [{"name": "a", "replicas": -1}]}, "spec.allocationPolicy"),
        ({"allocationPolicy": [{"name": "a", "replicas": "1"}]}, "a whole number, not a text"),
        ({"allocationPolicy": {"a": 1}}, "a list, not an object"),
        ({"allocationPolicy": ["a"]}, "spec.allocationPolicy[0]: an object, not a text"),
        ({"topologyKey": "a b"}, "as WorkloadPolicy two-to-three it is refused: spec.topologyKey"),
    ],
)
def test_what_kosmos_would_refuse_is_an_error_with_its_place(
    files: Files, spec: dict[str, Any], said: str
) -> None:
    error = files.refusal(policy(**spec))
    assert said in error
    assert "in.yaml, document 1: WorkloadPolicy two-to-three: " in error


def test_a_field_that_nobody_knows_is_a_loss(files: Files) -> None:
    [lost] = files.losses(policy(rebalance=True))
    assert "spec.rebalance: is not known" in lost


def test_a_policy_and_a_spread_on_one_object_compose(files: Files) -> None:
    made = files.imported(policy(), bound(), spread(subset("a", 3), subset("b")))
    assert list(made) == [
        "WorkloadPolicy/two-to-three",
        "Workload/web",
        "WorkloadSpread/web-spread",
    ]
    again = files.imported(spread(subset("a", 3), subset("b")), bound(), policy())
    assert again == made


def test_anti_affinity_of_leaf_nodes_is_explained(files: Files) -> None:
    rule = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    given = policy(), bound(affinity=apart)
    assert files.imported(*given)
    assert any("leaf node" in note for note in files.notes(*given))


def test_other_kinds_of_kosmos_are_a_loss_and_a_daemon_set_is_left(files: Files) -> None:
    other = {
        "apiVersion": "kosmos.io/v1alpha1",
        "kind": "PodConvertPolicy",
        "metadata": {"name": "x"},
    }
    [lost] = files.losses(policy(), other)
    assert "Kosmos's PodConvertPolicy has no counterpart" in lost
    daemon = runs("apps/v1", "DaemonSet", template=bound()["spec"]["template"])
    assert list(files.imported(policy(), daemon)) == ["WorkloadPolicy/two-to-three"]


LEAF = {"key": "kosmos.io/node", "operator": "Exists"}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"


def nodes(*terms: Any) -> dict[str, Any]:
    """A node affinity with these alternatives, each a list of requirements."""
    listed = [{"matchExpressions": list(term)} for term in terms]
    return {"nodeAffinity": {HARD: {"nodeSelectorTerms": listed}}}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"kosmos.io/node": "true"}},
        {"tolerations": [LEAF]},
        {"affinity": nodes([LEAF])},
        {"affinity": nodes([{"key": "kosmos.io/node", "operator": "In", "values": ["true"]}])},
    ],
)
def test_what_only_says_a_leaf_node_is_taken_off(files: Files, spec: dict[str, Any]) -> None:
    given = policy(), bound(**spec)
    assert files.imported(*given) == files.imported(policy(), bound())
    assert any("kosmos.io/node says no more" in note for note in files.notes(*given))


SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        (
            {"nodeSelector": {"disk": "ssd", "kosmos.io/node": "true"}},
            {"nodeSelector": {"disk": "ssd"}},
        ),
        (
            {"nodeSelector": {"kosmos.io/node": "false"}},
            {"nodeSelector": {"kosmos.io/node": "false"}},
        ),
        ({"affinity": nodes([LEAF, SSD])}, {"affinity": nodes([SSD])}),
        ({"affinity": nodes([{**LEAF, "operator": "DoesNotExist"}])}, None),
    ],
)
def test_what_chose_among_leaf_nodes_is_a_loss(files: Files, spec: Any, kept: Any) -> None:
    given = policy(), bound(**spec)
    [lost] = files.losses(*given)
    assert "chose leaf nodes" in lost
    held = files.imported(*given, lossy=True)["Workload/web"]["spec"]["targetDeployment"]
    pod = held["spec"]["template"]["spec"]
    assert {key: pod[key] for key in spec} == (kept or spec)


def test_what_holds_inside_of_a_member_is_a_loss_in_an_annotation(files: Files) -> None:
    given = bound()
    annotations = {"kosmos.io/cluster-selector": "{}", "kosmos.io/global": "true"}
    given["spec"]["template"]["metadata"]["annotations"] = annotations
    [lost] = files.losses(policy(), given)
    assert "kosmos.io/cluster-selector holds inside of a member" in lost
    assert any("kosmos.io/global: only Kosmos" in note for note in files.notes(policy(), given))


def test_other_tolerations_stay_with_the_pods(files: Files) -> None:
    own = {"key": "gpu", "operator": "Exists"}
    made = files.imported(policy(), bound(tolerations=[LEAF, own]))["Workload/web"]["spec"]
    assert made["targetDeployment"]["spec"]["template"]["spec"]["tolerations"] == [own]
    assert "tolerations" not in made
