"""A Workload brings guarded kinds along with the right alone, on a real API server."""

from __future__ import annotations

import functools

import pytest

from crds.admission import validation
from crds.admission.carried import GUARDED_GROUPS, guarded, guarded_kinds, kind_name
from crds.fields.template import well_formed

from .asking import refusal
from .test_admission import attempt, author, grant

__all__ = ["author"]

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ADMIN = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "gift"},
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "shop"}],
}
KUBE_SYSTEM = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "kube-system", "labels": {"pod-security.kubernetes.io/enforce": "x"}},
}
ROLE = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "Role",
    "metadata": {"name": "all"},
    "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
PLAIN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}}
TRIES = [
    (CLUSTER_ADMIN, f"{RBAC}/ClusterRoleBinding"),
    (KUBE_SYSTEM, "core/Namespace"),
    (ROLE, f"{RBAC}/Role"),
    (NODE, "core/Node"),
    (
        {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "metadata": {"name": "w"}},
        "stowage.dev/Workload",
    ),
]


@pytest.mark.long
@pytest.mark.proves("S1")
@pytest.mark.parametrize(("manifest", "kind"), TRIES, ids=[kind for _, kind in TRIES])
def test_a_guarded_kind_needs_the_verb(tenant, author, manifest, kind):
    workload = tenant.workload("gift", manifests=[PLAIN, manifest], adoption="IfUnowned")
    needed = f"it needs the verb use on clusterscopedobjects.stowage.dev {kind}"
    answer = attempt(tenant, author, workload)
    assert f"spec.manifests[1].kind: {author} may not bring along {kind}; {needed}" in answer
    grant(tenant, author, f"{kind}List", "clusterscopedobjects")
    assert needed in attempt(tenant, author, workload)
    grant(tenant, author, kind, "clusterscopedobjects")
    assert attempt(tenant, author, workload) == ""


@pytest.mark.proves("S1")
def test_a_template_of_a_guarded_kind_needs_it_too(tenant, author):
    template = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "view"}}
    workload = tenant.workload("view", template=template, replicasPath="spec.replicas")
    del workload["spec"]["targetDeployment"]
    assert f"spec.template.kind: {author} may not" in attempt(tenant, author, workload)


@pytest.mark.proves("S1")
def test_whoever_edits_what_is_brought_along_needs_the_verb(tenant, author):
    tenant.create(tenant.workload("given", manifests=[PLAIN, ROLE]))
    patch = functools.partial(tenant.patch, "given", user=author)
    patch({"spec": {"replicas": 3, "priority": -1}})
    patch({"metadata": {"labels": {"a": "b"}}})
    for edit in ({"adoption": "IfUnowned"}, {"manifests": [ROLE | {"rules": []}]}):
        answer = refusal(patch, {"spec": edit})
        assert "it needs the verb use on clusterscopedobjects.stowage.dev" in answer
    patch({"spec": {"manifests": [PLAIN]}})


@pytest.mark.proves("S1")
def test_as_many_guarded_kinds_as_are_allowed_can_be_asked_for(tenant, author):
    """Six kinds and six namespaces beside 52 plain manifests: within what CEL may cost."""
    kinds = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    guarded_ones = [ROLE | {"kind": kind} for kind in kinds] + [NODE, KUBE_SYSTEM]
    spaces = [{**PLAIN, "metadata": {"name": "a", "namespace": f"n{n}"}} for n in range(6)]
    padding = [
        {**PLAIN, "metadata": {"name": f"c{n}", "labels": {f"l{i}": "x" for i in range(40)}}}
        for n in range(52)
    ]
    workload = tenant.workload("full", manifests=[*padding, *spaces, *guarded_ones])
    for namespace in (f"n{n}" for n in range(6)):
        grant(tenant, author, namespace)
    for name in [*(f"{RBAC}/{kind}" for kind in kinds), "core/Node"]:
        grant(tenant, author, name, "clusterscopedobjects")
    answer = attempt(tenant, author, workload)
    assert f"spec.manifests[63].kind: {author} may not bring along core/Namespace" in answer
    grant(tenant, author, "core/Namespace", "clusterscopedobjects")
    assert attempt(tenant, author, workload) == ""


@pytest.mark.proves("S1")
def test_every_cluster_scoped_kind_of_kubernetes_is_guarded(asking):
    """Asked of the server itself, so that a new version's kinds do not slip in unseen."""
    groups = asking.request("GET", "/apis")["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    found = {}
    for version in ["v1", *versions]:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for each in asking.request("GET", root)["resources"]:
            if "/" not in each["name"] and not each["namespaced"]:
                found[kind_name(version, each["kind"])] = version
    assert "core/Node" in found
    assert not [kind for kind in found if not guarded(kind)]


def test_python_names_what_has_to_be_allowed():
    workload = {
        "metadata": {"namespace": "shop"},
        "spec": {
            "targetNamespace": "demo",
            "template": {"apiVersion": f"{RBAC}/v1", "kind": "Role"},
            "manifests": [PLAIN, NODE, ROLE, NODE],
        },
    }
    assert guarded_kinds(workload["spec"]) == {
        f"{RBAC}/Role": "spec.template.kind",
        "core/Node": "spec.manifests[1].kind",
    }
    assert [f"{right.field}: {right}" for right in validation.rights_needed(workload)] == [
        "spec.targetNamespace: use targetnamespaces.stowage.dev demo",
        f"spec.template.kind: use clusterscopedobjects.stowage.dev {RBAC}/Role",
        "spec.manifests[1].kind: use clusterscopedobjects.stowage.dev core/Node",
    ]
    assert not guarded("example.com/Node")
    assert not guarded("apps/Deployment")
    assert all(guarded(f"{group}/Anything") for group in GUARDED_GROUPS)


@pytest.mark.proves("S4")
def test_labels_that_bind_a_policy_or_name_a_group_are_the_users_own(tenant):
    labels = {"stowage.dev/workload-policy": "p", "stowage.dev/workload-group": "g", "a.dev/b": ""}
    pods = {"metadata": {"labels": labels}}
    template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": pods}}
    workload = tenant.workload("bound", labels=labels, targetDeployment=template)
    assert refusal(tenant.apply, workload) == ""
    assert validation.violations(workload) == []


@pytest.mark.proves("S4")
def test_metadata_of_another_form_breaks_no_check(tenant):
    """A member, or the controller, says what is wrong with it; admission must not stumble."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment"}
    odds = ("text", 3, ["stowage.dev/a"], None)
    shapes = [
        shape
        for odd in odds
        for shape in (
            {"spec": odd},
            {"spec": {"template": odd, "jobTemplate": odd, "volumeClaimTemplates": odd}},
            {"spec": {"template": {"metadata": odd}, "volumeClaimTemplates": [odd]}},
            {"spec": {"template": {"metadata": {"labels": odd, "annotations": odd}}}},
            {"metadata": {"name": "a", "labels": odd, "annotations": odd}},
        )
    ]
    for shape in shapes:
        workload = tenant.workload("odd", targetDeployment=body | shape)
        assert refusal(tenant.apply, workload) == "", shape
        assert validation.violations(workload) == [], shape


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    ("api_version", "kind", "good"),
    [
        ("v1", "ConfigMap", True),
        ("apps/v1", "Deployment", True),
        ("example.com/v1beta1", "Robot", True),
        ("a-b.example.com/stable", "my-kind", True),
        ("", "ConfigMap", False),
        ("/v1", "ConfigMap", False),
        ("v1/", "ConfigMap", False),
        ("a/b/v1", "ConfigMap", False),
        ("../v1", "ConfigMap", False),
        ("v1?x", "ConfigMap", False),
        ("v1\n", "ConfigMap", False),
        ("v1", "Config/Map", False),
        ("v1", "ConfigMap\n", False),
        ("v1", "", False),
        ("v1", "K" * 64, False),
    ],
)
def test_what_can_name_a_kind(api_version, kind, good):
    assert well_formed(api_version, kind) is good
