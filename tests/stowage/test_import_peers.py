"""`stowage import` of OCM, KubeFleet, KubeFed and Argo CD, and of systems without a counterpart."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from machinery.kinds.revisions import digest_of, revision_data
from stowage.setup import install
from tests.stowage.importing import Files, Made, cluster, deployment, run, written

OCM, WORK = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
FLEET, FLEETS = "placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"


def thing(
    api_version: str, kind: str, name: str, namespace: str = "", **body: Any
) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    found = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return copy.deepcopy({**found, **body})


def planned(tmp_path: Path, made: Made, fleet: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Where a plan of the Workloads puts the replicas, by Workload."""
    out, there = tmp_path / "out.yaml", tmp_path / "fleet.yaml"
    out.write_text(written(*(b for b in made.bodies if b["kind"] != "MemberCluster")))
    there.write_text(written(*(cluster(name, **has) for name, has in fleet.items())))
    plan = run("plan", "-f", out, "--fleet", there, "-o", "json")
    assert plan.exit_code == 0, plan.output
    return {
        each["name"]: {p["cluster"]: p["replicas"] for p in each["placements"]}
        for each in json.loads(plan.stdout)["workloads"]
    }


# --- Open Cluster Management ----------------------------------------------------------------------


def placement(**spec: Any) -> dict[str, Any]:
    return thing(f"{OCM}/v1beta1", "Placement", "p", "shop", spec=spec)


def labels(**pairs: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": pairs}}


def predicate(**selector: Any) -> dict[str, Any]:
    return {"requiredClusterSelector": selector}


def replica_set(strategy: Any = None, **template: Any) -> dict[str, Any]:
    ref = {"name": "p"} | ({"rolloutStrategy": strategy} if strategy else {})
    given = {"workload": {"manifests": [deployment(replicas=1)]}, **template}
    spec = {"placementRefs": [ref], "manifestWorkTemplate": given}
    return thing(f"{WORK}/v1alpha1", "ManifestWorkReplicaSet", "set", "shop", spec=spec)


def managed(name: str, **has: str) -> dict[str, Any]:
    found = thing(f"{OCM}/v1", "ManagedCluster", name, spec={"hubAcceptsClient": True})
    found["metadata"]["labels"] = has
    return found


def terms(spec: Mapping[str, Any]) -> Any:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    return spec["clusterAffinity"][rule]["clusterSelectorTerms"]


CANARY = [{"groupName": "canary", "groupClusterSelector": labels(canary="yes")}]
GROUPS = {"groupStrategy": {"decisionGroups": CANARY}}


@pytest.mark.proves("IM9")
def test_decision_groups_are_waves_of_their_clusters() -> None:
    strategy = {
        "type": "Progressive",
        "progressive": {
            "mandatoryDecisionGroups": [{"groupName": "canary"}],
            "maxConcurrency": "25%",
            "minSuccessTime": "5m",
            "progressDeadline": "10m",
        },
    }
    made = Made(placement(decisionStrategy=GROUPS), replica_set(strategy))
    assert made["Workload/web"]["rollout"] == {
        "waves": [
            {
                "name": "canary",
                "clusterSelector": {"matchLabels": {"canary": "yes"}},
                "maxConcurrent": "100%",
                "soakSeconds": 300,
            },
            {
                "name": "others",
                "clusterSelector": {},
                "maxConcurrent": "25%",
                "soakSeconds": 300,
            },
        ],
        "progressDeadlineSeconds": 600,
    }
    text = made.noted["set: spec.placementRefs[0].rolloutStrategy.type"]
    assert "creations alone (v1.0.0), or for a rule for Progressing (v1.2.0)" in text
    assert made.lost == {}


@pytest.mark.proves("IM9")
@pytest.mark.parametrize("most", [0, "0%", None])
def test_no_cluster_at_once_is_all_of_them(most: Any) -> None:
    strategy = {"type": "Progressive", "progressive": {"maxConcurrency": most}}
    made = Made(placement(), replica_set(strategy))
    waves = made["Workload/web"]["rollout"]["waves"]
    assert [each["maxConcurrent"] for each in waves] == ["100%"]
    assert made.lost == {}


@pytest.mark.proves("IM9")
def test_failures_above_the_number_of_clusters_count_as_none() -> None:
    def failing(most: Any) -> Made:
        strategy = {"type": "Progressive", "progressive": {"maxFailures": most}}
        return Made(placement(), replica_set(strategy), managed("a"), managed("b"))

    path = "set: spec.placementRefs[0].rolloutStrategy.progressive.maxFailures"
    assert "3 of 2 clusters counts as 0 there" in failing(3).noted[path]
    assert failing(3).lost == {}
    assert path in failing(1).lost
    assert failing(0).lost == {}


@pytest.mark.proves("IM9")
def test_the_old_name_of_the_type_is_lost_by_name() -> None:
    made = Made(placement(), replica_set({"rolloutType": "Progressive"}))
    path = "set: spec.placementRefs[0].rolloutStrategy.rolloutType"
    assert "old field" in made.lost[path]
    assert "rollout" not in made["Workload/web"]


@pytest.mark.proves("IM9")
def test_each_group_in_turn() -> None:
    strategy = {"type": "ProgressivePerGroup", "progressivePerGroup": {}}
    groups = {
        "groupStrategy": {
            "decisionGroups": [
                *CANARY,
                {"groupName": "eu", "groupClusterSelector": labels(region="eu")},
            ]
        }
    }
    made = Made(placement(decisionStrategy=groups), replica_set(strategy))
    waves = made["Workload/web"]["rollout"]["waves"]
    assert [each["name"] for each in waves] == ["canary", "eu"]


def test_a_placement_is_terms() -> None:
    made = Made(
        placement(
            clusterSets=["prod", "edge"],
            numberOfClusters=2,
            predicates=[
                predicate(**labels(vendor="a")),
                predicate(
                    claimSelector={
                        "matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]
                    }
                ),
            ],
            tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSelect"}],
            prioritizerPolicy={"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}}]},
        ),
        replica_set(),
    )
    spec = made["Workload/web"]
    sets = {"key": f"{OCM}/clusterset", "operator": "In", "values": ["prod", "edge"]}
    region = {"key": "region", "operator": "In", "values": ["eu"]}
    assert terms(spec) == [
        {"matchLabels": {"vendor": "a"}, "matchExpressions": [sets]},
        {"matchExpressions": [sets, region]},
    ]
    assert spec["spreadConstraints"] == [{"topologyKey": "stowage.dev/cluster", "maxDomains": 2}]
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert list(made.lost) == ["p: spec.prioritizerPolicy.configurations"]
    assert any("claims are labels" in text for text in made.noted.values())


def test_sets_that_are_bound_or_chosen_by_labels() -> None:
    bound = thing(
        f"{OCM}/v1beta2", "ManagedClusterSetBinding", "eu", "shop", spec={"clusterSet": "eu"}
    )
    chosen = thing(
        f"{OCM}/v1beta2",
        "ManagedClusterSet",
        "eu",
        spec={"clusterSelector": {"selectorType": "LabelSelector", **labels(region="eu")}},
    )
    made = Made(placement(), replica_set(), bound, chosen)
    assert terms(made["Workload/web"]) == [{"matchLabels": {"region": "eu"}}]


def test_a_work_goes_to_the_cluster_of_its_namespace() -> None:
    option = {"propagationPolicy": "Orphan"}
    spec = {"workload": {"manifests": [deployment(replicas=2)]}, "deleteOption": option}
    spec["manifestConfigs"] = [
        {
            "resourceIdentifier": {"group": "apps", "resource": "deployments", "name": "web"},
            "updateStrategy": {"type": "CreateOnly"},
            "feedbackRules": [{"type": "WellKnownStatus"}],
        }
    ]
    made = Made(thing(f"{WORK}/v1", "ManifestWork", "one", "cluster1", spec=spec))
    found = made["Workload/web"]
    assert found["targetCluster"] == {"name": "cluster1"}
    assert (found["onDelete"], found["drift"]) == ("Orphan", "Report")
    assert list(made.lost) == ["one: spec.manifestConfigs[0].feedbackRules"]
    assert made.bodies[0]["metadata"]["namespace"] == "shop"


def test_works_of_a_set_are_left_out() -> None:
    work = thing(f"{WORK}/v1", "ManifestWork", "one", "c1", spec={"workload": {"manifests": []}})
    work["metadata"]["labels"] = {f"{WORK}/manifestworkreplicaset": "shop.set"}
    [entry] = Made(work).report
    assert (entry["field"], entry["fate"]) == ("", "noted")


# --- KubeFleet ------------------------------------------------------------------------------------


def picked(
    kind: str = "ClusterResourcePlacement", selectors: Any = None, **spec: Any
) -> dict[str, Any]:
    selected = selectors or [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    given = {"resourceSelectors": selected, **spec}
    space = "" if kind.startswith("Cluster") else "shop"
    return thing(f"{FLEET}/v1beta1", kind, "crp", space, spec=given)


def fleet(name: str, **has: str) -> dict[str, Any]:
    found = thing(f"{FLEETS}/v1beta1", "MemberCluster", name, spec={})
    found["metadata"]["labels"] = has
    return found


def resource_override(*rules: Any, selectors: Any = None, name: str = "ro") -> dict[str, Any]:
    meant = selectors or [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}]
    spec = {"resourceSelectors": meant, "policy": {"overrideRules": list(rules)}}
    return thing(f"{FLEET}/v1beta1", "ResourceOverride", name, "shop", spec=spec)


def on(path: str, value: Any, op: str = "replace", **has: str) -> dict[str, Any]:
    selected = {"clusterSelectorTerms": [labels(**has)] if has else []}
    patch = [{"op": op, "path": path, "value": value}]
    return {"clusterSelector": selected, "jsonPatchOverrides": patch}


STAGES = [
    {"name": "staging", **labels(stage="staging"), "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]},
    {"name": "canary", **labels(stage="canary"), "maxConcurrency": 2,
     "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "30m"}]},
    {"name": "prod", **labels(stage="prod"), "maxConcurrency": "25%"},
]  # fmt: skip


def staged(stages: Any) -> list[dict[str, Any]]:
    run_ = {"placementName": "crp", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0"}
    return [
        thing(f"{FLEET}/v1beta1", "ClusterStagedUpdateStrategy", "s", spec={"stages": stages}),
        thing(f"{FLEET}/v1beta1", "ClusterStagedUpdateRun", "r", spec=run_),
        picked(strategy={"type": "External"}),
        deployment(replicas=1),
    ]


@pytest.mark.proves("IM10")
def test_stages_are_waves_in_their_order() -> None:
    made = Made(*staged(STAGES))
    waves = made["Workload/web"]["rollout"]["waves"]
    selectors = [each.pop("clusterSelector") for each in waves]
    assert selectors == [{"matchLabels": {"stage": s}} for s in ("staging", "canary", "prod")]
    assert waves == [
        {"name": "staging", "maxConcurrent": 1, "soakSeconds": 3600},
        {"name": "canary", "maxConcurrent": 2, "soakSeconds": 1800, "approval": True},
        {"name": "prod", "maxConcurrent": "25%"},
    ]
    assert made.lost == {}
    text = "is rounded up; there down, to 1 at least"
    assert made.noted["s: spec.stages[2].maxConcurrency"].startswith(text)


@pytest.mark.proves("IM10")
def test_a_stage_without_a_selector_takes_no_cluster() -> None:
    def waves_of(first: Any) -> tuple[list[str], Any]:
        made = Made(*staged([{"name": "first", **first}, *STAGES[2:]]))
        waves = made["Workload/web"]["rollout"]["waves"]
        return [each["name"] for each in waves], made.lost

    names, lost = waves_of({})
    assert names == ["prod"]
    assert list(lost) == ["s: spec.stages[0].labelSelector"]
    assert waves_of({"labelSelector": {}}) == (["first", "prod"], {})


@pytest.mark.proves("IM10")
def test_a_plan_of_an_edit_shows_the_waves(tmp_path: Path) -> None:
    [before] = Made(*staged(STAGES)).bodies
    edited = copy.deepcopy(before)
    edited["spec"]["targetDeployment"]["metadata"]["labels"] = {"a": "new"}
    revision = digest_of(revision_data(before["spec"]))
    names = [f"m-{stage}" for stage in ("prod", "canary", "staging")]
    before["status"] = {
        "placements": [{"cluster": name, "replicas": 1} for name in names],
        "rollout": {"phase": "Complete", "stable": revision, "revision": revision, "waves": []},
    }
    members = [cluster(name, stage=name.removeprefix("m-")) for name in names]
    files = Files(tmp_path)
    there = files.write(*members, before, name="fleet.yaml")
    text = run("plan", "-f", files.write(edited), "--fleet", there).output
    waves = [" ".join(line.split()) for line in text.splitlines() if "m-" in line][1:]
    assert [wave.split()[0] for wave in waves] == ["staging", "canary", "prod"], text
    assert ["approval" in wave for wave in waves] == [False, True, False]


@pytest.mark.proves("IM10")
def test_a_task_before_a_stage_is_an_approval_of_the_wave_before() -> None:
    stages = copy.deepcopy(STAGES)
    stages[2]["beforeStageTasks"] = [{"type": "Approval"}]
    stages[1]["afterStageTasks"] = []
    waves = Made(*staged(stages))["Workload/web"]["rollout"]["waves"]
    assert [each.get("approval", False) for each in waves] == [False, True, False]
    stages[0]["beforeStageTasks"] = [{"type": "Approval"}]
    assert list(Made(*staged(stages)).lost) == ["s: spec.stages[0].beforeStageTasks"]


@pytest.mark.proves("IM10")
def test_an_override_of_an_envelope_lies_over_the_object_in_it() -> None:
    conf = thing("v1", "ConfigMap", "conf", "shop", data={"a": "b"})
    envelope = thing(f"{FLEET}/v1beta1", "ResourceEnvelope", "e", "shop",
                     data={"c/m.yaml": conf, "web": deployment(replicas=1)})  # fmt: skip
    meant = [{"group": FLEET, "version": "v1beta1", "kind": "ResourceEnvelope", "name": "e"}]
    image = "/data/web/spec/template/spec/containers/0/image"
    rules = (
        on("/data/c~1m.yaml/data/a", "eu", region="eu"),
        on(image, "app:${MEMBER-CLUSTER-NAME}"),
    )
    select = [{"group": FLEET, "version": "v1beta1", "kind": "ResourceEnvelope", "name": "e"}]
    made = Made(
        picked("ResourcePlacement", select),
        envelope,
        resource_override(*rules, selectors=meant),
    )
    assert made.lost == {}
    clusters = {"m1": {"region": "eu"}, "m2": {}}
    rendered = made.rendered("Workload/crp", clusters, kind="ConfigMap")
    assert [rendered[name]["data"]["a"] for name in clusters] == ["eu", "b"]
    web = made.rendered("Workload/web", clusters)
    images = [web[n]["spec"]["template"]["spec"]["containers"][0]["image"] for n in clusters]
    assert images == ["app:m1", "app:m2"]


def test_cluster_wide_overrides_come_first_and_terms_are_alternatives() -> None:
    wide = thing(
        f"{FLEET}/v1beta1",
        "ClusterResourceOverride",
        "z",
        spec={
            "clusterResourceSelectors": [
                {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
            ],
            "policy": {"overrideRules": [on("/metadata/labels/a", "wide", "add")]},
        },
    )
    rule = on("/metadata/labels/a", "narrow", "add", region="eu")
    rule["clusterSelector"]["clusterSelectorTerms"].append(labels(zone="1"))
    made = Made(picked(), deployment(replicas=1), wide, resource_override(rule, name="a"))
    clusters = {
        "m1": {"region": "eu"},
        "m2": {"zone": "1"},
        "m3": {},
        "m4": {"region": "eu", "zone": "1"},
    }
    found = made.rendered("Workload/web", clusters)
    got = [found[name]["metadata"]["labels"]["a"] for name in clusters]
    assert got == ["narrow", "narrow", "wide", "narrow"]
    none = resource_override({"jsonPatchOverrides": [], "overrideType": "JSONPatch"})
    assert "overrides" not in Made(picked(), deployment(replicas=1), none)["Workload/web"]
    gone = resource_override({**on("/a", 1), "overrideType": "Delete"})
    assert list(Made(picked(), deployment(replicas=1), gone).lost) == [
        "ro: spec.policy.overrideRules[0].overrideType"
    ]


@pytest.mark.proves("IM7")
def test_kubefleet_numbers_on_named_clusters(tmp_path: Path) -> None:
    policy = {"placementType": "PickFixed", "clusterNames": ["m1", "m2"]}
    said = resource_override(on("/spec/replicas", 4, region="eu"))
    given = picked(policy=policy), deployment(replicas=1), said
    assert "which clusters get this number" in next(iter(Made(*given).lost.values()))
    made = Made(*given, fleet("m1", region="eu"), fleet("m2"))
    assert planned(tmp_path, made, {"m1": {}, "m2": {}}) == {"web": {"m1": 4, "m2": 1}}


def test_what_a_placement_picks() -> None:
    def spec(**policy: Any) -> dict[str, Any]:
        return Made(picked(policy=policy), deployment(replicas=1), *FLEET_OF_TWO)["Workload/web"]

    assert "clusterAffinity" not in spec(placementType="PickAll")
    fixed = spec(placementType="PickFixed", clusterNames=["m1"])
    assert terms(fixed)[0]["matchExpressions"][0]["values"] == ["m1"]
    skew = {"maxSkew": 1, "topologyKey": "region", "whenUnsatisfiable": "DoNotSchedule"}
    some = spec(placementType="PickN", numberOfClusters=2, topologySpreadConstraints=[skew])
    assert some["spreadConstraints"] == [
        {"topologyKey": "region", "minDomains": 2},
        {"topologyKey": "stowage.dev/cluster", "maxDomains": 2},
    ]
    rule = "DuringSchedulingIgnoredDuringExecution"
    affinity = {
        f"required{rule}": {"clusterSelectorTerms": [labels(a="b")]},
        f"preferred{rule}": [{"weight": 20, "preference": labels(c="d")}],
    }
    found = spec(placementType="PickAll", affinity={"clusterAffinity": affinity})
    assert terms(found) == [{"matchLabels": {"a": "b"}}]
    assert found["clusterAffinity"][f"preferred{rule}"] == [
        {"weight": 20, "preference": {"matchLabels": {"c": "d"}}}
    ]


FLEET_OF_TWO = (fleet("m1", region="eu"), fleet("m2", region="us"))


def test_how_a_placement_applies() -> None:
    said = {"whenToTakeOver": "IfNoDiff", "whenToApply": "IfNotDrifted", "type": "ReportDiff"}
    strategy: dict[str, Any] = {"applyStrategy": said}
    spec = Made(picked(strategy=strategy), deployment(replicas=1))["Workload/web"]
    assert (spec["adoption"], spec["drift"], spec["delivery"]) == ("IfNoDiff", "Report", "None")
    strategy["rollingUpdate"] = {"maxUnavailable": "50%"}
    both = Made(picked(strategy=strategy), deployment(replicas=1))
    assert "nothing is rolled out" in both.lost["crp: spec.strategy.type"]
    del strategy["applyStrategy"]
    [wave] = Made(picked(strategy=strategy), deployment(replicas=1))["Workload/web"]["rollout"][
        "waves"
    ]
    assert wave["maxConcurrent"] == "50%"


def test_the_later_group_of_kubefleet_is_lost_by_kind() -> None:
    made = Made(thing("placement.kubefleet.dev/v1", "ClusterResourcePlacement", "x", spec={"a": 1}))
    assert list(made.lost) == ["x: "]
    assert [each["field"] for each in made.report] == [""]


# --- KubeFed --------------------------------------------------------------------------------------


def federated(kind: str = "Deployment", name: str = "web", **spec: Any) -> dict[str, Any]:
    template = deployment(replicas=3)
    given = {"template": {"spec": template["spec"]}, **spec}
    return thing("types.kubefed.io/v1beta1", f"Federated{kind}", name, "shop", spec=given)


def fed(name: str, **has: str) -> dict[str, Any]:
    found = thing("core.kubefed.io/v1beta1", "KubeFedCluster", name, "kube-federation-system")
    found["metadata"]["labels"] = has
    return found | {"spec": {"apiEndpoint": "https://x", "secretRef": {"name": "s"}}}


@pytest.mark.proves("IM11")
@pytest.mark.parametrize(
    ("placement", "where"),
    [
        ({"clusters": []}, []),
        ({"clusterSelector": {}}, ["a", "b"]),
        ({}, []),
        ({"clusterSelector": {"matchLabels": {"region": "eu"}}}, ["a"]),
        ({"clusters": [{"name": "b"}], "clusterSelector": {}}, ["b"]),
        ({"clusters": [], "clusterSelector": {}}, []),
    ],
)
def test_where_a_federated_object_goes(tmp_path: Path, placement: Any, where: list[str]) -> None:
    made = Made(federated(placement=placement))
    found = planned(tmp_path, made, {"a": {"region": "eu"}, "b": {}})["web"]
    assert found == dict.fromkeys(where, 3)


@pytest.mark.proves("IM11")
def test_a_preference_divides(tmp_path: Path) -> None:
    preference = thing(
        "scheduling.kubefed.io/v1alpha1",
        "ReplicaSchedulingPreference",
        "web",
        "shop",
        spec={
            "targetKind": "FederatedDeployment",
            "totalReplicas": 10,
            "clusters": {"a": {"weight": 2}, "b": {"weight": 3}},
        },
    )
    made = Made(federated(placement={"clusterSelector": {}}), preference)
    assert planned(tmp_path, made, {"a": {}, "b": {}, "c": {}}) == {"web": {"a": 4, "b": 6}}
    bounded = copy.deepcopy(preference)
    bounded["spec"]["clusters"] = {
        "a": {"minReplicas": 3, "maxReplicas": 4, "weight": 1},
        "*": {"weight": 9},
    }
    weights = Made(federated(), bounded)["Workload/web"]["distributionWeights"]
    assert [(w["weight"], w.get("minReplicas"), w.get("maxReplicas")) for w in weights] == [
        (1, 3, 4),
        (9, None, None),
    ]
    assert list(Made(preference).lost) == ["web: spec.targetKind"]


@pytest.mark.proves("IM7")
def test_kubefed_numbers_on_named_clusters(tmp_path: Path) -> None:
    overrides = [
        {
            "clusterName": "b",
            "clusterOverrides": [
                {"path": "/spec/replicas", "value": 5},
                {"path": "/spec/template/spec/containers/0/image", "value": "app:2"},
            ],
        }
    ]
    placed = {"clusters": [{"name": "a"}, {"name": "b"}]}
    made = Made(federated(placement=placed, overrides=overrides))
    assert planned(tmp_path, made, {"a": {}, "b": {}}) == {"web": {"a": 3, "b": 5}}
    rendered = made.rendered("Workload/web", {"a": {}, "b": {}})
    images = [rendered[n]["spec"]["template"]["spec"]["containers"][0]["image"] for n in "ab"]
    assert images == ["app:1", "app:2"]
    by_selector = Made(federated(placement={"clusterSelector": {}}, overrides=overrides))
    assert "not certain" in by_selector.lost["web: spec.overrides[0].clusterOverrides"]


def test_kinds_of_kubefed_are_those_of_their_configuration() -> None:
    target = {"group": "example.com", "version": "v1", "kind": "Widget", "pluralName": "widgets"}
    config = thing(
        "core.kubefed.io/v1beta1",
        "FederatedTypeConfig",
        "widgets.example.com",
        "kube-federation-system",
        spec={"targetType": target, "federatedType": {"kind": "FederatedWidget"}},
    )
    widget = federated("Widget", placement={"clusters": [{"name": "a"}]}, retainReplicas=True)
    made = Made(config, widget)
    [body] = made["Workload/web"]["manifests"]
    assert (body["apiVersion"], body["kind"]) == ("example.com/v1", "Widget")
    assert list(made.lost) == ["web: spec.retainReplicas"]
    assert "FederatedTypeConfig" in Made(widget).lost["web: "]


def test_clusters_of_kubefed_are_stubs() -> None:
    [body] = Made(fed("a", region="eu")).bodies
    assert body["metadata"] == {"name": "a", "labels": {"region": "eu"}}
    assert body["spec"] == {}


# --- Argo CD, and others --------------------------------------------------------------------------


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CANARIES = ("canary-token", coded("canary-token"), "canary-plain")


def argo_secret() -> dict[str, Any]:
    found = thing("v1", "Secret", "cluster-1", "argocd")
    found["metadata"]["labels"] = {"argocd.argoproj.io/secret-type": "cluster", "tier": "gold"}
    data = {
        "name": coded("member-1"),
        "server": coded("https://x"),
        "config": coded("canary-token"),
    }
    return found | {"type": "Opaque", "data": data, "stringData": {"config": "canary-plain"}}


def test_cluster_secrets_of_argo_cd_are_stubs() -> None:
    made = Made(argo_secret())
    [body] = made.bodies
    assert body["metadata"] == {"name": "member-1", "labels": {"tier": "gold"}}
    assert made.lost == {}


def test_a_clusters_generator_is_told_what_takes_its_place() -> None:
    inner = {"matrix": {"generators": [{"clusters": {}}, {"git": {}}]}}
    found = thing(
        "argoproj.io/v1alpha1",
        "ApplicationSet",
        "apps",
        "argocd",
        spec={"generators": [{"clusters": {"selector": {}}}, inner], "template": {}},
    )
    noted = Made(found).noted
    paths = ("spec.generators[0].clusters", "spec.generators[1].matrix.generators[0].clusters")
    assert all("clusterDecisionResource" in noted[f"apps: {path}"] for path in paths)
    (config, *_) = install.load("argocd/generator.yaml", namespace="argocd")
    assert f"configMapRef: {config['metadata']['name']} " in noted[f"apps: {paths[0]}"]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("fleet.cattle.io/v1alpha1", "GitRepo"),
        ("config.projectsveltos.io/v1beta1", "ClusterProfile"),
        ("lib.projectsveltos.io/v1beta1", "SveltosCluster"),
    ],
)
def test_other_systems_are_lost_in_one_line(version: str, kind: str) -> None:
    made = Made(thing(version, kind, "x", "shop", spec={"a": 1, "b": [2]}))
    [text] = made.lost.values()
    assert "`stowage wrap`" in text
    assert [(each["field"], each["fate"]) for each in made.report] == [("", "lost")]


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.proves("IM14")
def test_no_value_of_a_secret_is_printed(tmp_path: Path) -> None:
    """A canary in every place that a Secret may stand in, whatever else is wrong with it."""
    plain = thing("v1", "Secret", "pw", "shop", data={"a": CANARIES[1]})
    plain["stringData"] = {"b": CANARIES[2]}
    plain["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"x": CANARIES[0]})
    }
    take = thing(
        "policy.karmada.io/v1alpha1",
        "PropagationPolicy",
        "p",
        "shop",
        spec={
            "resourceSelectors": [
                {"apiVersion": "v1", "kind": "Secret"},
                {"apiVersion": "apps/v1", "kind": "Deployment"},
            ]
        },
    )
    work = thing(f"{WORK}/v1", "ManifestWork", "w", "c1",
                 spec={"workload": {"manifests": [plain]}})  # fmt: skip
    fed_secret = federated("Secret", placement={"clusters": [{"name": "a"}]})
    fed_secret["spec"]["template"] = {"data": {"a": CANARIES[1]}, "type": "Opaque"}
    fed_secret["spec"]["overrides"] = [
        {"clusterName": "a", "clusterOverrides": [{"path": "/data/a", "value": CANARIES[1]}]}
    ]
    web = deployment(volumes=[{"name": "a", "secret": {"secretName": "pw"}}])
    report = tmp_path / "report.json"
    for given in (
        [plain, take, web],
        [plain, take],
        [work],
        [fed_secret],
        [argo_secret()],
        [plain],
        [{**plain, "data": [CANARIES[0]]}, take, web],
        [{**argo_secret(), "data": CANARIES[0]}],
    ):
        file = Files(tmp_path).write(*given)
        result = run("import", "-f", file, "--lossy", "--report", report)
        told = result.output + str(result.exception) + report.read_text()
        assert not [canary for canary in CANARIES if canary in told], told
