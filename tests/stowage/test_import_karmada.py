"""`stowage import` of Karmada: which policy counts, what it becomes, and what differs by cluster."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from machinery.errors import ConfigurationError
from stowage.importing.reading import text_selector
from tests.stowage.importing import Files, Made, cluster, deployment, run, runs, written

DATA = Path(__file__).parents[1] / "data"
POLICIES = json.loads((DATA / "import" / "karmada_policies.json").read_text())
RECORDED = json.loads((DATA / "import" / "karmada_overrides.json").read_text())
STATIC = json.loads((DATA / "oracles" / "karmada_static.json").read_text())["cases"]
PERMANENT = "propagationpolicy.karmada.io"


def policy(
    *selectors: Mapping[str, Any],
    name: str = "p",
    kind: str = "PropagationPolicy",
    placement: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A policy that takes the Deployments, unless it is given selectors."""
    metadata = {"name": name} | ({} if kind.startswith("Cluster") else {"namespace": "shop"})
    listed = list(selectors) or [select()]
    given = {"resourceSelectors": listed, "placement": placement or {}, **spec}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": copy.deepcopy(given),
    }


def select(kind: str = "Deployment", version: str = "apps/v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, **more}


def override(*rules: Any, name: str = "o", **spec: Any) -> dict[str, Any]:
    """An OverridePolicy: of each rule its target and its overriders."""
    listed = [{"targetCluster": target, "overriders": said} for target, said in rules]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"overrideRules": listed, **spec},
    }


def member(name: str, **parts: Any) -> dict[str, Any]:
    labels = parts.pop("labels", {})
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"syncMode": "Push", **parts},
    }


def names(*listed: str) -> dict[str, Any]:
    return {"clusterNames": list(listed)}


def plain(path: str, value: Any, operator: str = "replace") -> dict[str, Any]:
    return {"plaintext": [{"path": path, "operator": operator, "value": value}]}


def beside(kind: str, name: str, version: str = "v1", **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


def weighted(*rules: tuple[Any, int]) -> dict[str, Any]:
    listed = [{"targetCluster": target, "weight": weight} for target, weight in rules]
    return {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": listed},
    }


# --- which policy ---------------------------------------------------------------------------------


@pytest.mark.proves("IM5")
@pytest.mark.parametrize("case", POLICIES["cases"], ids=lambda each: each["name"])
def test_the_policy_that_karmada_takes_counts(case: Mapping[str, Any]) -> None:
    """Each policy has a label of its own for clusters, by which the Workload tells it."""
    listed = copy.deepcopy(case["policies"] + case["clusterPolicies"])
    for each in listed:
        each["spec"]["placement"] = {
            "clusterAffinity": names(f"{each['kind']}-{each['metadata']['name']}".lower())
        }
    made = Made(*listed, POLICIES["object"])
    assert made.names == (["Workload/web"] if case["expected"] else [])
    if case["expected"]:
        kind, name = case["expected"].split()
        assert f"{kind}-{name}".lower() in json.dumps(made["Workload/web"]["clusterAffinity"])


@pytest.mark.proves("IM5")
def test_a_claim_counts_for_more() -> None:
    claimed = deployment()
    claimed["metadata"]["annotations"] = {
        f"{PERMANENT}/name": "z",
        f"{PERMANENT}/namespace": "shop",
    }
    claimed["metadata"]["labels"][f"{PERMANENT}/permanent-id"] = "1-2-3"
    a = policy(select(name="web"), name="a", placement={"clusterAffinity": names("by-rule")})
    z = policy(name="z", placement={"clusterAffinity": names("by-claim")})
    made = Made(a, z, claimed)
    assert "by-claim" in json.dumps(made["Workload/web"]["clusterAffinity"])
    assert "karmada.io" not in made.text
    alone = Made(a, claimed)
    assert alone.names == []
    assert "claimed by the PropagationPolicy z" in alone.lost["web: "]


# --- order ----------------------------------------------------------------------------------------


def shop() -> list[dict[str, Any]]:
    return [
        policy(select(), select("Service", "v1"), select("ConfigMap", "v1"), name="web"),
        policy(select("StatefulSet"), name="db", placement={"clusterAffinity": names("m1")}),
        override(
            (names("m1"), plain("/metadata/labels/a", "b", "add")),
            name="b",
            resourceSelectors=[select()],
        ),
        override(
            (names("m1", "m2"), plain("/metadata/labels/a", "c", "add")),
            name="a",
            resourceSelectors=[select()],
        ),
        deployment(),
        runs("apps/v1", "StatefulSet", replicas=2)
        | {"metadata": {"name": "db", "namespace": "shop"}},
        beside("Service", "web", spec={"selector": {"app": "web"}}),
        beside("ConfigMap", "rest"),
        member("m1", region="eu", labels={"tier": "gold"}),
        member("m2"),
    ]


def turned(value: Any) -> Any:
    """The value with the keys of its objects in the other order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(each) for each in value] if isinstance(value, list) else value


@pytest.mark.proves("IM3")
def test_any_order_gives_the_same_bytes(tmp_path: Path) -> None:
    given = shop()
    first = Made(*given).text
    for seed in range(10):
        mixed = list(given)
        random.Random(seed).shuffle(mixed)
        assert Made(*mixed).text == first
    assert Made(*map(turned, given)).text == first
    listed = {"apiVersion": "v1", "kind": "List", "items": given[::-1]}
    several = Files(tmp_path)
    a, b = several.write(*given[:5], name="a.yaml"), several.write(*given[5:], name="b.yaml")
    for args in (("-f", several.write(listed)), ("-f", a, "-f", b), ("-f", b, "-f", a)):
        assert run("import", *args).stdout == first


# --- weights --------------------------------------------------------------------------------------


def planned(tmp_path: Path, made: Made, *fleet: str) -> dict[str, int]:
    """Where a plan of the Workloads puts the replicas of web."""
    out, there = tmp_path / "out.yaml", tmp_path / "fleet.yaml"
    out.write_text(written(*(b for b in made.bodies if b["kind"] != "MemberCluster")))
    labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in made.bodies}
    there.write_text(written(*(cluster(name, **labels.get(name, {})) for name in fleet)))
    plan = run("plan", "-f", out, "--fleet", there, "-o", "json")
    assert plan.exit_code == 0, plan.output
    found = {w["name"]: w for w in json.loads(plan.stdout)["workloads"]}
    return {each["cluster"]: each["replicas"] for each in found["web"]["placements"]}


def divided(replicas: int, *rules: tuple[Any, int], fleet: Any = ("m1", "m2")) -> Made:
    placement = {"clusterAffinity": names(*fleet), "replicaScheduling": weighted(*rules)}
    return Made(policy(placement=placement), deployment(replicas=replicas), *map(member, fleet))


@pytest.mark.proves("IM6")
def test_weights_ten_to_one(tmp_path: Path) -> None:
    made = divided(11, (names("m2"), 1), (names("m1"), 10))
    assert planned(tmp_path, made, "m1", "m2") == {"m1": 10, "m2": 1}


@pytest.mark.proves("IM6")
def test_weights_above_a_hundred_are_divided_by_what_divides_them() -> None:
    made = divided(10, (names("m1"), 300), (names("m2"), 700))
    weights = made["Workload/web"]["distributionWeights"]
    assert [each["weight"] for each in weights] == [7, 3]
    assert list(divided(10, (names("m1"), 301), (names("m2"), 701)).lost) == [
        "p: spec.placement.replicaScheduling.weightPreference.staticWeightList"
    ]


@pytest.mark.proves("IM6")
def test_of_two_rules_on_a_cluster_the_greater_counts(tmp_path: Path) -> None:
    made = divided(6, (names("m1", "m2"), 1), (names("m1"), 5))
    assert planned(tmp_path, made, "m1", "m2") == {"m1": 5, "m2": 1}


@pytest.mark.proves("IM6")
def test_a_cluster_without_a_weight_gets_none(tmp_path: Path) -> None:
    made = divided(4, (names("m1"), 1))
    assert planned(tmp_path, made, "m1", "m2") == {"m1": 4}


@pytest.mark.proves("IM6")
def test_a_list_that_matches_no_cluster_weighs_all_the_same(tmp_path: Path) -> None:
    made = divided(4, (names("gone"), 7))
    assert planned(tmp_path, made, "m1", "m2") == {"m1": 2, "m2": 2}
    assert any("match no cluster of the input" in text for text in made.noted.values())


@pytest.mark.proves("IM6")
@pytest.mark.parametrize("case", STATIC, ids=lambda each: each["id"])
def test_shares_differ_by_one_at_most(tmp_path: Path, case: Mapping[str, Any]) -> None:
    fleet = [each["name"] for each in case["candidates"]]
    rules = [(names(*each["clusters"]), each["weight"]) for each in case["rules"]]
    made = divided(case["replicas"], *rules, fleet=fleet)
    found, wanted = planned(tmp_path, made, *fleet), case["expected"]
    assert all(abs(found.get(name, 0) - wanted.get(name, 0)) <= 1 for name in fleet)
    assert any("weights leave over, another cluster may get one" in t for t in made.noted.values())


# --- numbers on clusters --------------------------------------------------------------------------

THREE = {"clusterAffinity": names("m1", "m2", "m3")}


@pytest.mark.proves("IM7")
def test_a_number_on_named_clusters(tmp_path: Path) -> None:
    said = override(
        (names("m1"), plain("/spec/replicas", 5)), (names("m2"), plain("/spec/replicas", 0))
    )
    made = Made(policy(placement=THREE), deployment(replicas=2), said)
    assert planned(tmp_path, made, "m1", "m2", "m3") == {"m1": 5, "m3": 2}
    assert made["Workload/web"].get("overrides") is None
    assert made.lost == {}


@pytest.mark.proves("IM7")
def test_a_number_beside_those_that_static_weights_give(tmp_path: Path) -> None:
    placement = {**THREE, "replicaScheduling": weighted((names("m1"), 10), (names("m2"), 1))}
    said = override((names("m2"), plain("/spec/replicas", 3)))
    made = Made(policy(placement=placement), deployment(replicas=11), said)
    assert planned(tmp_path, made, "m1", "m2", "m3") == {"m1": 10, "m2": 3}
    assert made.lost == {}
    lost = Made(policy(placement=placement), deployment(replicas=12), said).lost
    text = "how many replicas m1 has beside them is not certain"  # one of the twelve is left over
    assert text in lost["o: spec.overrideRules[0].overriders"]
    # Where the free room of clusters weighs, static weights count no more.
    placement["replicaScheduling"]["weightPreference"]["dynamicWeight"] = "AvailableReplicas"
    lost = Made(policy(placement=placement), deployment(replicas=11), said).lost
    assert text in lost["o: spec.overrideRules[0].overriders"]


@pytest.mark.proves("IM7")
def test_a_number_by_labels_needs_the_clusters(tmp_path: Path) -> None:
    said = override(({"labelSelector": {"matchLabels": {"a": "b"}}}, plain("/spec/replicas", 5)))
    given = policy(placement=THREE), deployment(replicas=2), said
    text = "which clusters get this number is not certain"
    assert text in Made(*given).lost["o: spec.overrideRules[0].overriders"]
    fleet = [member("m1", labels={"a": "b"}), member("m2"), member("m3")]
    found = planned(tmp_path, Made(*given, *fleet), "m1", "m2", "m3")
    assert found == {"m1": 5, "m2": 2, "m3": 2}


# --- overriders -----------------------------------------------------------------------------------


def facts_of(made: Made) -> dict[str, dict[str, str]]:
    found = {}
    for body in made.bodies:
        if body["kind"] == "MemberCluster":
            provider = body["spec"].get("provider")
            labels = body["metadata"].get("labels", {})
            own = {"stowage.dev/provider": provider} if provider else {}
            found[body["metadata"]["name"]] = {**labels, **own}
    return found


def comparable(body: Any, *, digests: bool) -> Any:
    """An object without what our form of it lacks, and without digests where these are kept."""
    text = json.dumps(body)
    found = json.loads(text)
    if digests:
        found = json.loads(text.replace(f"@sha256:{'0123456789abcdef' * 4}", ""))
    found["metadata"].pop("namespace", None)
    for field in ("labels", "annotations"):
        if not found["metadata"].get(field):
            found["metadata"].pop(field, None)
    found.get("spec", {}).pop("replicas", None)
    return found


@pytest.mark.proves("IM8")
@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda each: each["name"])
def test_each_overrider_renders_what_karmada_makes_of_it(case: Mapping[str, Any]) -> None:
    body = RECORDED["objects"][case["object"]]
    take = policy(select(body["kind"], body["apiVersion"]))
    made = Made(take, body, *case["policies"], *case["clusterPolicies"], *RECORDED["clusters"])
    assert made.lost == {}
    kind = body["kind"] if body["kind"] == "ConfigMap" else ""
    [name] = [each for each in made.names if each.startswith("Workload/")]
    rendered = made.rendered(name, facts_of(made), kind=kind)
    digests = case.get("digests", False)
    for cluster_name, there in rendered.items():
        patch = jsonpatch.JsonPatch(case["made"].get(cluster_name, []))
        wanted = patch.apply(body)
        found = comparable(there, digests=digests)
        assert found == comparable(wanted, digests=digests), cluster_name
    if digests:
        assert any("digest" in text for text in made.noted.values())


@pytest.mark.proves("IM8")
def test_a_registry_keeps_the_digest_that_karmada_drops() -> None:
    digest = f"sha256:{'0' * 64}"
    web = deployment(containers=[{"name": "a", "image": f"reg.io/web:1@{digest}"}])
    said = {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "m.io"}]}
    made = Made(policy(), web, override((names("m1"), said)))
    body = made.rendered("Workload/web", {"m1": {}})["m1"]
    assert body["spec"]["template"]["spec"]["containers"][0]["image"] == f"m.io/web:1@{digest}"
    text = "the digest of the image stays, which Karmada drops"
    assert made.noted["o: spec.overrideRules[0].overriders.imageOverrider[0]"] == text


@pytest.mark.proves("IM8")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/name", "other"),
        ("/spec/selector/matchLabels/app", "other"),
        ("/spec/template/metadata/labels/app", "other"),
        ("/metadata/labels/stowage.dev~1workload-policy", "x"),
        ("/kind", "ReplicaSet"),
    ],
)
def test_what_no_override_may_touch_is_lost_with_its_path(path: str, value: str) -> None:
    web = deployment()
    web["metadata"]["labels"]["stowage.dev/workload-policy"] = "y"
    made = Made(policy(), web, override((names("m1"), plain(path, value))))
    [text] = made.lost.values()
    assert text.startswith((f"{path.replace('~1', '/')}: ", "/spec/selector: "))
    assert "overrides" not in made["Workload/web"]


@pytest.mark.proves("IM8")
def test_the_first_ordinal_is_lost_with_its_path() -> None:
    db = runs("apps/v1", "StatefulSet", replicas=2, ordinals={"start": 0})
    said = override((names("m1"), plain("/spec/ordinals/start", 5)))
    [text] = Made(policy(select("StatefulSet")), db, said).lost.values()
    assert text.startswith("/spec/ordinals: ")


def test_an_override_that_fits_nothing_is_lost_where_it_stands() -> None:
    said = override((names("m1"), plain("/spec/nothing/here", 5)))
    assert Made(policy(), deployment(), said).lost == {
        "o: spec.overrideRules[0].overriders": "/spec/nothing/here: replace fits nothing there"
    }


# --- what a policy places -------------------------------------------------------------------------

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {"group": "example.com"},
}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reader"},
    "rules": [],
}
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


@pytest.mark.proves("IM12")
def test_what_rules_a_cluster_is_a_workload_without_replicas() -> None:
    everything = policy(
        select("ClusterRole", "rbac.authorization.k8s.io/v1"),
        select("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        select("Namespace", "v1"),
        name="base",
        kind="ClusterPropagationPolicy",
        placement={"clusterAffinity": names("m1")},
    )
    made = Made(everything, CRD, ROLE, SPACE, namespace="ops")
    assert made.names == ["Workload/base"]
    assert made.bodies[0]["metadata"]["namespace"] == "ops"
    spec = made["Workload/base"]
    assert spec["distribution"] == "Duplicated"
    kinds = {each["kind"] for each in spec["manifests"]}
    assert kinds == {"ClusterRole", "CustomResourceDefinition", "Namespace"}
    text = made.noted["base: metadata"]
    for right in (
        "core/Namespace",
        "rbac.authorization.k8s.io/ClusterRole",
        "apiextensions.k8s.io/CustomResourceDefinition",
    ):
        assert f"use clusterscopedobjects.stowage.dev {right}" in text


@pytest.mark.proves("IM12")
def test_kube_namespaces_are_lost() -> None:
    take = policy(
        select("Namespace", "v1"), select("ConfigMap", "v1"), kind="ClusterPropagationPolicy"
    )
    space = SPACE | {"metadata": {"name": "kube-public"}}
    conf = beside("ConfigMap", "conf")
    conf["metadata"]["namespace"] = "kube-system"
    made = Made(take, space, conf)
    assert made.names == []
    assert set(made.lost) == {"kube-public: ", "conf: "}


@pytest.mark.proves("IM12")
@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("apps.kruise.io/v1alpha1", "CloneSet", None),
        ("apps.kruise.io/v1beta1", "StatefulSet", None),
        ("apps.kruise.io/v1alpha1", "UnitedDeployment", "spec.replicas"),
        ("apps.kruise.io/v1alpha1", "BroadcastJob", "spec.parallelism"),
        ("argoproj.io/v1alpha1", "Workflow", None),
    ],
)
def test_custom_kinds_are_known_without_an_interpreter(
    version: str, kind: str, path: str | None
) -> None:
    body = beside(kind, "web", version, spec={"replicas": 3, "parallelism": 3})
    spec = Made(policy(select(kind, version)), body)["Workload/web"]
    assert spec["template"]["kind"] == kind
    assert spec.get("replicasPath") == path


def test_what_belongs_to_one_goes_along_and_the_rest_stays_together() -> None:
    volumes = [{"name": n, "configMap": {"name": n}} for n in ("own", "both")]
    web = deployment(volumes=volumes)
    other = deployment(volumes=volumes[1:])
    other["metadata"]["name"] = "other"
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rules = [{"http": {"paths": [{"path": "/", "backend": backend}]}}]
    given = (
        beside("Service", "web", spec={"selector": {"app": "web"}, "clusterIP": "10.0.0.1"}),
        beside("ConfigMap", "own"),
        beside("ConfigMap", "both"),
        beside("Ingress", "web", "networking.k8s.io/v1", spec={"rules": rules}),
        beside(
            "PodDisruptionBudget",
            "web",
            "policy/v1",
            spec={"selector": {"matchLabels": {"app": "web"}}},
        ),
        beside(
            "HorizontalPodAutoscaler",
            "web",
            "autoscaling/v2",
            spec={"scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        ),
    )
    kinds = [(each["kind"], each["apiVersion"]) for each in given]
    take = policy(select(), *(select(*each) for each in dict.fromkeys(kinds)), name="all")
    made = Made(take, web, other, *given)
    assert made.names == ["Workload/all", "Workload/other", "Workload/web"]
    assert [each["metadata"]["name"] for each in made["Workload/all"]["manifests"]] == ["both"]
    along = {each["kind"]: each for each in made["Workload/web"]["manifests"]}
    assert set(along) == {each["kind"] for each in given}
    assert "clusterIP" not in along["Service"]["spec"]
    assert (
        "have it scale the Workload web on the hub"
        in made.said("noted")["web: spec.scaleTargetRef"]
    )


@pytest.mark.proves("A31")
def test_an_autoscaler_that_goes_along_is_noted_and_plan_refuses_it_until_it_is_taken_out(
    tmp_path: Path,
) -> None:
    scaler = beside(
        "HorizontalPodAutoscaler",
        "web",
        "autoscaling/v2",
        spec={"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 9},
    )
    take = policy(select(), select("HorizontalPodAutoscaler", "autoscaling/v2"), name="all")
    made = Made(take, deployment(replicas=2), scaler, member("m1"))
    assert "take it out of spec.manifests" in made.said("noted")["web: spec.scaleTargetRef"]
    out, there = tmp_path / "out.yaml", tmp_path / "fleet.yaml"
    there.write_text(written(cluster("m1")))
    (web,) = (each for each in made.bodies if each["kind"] == "Workload")
    out.write_text(written(web))
    refused = run("plan", "-f", out, "--fleet", there)
    assert refused.exit_code == 1
    assert "spec.manifests[0]: it scales Deployment web" in str(refused.exception)
    assert "let it scale the Workload on the hub instead" in str(refused.exception)
    del web["spec"]["manifests"]
    out.write_text(written(web))
    assert run("plan", "-f", out, "--fleet", there).exit_code == 0


def test_a_secret_is_named_and_not_printed() -> None:
    web = deployment(volumes=[{"name": "a", "secret": {"secretName": "pw"}}])
    secret = beside("Secret", "pw", data={"a": "Y2FuYXJ5"})
    made = Made(policy(select(), select("Secret", "v1")), web, secret)
    assert made["Workload/web"]["resources"] == [{"name": "pw"}]
    assert "Y2FuYXJ5" not in made.text


def test_what_is_followed_is_to_be_on_the_hub() -> None:
    web = deployment(volumes=[{"name": "a", "configMap": {"name": "conf"}}])
    given = (web, beside("ConfigMap", "conf"), beside("ConfigMap", "other"))
    for follows in (True, False):
        said = Made(policy(propagateDeps=follows), *given).said("noted")
        assert ("copied from the hub" in said["conf: "]) is follows
        assert ("stowage tenant add shop" in said["conf: "]) is follows
        assert "no Workload here asks for it" in said["other: "]


def test_what_is_on_several_clusters_and_has_one_name_is_told_apart() -> None:
    web, db = deployment(), runs("apps/v1", "StatefulSet", replicas=1)
    made = Made(policy(select(), select("StatefulSet"), name="web"), web, db)
    assert made.names == ["Workload/web", "Workload/web-statefulset"]
    assert made["Workload/web-statefulset"]["template"]["metadata"]["name"] == "web"


# --- fields ---------------------------------------------------------------------------------------


def spec_of(*more: Any, placement: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return Made(policy(placement=placement, **spec), deployment(), *more)["Workload/web"]


def test_all_of_an_affinity_holds() -> None:
    said = {
        "clusterNames": ["a", "b"],
        "exclude": ["c"],
        "labelSelector": {"matchLabels": {"tier": "gold"}},
        "fieldSelector": {
            "matchExpressions": [
                {"key": "provider", "operator": "In", "values": ["aws"]},
                {"key": "region", "operator": "NotIn", "values": ["eu"]},
                {"key": "zone", "operator": "In", "values": ["z1"]},
            ]
        },
    }
    affinity = spec_of(placement={"clusterAffinity": said})["clusterAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
    assert term["matchLabels"] == {"tier": "gold"}
    keys = [(each["key"], each["operator"]) for each in term["matchExpressions"]]
    assert keys == [
        ("stowage.dev/provider", "In"),
        ("topology.kubernetes.io/region", "NotIn"),
        ("topology.kubernetes.io/zone", "In"),
        ("stowage.dev/cluster", "In"),
    ]


def test_more_names_than_a_requirement_holds_are_several_terms() -> None:
    many = [f"m{n}" for n in range(130)]
    affinity = spec_of(placement={"clusterAffinity": names(*many)})["clusterAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
    listed = [each["matchExpressions"][0]["values"] for each in terms]
    assert [len(each) for each in listed] == [64, 64, 2]
    assert list(itertools.chain(*listed)) == many


def test_fields_of_a_policy() -> None:
    tolerations = [
        {"key": "cluster.karmada.io/not-ready", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 300},
        {"key": "cluster.karmada.io/unreachable", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 200},
        {"key": "gpu", "operator": "Equal", "value": "yes"},
    ]  # fmt: skip
    spread = [
        {"spreadByField": "region", "minGroups": 2, "maxGroups": 3},
        {"spreadByLabel": "rack"},
    ]
    spread[1]["maxGroups"] = 4
    spec = spec_of(
        placement={"clusterTolerations": tolerations, "spreadConstraints": spread},
        conflictResolution="Overwrite",
        preserveResourcesOnDeletion=True,
        propagateDeps=True,
        suspension={"dispatching": True},
        failover={"cluster": {"purgeMode": "Directly"}},
    )
    assert spec["distribution"] == "Duplicated"
    assert spec["tolerations"] == [
        {"key": "stowage.dev/not-ready", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 200},
        {"key": "gpu", "operator": "Equal", "value": "yes"},
    ]  # fmt: skip
    assert spec["spreadConstraints"] == [
        {"topologyKey": "topology.kubernetes.io/region", "minDomains": 2, "maxDomains": 3},
        {"topologyKey": "rack", "maxDomains": 4},
    ]
    got = [spec[key] for key in ("adoption", "onDelete", "dependencies", "delivery", "movement")]
    assert got == ["IfUnowned", "Orphan", "Follow", "None", {"maxSurge": 0}]


def test_what_is_spread_over() -> None:
    """As Karmada's scheduler selects clusters: findings/karmada-spread.sh."""

    def spread(scheduling: Any, **by: str) -> tuple[Any, Any]:
        listed = [{"minGroups": 2, "maxGroups": 2, **by}]
        placement = {"spreadConstraints": listed, "replicaScheduling": scheduling}
        made = Made(policy(placement=placement), deployment())
        noted = {path: text for path, text in made.noted.items() if "spread" in path}
        return made["Workload/web"].get("spreadConstraints"), noted

    def over(key: str) -> list[dict[str, Any]]:
        return [{"topologyKey": key, "minDomains": 2, "maxDomains": 2}]

    path = "p: spec.placement.spreadConstraints"
    divided: dict[str, Any] = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
    }
    dynamic = {**divided, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
    none: dict[str, Any] = {}
    for scheduling in (none, dynamic):
        assert spread(scheduling, spreadByField="cluster") == (over("stowage.dev/cluster"), {})
        region, said = spread(scheduling, spreadByField="region")
        assert (region, said) == (over("topology.kubernetes.io/region"), {})
        zone, said = spread(scheduling, spreadByField="zone")
        assert zone == over("topology.kubernetes.io/zone")
        assert said[f"{path}[0]"].startswith("counts here; there clusters and regions alone")
        rack, said = spread(scheduling, spreadByLabel="rack")
        assert (rack, list(said)) == (over("rack"), [f"{path}[0]"])
    weights = {"staticWeightList": [{"targetCluster": {}, "weight": 1}]}
    for scheduling in (divided, {**divided, "weightPreference": weights}):
        left, said = spread(scheduling, spreadByField="cluster")
        assert left is None
        assert said[path].startswith("have no effect beside static weights there")


def test_how_replicas_are_divided() -> None:
    def scheduled(**said: Any) -> tuple[Any, Any]:
        found = {"replicaScheduling": {"replicaSchedulingType": "Divided", **said}}
        spec = spec_of(placement=found)
        return spec["distribution"], spec.get("packing") or spec.get("distributionWeights")

    assert scheduled(replicaDivisionPreference="Aggregated") == ("Divided", "Fewest")
    dynamic = {"weightPreference": {"dynamicWeight": "AvailableReplicas"}}
    assert scheduled(replicaDivisionPreference="Weighted", **dynamic) == ("Divided", None)
    equal = [{"clusterSelector": {}, "weight": 1}]
    assert scheduled(replicaDivisionPreference="Weighted") == ("Divided", equal)


def test_a_priority_is_that_of_the_class() -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    said = {"priorityClassSource": "KubePriorityClass", "priorityClassName": "high"}
    made = Made(policy(schedulePriority=said), deployment(), high)
    assert made["Workload/web"]["priority"] == 1000
    assert "use priorities.stowage.dev" in made.noted["web: metadata"]
    assert (
        "add it"
        in Made(policy(schedulePriority=said), deployment()).lost["p: spec.schedulePriority"]
    )


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("spec.failover.application", {"failover": {"application": {"gracePeriodSeconds": 600}}}),
        ("spec.schedulerName", {"schedulerName": "mine"}),
        ("spec.activationPreference", {"activationPreference": "Lazy"}),
        ("spec.dependentOverrides", {"dependentOverrides": ["o"]}),
        (
            "spec.suspension.dispatchingOnClusters",
            {"suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}}},
        ),
    ],
)
def test_fields_that_are_lost(field: str, given: Mapping[str, Any]) -> None:
    assert list(Made(policy(**given), deployment()).lost) == [f"p: {field}"]


def test_groups_in_turn_are_an_adaptive_spread(tmp_path: Path) -> None:
    groups = [
        {
            "affinityName": "own",
            **names("m1"),
            "overflowAffinities": [{"affinityName": "cloud", **names("m2")}],
        }
    ]
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
    placement = {"clusterAffinities": groups, "replicaScheduling": scheduling}
    made = Made(policy(placement=placement), deployment(replicas=4))
    assert made.names == ["WorkloadSpread/web", "Workload/web"] or made.names[::-1]
    assert [each["name"] for each in made["WorkloadSpread/web"]["subsets"]] == ["own", "cloud"]
    assert made["WorkloadSpread/web"]["scheduleStrategy"] == {"type": "Adaptive"}
    assert planned(tmp_path, made, "m1", "m2") == {"m1": 4}
    two = {"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "b"}]}
    assert list(Made(policy(placement=two), deployment()).lost) == [
        "p: spec.placement.clusterAffinities[1]"
    ]


def test_a_cluster_is_a_registration_without_a_credential() -> None:
    taints = [
        {"key": "gpu", "value": "a", "effect": "NoSchedule"},
        {"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"},
    ]
    given = member("m1", region="eu", zones=["a"], provider="AWS", taints=taints)
    given["spec"] |= {"apiEndpoint": "https://x", "secretRef": {"name": "s", "namespace": "n"}}
    made = Made(given)
    [body] = made.bodies
    assert body["metadata"]["labels"] == {
        "topology.kubernetes.io/region": "eu",
        "topology.kubernetes.io/zone": "a",
    }
    assert body["spec"] == {
        "taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}],
        "provider": "aws",
    }
    assert made.lost == {}


def test_an_autoscaler_scales_the_workload() -> None:
    scaler = beside(
        "FederatedHPA",
        "web",
        "autoscaling.karmada.io/v1alpha1",
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 9,
        },
    )
    spec = Made(policy(), deployment(), scaler)["HorizontalPodAutoscaler/web"]
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": "web"}
    assert spec == {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9}
    assert list(Made(scaler).lost) == ["web: spec.scaleTargetRef"]


# --- wrong input ----------------------------------------------------------------------------------


def refused(tmp_path: Path, text: str) -> str:
    file = tmp_path / "in.yaml"
    file.write_text(text)
    result = run("import", "-f", file, "--lossy")
    assert isinstance(result.exception, ConfigurationError), result.output
    return str(result.exception)


HEAD = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p}\n"
PREFERENCE = HEAD.replace("policy.karmada", "scheduling.kubefed").replace(
    "PropagationPolicy", "ReplicaSchedulingPreference"
)


@pytest.mark.proves("IM13")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "spec: {schedulerName: '{{ .Values.x }}'}", "spec.schedulerName: is a template"),
        (HEAD.replace("p}", "'{{ .Release.Name }}'}"), "metadata.name: is a template of a chart"),
        (HEAD + "spec:\n  {{- if .x }}\n  a: b\n", "not YAML"),
        (
            HEAD + "spec:\n  placement:\n    clusterAffinity:\n      clusterNames: >-\n"
            "        - a\n        - b\n",
            "spec.placement.clusterAffinity.clusterNames: a list, not a text; write one",
        ),
        (
            HEAD + "spec:\n  placement:\n    clusterAffinity:\n      clusterNames:\n"
            "      - a\n        b\n",
            "spec.placement.clusterAffinity.clusterNames[0]: 'a b' has a blank",
        ),
        (
            HEAD + "spec: {resourceSelectors: [{apiVersion: v1, kind: Pod, name: a b}]}",
            "spec.resourceSelectors[0].name: 'a b' has a blank",
        ),
        (f"{HEAD}---\n{HEAD}", "document 2: PropagationPolicy p: metadata.name: is in"),
        (HEAD + "spec: {priority: high}", "spec.priority: a whole number, not a text"),
        (
            HEAD + "spec:\n  resourceSelectors:\n  -\n  - {apiVersion: v1, kind: Pod}\n",
            "spec.resourceSelectors[0]: is empty: write a value, or leave it out",
        ),
        (
            PREFERENCE + "spec: {targetKind: FederatedDeployment, clusters: {paris: }}\n",
            "spec.clusters.paris: is empty",
        ),
    ],
)
def test_wrong_input_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    found = refused(tmp_path, text)
    assert said in found
    assert "in.yaml" in found


@pytest.mark.proves("IM13")
def test_an_unknown_field_is_lost_by_name() -> None:
    made = Made(policy(placement={"newThing": {"a": [1]}}), deployment())
    assert list(made.lost) == ["p: spec.placement.newThing"]


def test_a_name_that_no_input_has_is_noted() -> None:
    made = Made(
        policy(placement={"clusterAffinity": names("m1", "m2")}), deployment(), member("m1")
    )
    text = made.noted["p: spec.placement.clusterAffinity.clusterNames"]
    assert "no cluster of the input is m2" in text
    none = Made(policy(select(name="gone"), select()), deployment())
    assert "takes no object of the input" in none.noted["p: spec.resourceSelectors[0]"]


# --- labels of the command line -------------------------------------------------------------------


def test_a_selector_takes_objects_and_leaves_rules() -> None:
    other = deployment()
    other["metadata"] = {"name": "other", "namespace": "shop", "labels": {"team": "b"}}
    assert Made(policy(), deployment(), other, selector="team=b").names == ["Workload/other"]


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b,c!=d", {"a": "b"}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a notin (b,c),d", {"a": "b", "d": ""}, False),
        ("!a", {"a": "b"}, False),
        ("a", {"a": "b"}, True),
    ],
)
def test_a_selector_is_read_as_kubectl_does(text: str, labels: Any, matches: bool) -> None:
    assert text_selector(text).matches(labels) is matches


def test_a_selector_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no label selector"):
        Made(policy(), deployment(), selector="a b")


# --- kinds ----------------------------------------------------------------------------------------

READS = """
local kube = require("kube")
function GetReplicas(obj)
  wanted = obj.spec.replicas
  needs = kube.accuratePodRequirements(obj.spec.template)
  return wanted, needs
end
"""
WRITES = """
function ReviseReplica(obj, number)
  obj.spec.replicas = number
  return obj
end
"""
MORE = """
function F(obj)
  if obj.status == nil then
    return false
  end
  return obj.status.readyReplicas >= obj.spec.replicas
end
"""
OTHERS = (
    "statusAggregation",
    "statusReflection",
    "healthInterpretation",
    "dependencyInterpretation",
    "retention",
    "componentResource",
)


@pytest.mark.proves("KD81")
def test_a_customization_whose_scripts_are_paths_is_a_workload_kind() -> None:
    """As Karmada has one of a CloneSet: two scripts move values, the others do more."""
    more = dict.fromkeys(OTHERS, MORE)
    target = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    made = customized(target, replicaResource=READS, replicaRevision=WRITES, **more)
    assert made["WorkloadKind/cloneset.apps.kruise.io"] == {
        "group": "apps.kruise.io",
        "kind": "CloneSet",
        "versions": ["v1alpha1"],
        "replicas": {"path": "spec.replicas"},
        "pods": [{"template": "spec.template"}],
    }
    assert {key.split(".")[2] for key in made.lost} == set(OTHERS)
    assert "takes the place of the whole profile" in made.noted["widget: spec.target"]


WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget"}


def customized(target: Mapping[str, str] = WIDGET, **scripts: str) -> Made:
    rules = {name: {"luaScript": text} for name, text in scripts.items()}
    return Made(
        {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "widget"},
            "spec": {"target": target, "customizations": rules},
        }
    )


@pytest.mark.proves("KD81")
@pytest.mark.parametrize(
    "script",
    [
        "function GetReplicas(obj)\n local n = obj.spec.size\n return n\nend",
        "-- a size\nfunction GetReplicas(o)\n return o.spec.size\nend",
        "function GetReplicas(obj)\n n = obj.spec.size\n r = nil\n return n, r\nend",
    ],
)
def test_scripts_that_only_read_paths(script: str) -> None:
    made = customized(replicaResource=script)
    assert made["WorkloadKind/widget.example.com"]["replicas"] == {"path": "spec.size"}
    assert made.lost == {}


@pytest.mark.proves("KD81")
@pytest.mark.parametrize(
    "script",
    [
        "function GetReplicas(obj)\n n = obj.spec.size + 1\n return n\nend",
        "function GetReplicas(obj)\n if obj.spec.size == nil then\n return 1\n end\n return obj.spec.size\nend",
        "function GetReplicas(obj)\n return #obj.spec.sizes\nend",
        "function GetReplicas(obj)\n return obj.spec.sizes[1]\nend",
        "function GetReplicas(obj)\n return 3\nend",
        "function GetReplicas(obj)\n return obj.status.replicas\nend",
        "x = 1\nfunction GetReplicas(obj)\n return obj.spec.size\nend",
        "function GetReplicas(obj)\n return other.spec.size\nend",
        "return",
    ],
)
def test_scripts_that_are_more_are_lost_and_nothing_is_guessed(script: str) -> None:
    made = customized(replicaResource=script)
    assert made.names == []
    assert "widget: spec.customizations.replicaResource.luaScript" in made.lost


@pytest.mark.proves("KD81")
def test_a_number_that_is_written_elsewhere_is_no_path() -> None:
    made = customized(
        replicaResource="function GetReplicas(obj)\n return obj.spec.size\nend",
        replicaRevision="function R(obj, n)\n obj.spec.other = n\n return obj\nend",
    )
    assert made.names == []
    assert len([each for each in made.lost if "luaScript" in each]) == 2
