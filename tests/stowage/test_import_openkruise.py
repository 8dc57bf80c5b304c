"""OpenKruise's WorkloadSpread and its targets, imported: kept true, or said and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stowage.importing import (
    KRUISE,
    Files,
    clone_set,
    cluster,
    deployment,
    pod,
    runs,
    spread,
    subset,
    term,
)

ADAPTIVE = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def subsets(files: Files, *objects: Any, lossy: bool = False) -> list[dict[str, Any]]:
    made = files.imported(*objects, lossy=lossy)["WorkloadSpread/web-spread"]
    listed: list[dict[str, Any]] = made["spec"]["subsets"]
    return listed


def test_the_elastic_case(files: Files) -> None:
    given = spread(subset("normal", 100), subset("elastic"), scheduleStrategy=ADAPTIVE)
    made = files.imported(given, deployment())
    assert list(made) == ["Workload/web", "WorkloadSpread/web-spread"]
    assert made["WorkloadSpread/web-spread"] == {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": "web-spread", "namespace": "shop"},
        "spec": {
            "targetRef": {
                "apiVersion": "stowage.dev/v1alpha1",
                "kind": "Workload",
                "name": "web",
            },
            "subsets": [
                {
                    "name": "normal",
                    "requiredNodeSelectorTerm": term("pool", "normal"),
                    "maxReplicas": 100,
                },
                {"name": "elastic", "requiredNodeSelectorTerm": term("pool", "elastic")},
            ],
            "scheduleStrategy": ADAPTIVE,
        },
    }
    held = deployment()
    del held["metadata"]["namespace"], held["spec"]["replicas"]
    assert made["Workload/web"] == {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 10, "targetDeployment": held},
    }
    labels = "the terms choose MemberClusters now, and no nodes: give the clusters these labels:"
    number = "is spec.replicas of the Workload now: scale that one, by hand or by an HPA"
    assert files.notes(given, deployment()) == [
        f"note: Deployment web: spec.replicas: {number}",
        "note: WorkloadSpread web-spread: spec.targetRef: is the Workload web now, which holds the Deployment",
        f"note: WorkloadSpread web-spread: spec.subsets: {labels} pool (normal, elastic)",
    ]


@pytest.mark.parametrize(
    ("kind", "caps", "units", "shares"),
    [
        ("Deployment", [100, None], 80, {"a": 80}),
        ("CloneSet", [100, None], 130, {"a": 100, "b": 30}),
        ("StatefulSet", ["20%", "20%", "60%"], 10, {"a": 2, "b": 2, "c": 6}),
        ("Deployment", [2, 3], 7, {"a": 2, "b": 3, "other": 2}),
    ],
)
def test_the_output_places_as_openkruise_does(
    files: Files, kind: str, caps: list[Any], units: int, shares: dict[str, int]
) -> None:
    fleet = [cluster(name, pool=name) for name in "abc"[: len(caps)]] + [cluster("other")]
    own = {"Deployment": deployment(), "CloneSet": clone_set()}
    target = own.get(kind, runs("apps/v1", "StatefulSet"))
    target["spec"]["replicas"] = units
    given = [subset(name, cap) for name, cap in zip("abc", caps, strict=False)]
    assert files.planned(spread(*given, target=target), target, fleet=fleet) == shares


def test_zones_in_proportion_with_patches(files: Files) -> None:
    arm = {
        "metadata": {"labels": {"arch": "arm"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "300m"}}}]},
    }
    given = [subset("a", "20%"), subset("b", "020%"), subset("c", "60%", patch=arm)]
    made = subsets(files, spread(*given), deployment())
    assert [each["maxReplicas"] for each in made] == ["20%", "20%", "60%"]
    assert made[2]["patch"] == arm


def test_terms_and_weights_stay(files: Files) -> None:
    liked = [{"weight": 10, "preference": term("disk", operator="Exists")}]
    wanted = term("size", "4", operator="Gt")
    only = {"name": "a", "preferredNodeSelectorTerms": liked}
    both = subset("b", requiredNodeSelectorTerm=wanted, preferredNodeSelectorTerms=liked)
    assert subsets(files, spread(only, both), deployment()) == [only, both]


def test_the_names_of_v1beta1(files: Files) -> None:
    liked = [{"weight": 10, "preference": term("disk", operator="Exists")}]
    given = {
        "name": "a",
        "requiredNodeSelector": term("pool", "a"),
        "preferredNodeSelector": liked,
    }
    [made] = subsets(files, spread(given, version="v1beta1"), deployment())
    assert made == subset("a", preferredNodeSelectorTerms=liked)


def test_tolerations_are_for_clusters_and_stay_with_the_pods(files: Files) -> None:
    own = {"key": "gpu", "operator": "Exists"}
    virtual = {"key": "virtual", "operator": "Equal", "value": "yes", "effect": "NoExecute"}
    bounded = {**virtual, "tolerationSeconds": 60}
    given = (
        spread(subset("a", 3), subset("b", tolerations=[bounded])),
        deployment(tolerations=[own]),
    )
    made = subsets(files, *given)[1]
    assert made["tolerations"] == [virtual]
    assert made["patch"] == {"spec": {"tolerations": [own, bounded]}}
    assert any("tolerationSeconds: holds for nodes" in note for note in files.notes(*given))


def test_a_patch_of_tolerations_was_the_last_word(files: Files) -> None:
    patch = {"spec": {"tolerations": []}}
    given = subset("a", tolerations=[{"key": "x", "operator": "Exists"}], patch=patch)
    assert subsets(files, spread(given), deployment())[0]["patch"] == patch


def test_a_patch_that_fits_no_pod_is_refused(files: Files) -> None:
    wrong = subset("a", patch={"spec": {"containers": [{"image": "app:2"}]}})
    assert "spec.subsets[0].patch: " in files.refusal(spread(wrong), deployment())


def test_names_of_nodes_have_no_counterpart(files: Files) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    given = spread(subset("a", requiredNodeSelectorTerm={"matchFields": [field]})), deployment()
    [lost] = files.losses(*given)
    assert "spec.subsets[0].requiredNodeSelectorTerm.matchFields: names nodes" in lost
    assert subsets(files, *given, lossy=True) == [{"name": "a"}]


@pytest.mark.parametrize("caps", [[2, 3], ["20%", "30%"]])
def test_pods_beyond_all_caps_go_to_a_subset_of_their_own(files: Files, caps: list[Any]) -> None:
    given = spread(subset("a", caps[0]), subset("beyond", caps[1])), deployment()
    assert subsets(files, *given)[2:] == [{"name": "beyond-all"}]
    assert any("spec.subsets: a subset beyond-all without a cap" in n for n in files.notes(*given))


def test_adaptive_without_an_open_end_gets_one(files: Files) -> None:
    given = spread(subset("a", 2), subset("b", 3), scheduleStrategy=ADAPTIVE)
    assert subsets(files, given, deployment())[2:] == [{"name": "beyond"}]


def test_percents_beside_numbers_are_a_loss(files: Files) -> None:
    given = spread(subset("a", 3), subset("b", "25%"), subset("c")), deployment()
    [lost] = files.losses(*given)
    assert (
        "spec.subsets[1].maxReplicas: 25% beside numbers is not possible: 3, of 10 replicas" in lost
    )
    assert [s.get("maxReplicas") for s in subsets(files, *given, lossy=True)] == [3, 3, None]


def test_adaptive_that_never_moves_a_pod_is_a_loss(files: Files) -> None:
    given = spread(subset("a"), scheduleStrategy={"type": "Adaptive"}), deployment()
    [lost] = files.losses(*given)
    assert "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds: without seconds" in lost


def test_simulation_stays_switched_off(files: Files) -> None:
    off = {"rescheduleCriticalSeconds": 60, "disableSimulationSchedule": True}
    strategy = {"type": "Adaptive", "adaptive": off}
    made = files.imported(spread(subset("a"), scheduleStrategy=strategy), deployment())
    assert made["WorkloadSpread/web-spread"]["spec"]["scheduleStrategy"] == strategy


@pytest.mark.parametrize(
    ("api_version", "kind", "field"),
    [
        ("apps/v1", "StatefulSet", "replicas"),
        ("apps/v1", "ReplicaSet", "replicas"),
        ("batch/v1", "Job", "parallelism"),
    ],
)
def test_targets_of_other_kinds(files: Files, api_version: str, kind: str, field: str) -> None:
    target = runs(api_version, kind, **{field: 4})
    made = files.imported(spread(subset("a", 2), subset("b"), target=target), target)
    spec = made["Workload/web"]["spec"]
    assert spec["template"]["kind"] == kind
    assert (spec.get("replicas"), spec["template"]["spec"].get("parallelism")) == (
        (4, None) if field == "replicas" else (None, 4)
    )


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("batch/v1/Job", {"completions": 8, "completionMode": "Indexed"}, "spec.completionMode"),
        (
            "apps/v1/StatefulSet",
            {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
            "spec.updateStrategy.rollingUpdate.partition",
        ),
    ],
)
def test_numbers_of_all_pods_that_hold_for_a_share_alone_are_a_loss(
    files: Files, kind: str, spec: dict[str, Any], field: str
) -> None:
    api_version, _, name = kind.rpartition("/")
    target = runs(api_version, name, **spec)
    [lost] = files.losses(spread(subset("a"), target=target), target)
    assert f" {field}: " in lost


def test_completions_are_divided_with_the_units_and_no_loss(files: Files) -> None:
    target = runs("batch/v1", "Job", completions=8, parallelism=4)
    given = (spread(subset("a"), target=target), target)
    assert files.imported(*given)["Workload/web"]["spec"]["template"]["spec"]["completions"] == 8
    assert not any("completion" in note for note in files.notes(*given))


def test_a_rolling_update_is_that_of_each_cluster(files: Files) -> None:
    target = runs("apps/v1", "Deployment", strategy={"rollingUpdate": {"maxUnavailable": 1}})
    made = files.imported(spread(subset("a"), target=target), target)["Workload/web"]["spec"]
    assert made["targetDeployment"]["spec"]["strategy"] == target["spec"]["strategy"]
    notes = files.notes(spread(subset("a"), target=target), target)
    assert "note: Deployment web: spec.strategy: counts in each cluster for itself now" in notes


def test_a_custom_kind_is_counted_at_its_path(files: Files) -> None:
    target = runs("gate.dev/v1", "Trainer", workers={"replicas": 2})
    del target["spec"]["template"]
    chosen = {"replicasPathList": ["spec.workers.replicas"]}
    made = files.imported(spread(subset("a"), target=target, targetFilter=chosen), target)
    spec = made["Workload/web"]["spec"]
    assert spec["replicasPath"] == "spec.workers.replicas"
    assert spec["template"]["spec"] == target["spec"]


def test_a_kind_that_is_known_to_run_whole_has_no_path(files: Files) -> None:
    workers = {"replicas": 2, "template": pod()}
    target = runs("kubeflow.org/v1", "TFJob", tfReplicaSpecs={"Worker": workers})
    del target["spec"]["template"]
    chosen = {"replicasPathList": ["spec.tfReplicaSpecs.Worker.replicas"]}
    given = spread(subset("a", 3), subset("b"), target=target, targetFilter=chosen), target
    [lost] = files.losses(*given)
    assert "spec.targetRef: a TFJob runs whole on one cluster" in lost
    assert "replicasPath" not in files.imported(*given, lossy=True)["Workload/web"]["spec"]
    fleet = [cluster("a", pool="a"), cluster("b", pool="b")]
    assert sum(files.planned(*given, fleet=fleet, lossy=True).values()) == 1


def test_a_filter_of_pods_is_a_loss_unless_it_takes_all(files: Files) -> None:
    some = {"selector": {"matchLabels": {"role": "worker"}}}
    [lost] = files.losses(spread(subset("a"), targetFilter=some), deployment())
    assert "spec.targetFilter.selector: a spread counts all replicas" in lost
    everything = {"selector": {"matchLabels": {"app": "web"}}}
    assert files.imported(spread(subset("a"), targetFilter=everything), deployment())


# --- workloads of OpenKruise ----------------------------------------------------------------------


def converted(files: Files, target: dict[str, Any], *, lossy: bool = False) -> dict[str, Any]:
    given = spread(subset("a"), target=target)
    spec = files.imported(given, target, lossy=lossy)["Workload/web"]["spec"]
    held: dict[str, Any] = spec.get("targetDeployment") or spec["template"]
    return held


def test_a_clone_set_becomes_a_deployment(files: Files) -> None:
    target = clone_set(minReadySeconds=5, revisionHistoryLimit=3)
    held = deployment(replicas=10)
    assert converted(files, target) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {
            "selector": held["spec"]["selector"],
            "template": held["spec"]["template"],
            "minReadySeconds": 5,
            "revisionHistoryLimit": 3,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "20%", "maxSurge": 0},
            },
        },
    }


@pytest.mark.parametrize(
    ("update", "made"),
    [
        ({"maxUnavailable": 1, "maxSurge": "10%"}, {"maxUnavailable": 1, "maxSurge": "10%"}),
        ({"type": "InPlaceIfPossible", "partition": 0}, {"maxUnavailable": "20%", "maxSurge": 0}),
        (
            {"inPlaceUpdateStrategy": {"gracePeriodSeconds": 9}},
            {"maxUnavailable": "20%", "maxSurge": 0},
        ),
    ],
)
def test_how_a_clone_set_updates(files: Files, update: Any, made: dict[str, Any]) -> None:
    spec = converted(files, clone_set(updateStrategy=update))["spec"]
    assert spec["strategy"]["rollingUpdate"] == made


def test_a_paused_clone_set_is_a_paused_deployment(files: Files) -> None:
    spec = converted(files, clone_set(updateStrategy={"paused": True}))["spec"]
    assert spec["paused"] is True
    assert "paused" not in spec["strategy"]["rollingUpdate"]


CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}}}, "spec.lifecycle"),
        ({"updateStrategy": {"type": "InPlaceOnly"}}, "spec.updateStrategy.type"),
        ({"updateStrategy": {"partition": "50%"}}, "spec.updateStrategy.partition"),
        (
            {"updateStrategy": {"priorityStrategy": {"orderPriority": [{"orderedKey": "a"}]}}},
            "spec.updateStrategy.priorityStrategy",
        ),
        (
            {"updateStrategy": {"scatterStrategy": [{"key": "a", "value": "b"}]}},
            "spec.updateStrategy.scatterStrategy",
        ),
        ({"updateStrategy": {"maxUnavailable": 0}}, "spec.updateStrategy.maxUnavailable"),
        ({"scaleStrategy": {"maxUnavailable": 1}}, "spec.scaleStrategy.maxUnavailable"),
        ({"volumeClaimTemplates": [CLAIM]}, "spec.volumeClaimTemplates"),
        ({"newField": 1}, "spec.newField"),
        ({"updateStrategy": {"newField": 1}}, "spec.updateStrategy.newField"),
    ],
)
def test_what_a_clone_set_loses(files: Files, spec: dict[str, Any], field: str) -> None:
    target = clone_set(**spec)
    [lost] = files.losses(spread(subset("a"), target=target), target)
    assert f"CloneSet web: {field}: " in lost
    assert converted(files, target, lossy=True)["kind"] == "Deployment"


@pytest.mark.parametrize(
    ("version", "scale"), [("v1alpha1", {"disablePVCReuse": True}), ("v1beta1", {})]
)
def test_claims_that_go_with_their_pod_are_kept_true(
    files: Files, version: str, scale: dict[str, Any]
) -> None:
    cache = {"name": "cache", "emptyDir": {}}
    target = clone_set(
        version=version,
        volumeClaimTemplates=[CLAIM],
        scaleStrategy=scale,
        template=pod(volumes=[cache, {"name": "data", "emptyDir": {}}]),
    )
    volumes = converted(files, target)["spec"]["template"]["spec"]["volumes"]
    ephemeral = {"volumeClaimTemplate": {"spec": CLAIM["spec"]}}
    assert volumes == [cache, {"name": "data", "ephemeral": ephemeral}]


def test_gates_that_openkruise_would_open_are_taken_off(files: Files) -> None:
    gates = [{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "mine"}]
    made = converted(files, clone_set(template=pod(readinessGates=gates)))["spec"]["template"]
    assert made["spec"]["readinessGates"] == [{"conditionType": "mine"}]


def test_labels_that_openkruise_reads_are_pointed_at(files: Files) -> None:
    target = clone_set(template=pod(labels={"apps.kruise.io/x": "y"}))
    notes = files.notes(spread(subset("a"), target=target), target)
    assert any("apps.kruise.io/x: has an effect only on members" in note for note in notes)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"reserveOrdinals": [1]}, "spec.reserveOrdinals"),
        ({"lifecycle": {"preDelete": {}}}, "spec.lifecycle"),
        ({"scaleStrategy": {"maxUnavailable": 1}}, "spec.scaleStrategy"),
        ({"volumeClaimUpdateStrategy": {"type": "OnDelete"}}, "spec.volumeClaimUpdateStrategy"),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": 2}}},
            "spec.updateStrategy.rollingUpdate.partition",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"paused": True}}},
            "spec.updateStrategy.rollingUpdate.paused",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"unorderedUpdate": {"priorityStrategy": {}}}}},
            "spec.updateStrategy.rollingUpdate.unorderedUpdate",
        ),
    ],
)
def test_what_its_stateful_set_loses(files: Files, spec: dict[str, Any], field: str) -> None:
    target = runs("apps.kruise.io/v1beta1", "StatefulSet", replicas=3, **spec)
    [lost] = files.losses(spread(subset("a"), target=target), target)
    assert f"StatefulSet web: {field}: " in lost


def test_its_stateful_set_becomes_that_of_apps(files: Files) -> None:
    rolling = {"podUpdatePolicy": "InPlaceIfPossible", "minReadySeconds": 9, "maxUnavailable": 2}
    target = runs(
        "apps.kruise.io/v1beta1",
        "StatefulSet",
        replicas=3,
        serviceName="web",
        volumeClaimTemplates=[CLAIM],
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling},
    )
    made = converted(files, target)
    assert made["apiVersion"] == "apps/v1"
    assert made["spec"]["minReadySeconds"] == 9
    assert made["spec"]["volumeClaimTemplates"] == [CLAIM]
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 2}


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (spread(subset("a")), "no Deployment web of apps in namespace shop is among the files"),
        (spread(), "spec.subsets: is missing"),
        (spread(subset("a"), version="v2"), "of OpenKruise, v1alpha1, v1beta1 are known"),
        (spread(subset("a", "50.2%")), "'50.2%' is neither a number of pods nor whole percents"),
        (spread(subset("a", "5")), "'5' is neither"),
        (spread(subset("a", -1)), "-1 is neither"),
        (spread(subset("a", True)), "True is neither"),
        (spread(subset("a", "60%"), subset("b", "70%")), "the percents of maxReplicas"),
        (spread(subset("a"), subset("a")), "only one element with name a"),
        (spread({"maxReplicas": 1}), "spec.subsets[0].name: is missing"),
        (
            spread(subset("a", requiredNodeSelectorTerm=term("size", 4))),
            "matchExpressions[0].values: values are texts: write them in quotes",
        ),
        (spread("a"), "spec.subsets[0]: an object, not a text"),
        (spread(subset("a"), scheduleStrategy="Fill"), "spec.scheduleStrategy: an object"),
        (spread(subset("a"), scheduleStrategy={"type": "Sometimes"}), "scheduleStrategy.type"),
        (spread(subset("a", tolerations={"key": "a"})), "tolerations: a list, not an object"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_place(files: Files, given: Any, said: str) -> None:
    objects = [given] if "no Deployment" in said else [given, deployment()]
    error = files.refusal(*objects)
    assert said in error
    assert "in.yaml, document 1: WorkloadSpread web-spread: " in error


def test_two_spreads_of_one_target_are_refused(files: Files) -> None:
    other = spread(subset("a")) | {"metadata": {"name": "other", "namespace": "shop"}}
    assert "document 2 has this one" in files.refusal(spread(subset("a")), other, deployment())


def test_other_kinds_of_openkruise_are_a_loss(files: Files) -> None:
    other = {"apiVersion": KRUISE, "kind": "SidecarSet", "metadata": {"name": "x"}, "spec": {}}
    [lost] = files.losses(spread(subset("a")), deployment(), other)
    assert "OpenKruise's SidecarSet has no counterpart" in lost
    assert "Workload/web" in files.imported(spread(subset("a")), deployment(), other, lossy=True)


@pytest.mark.parametrize(
    "place",
    [
        ("spec",),
        ("spec", "subsets", 0),
        ("spec", "subsets", 0, "requiredNodeSelectorTerm"),
        ("spec", "subsets", 0, "patch"),
        ("spec", "scheduleStrategy"),
        ("spec", "targetRef"),
        ("metadata",),
        (),
    ],
)
def test_no_field_is_dropped_in_silence(files: Files, place: tuple[Any, ...]) -> None:
    given = spread(subset("a", 1, patch={"metadata": {"labels": {"a": "b"}}}), subset("b"))
    given["spec"]["scheduleStrategy"] = dict(ADAPTIVE)
    inner: Any = given
    for key in place:
        inner = inner[key]
    inner["brandNew"] = {"deep": 1}
    [lost] = files.losses(given, deployment())
    assert "brandNew: is not known" in lost
