"""The admission policies on a real API server: who may write where, and one name for each label."""

from __future__ import annotations

import functools

import pytest

from crds.admission import validation
from crds.names import (
    FINALIZER,
    GROUP_ALIASES,
    LABEL_GROUP,
    LABEL_POLICY,
    NORMALISED_PREFIX,
    POLICY_ALIASES,
)
from tests.patience import hold_on

from .asking import refusal
from .bodies import body

MARK = f"{NORMALISED_PREFIX}workload-policy"
FIRST, SECOND = POLICY_ALIASES


RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def author(tenant):
    """A user who may write Workloads in the tenant's namespace, and nothing else."""
    user = f"{tenant.namespace}-author"
    writes(tenant, "author", user, "workloads", "workloads/status")
    return user


def writes(tenant, role: str, user: str, *resources: str) -> None:
    """Let the user write these of ours in the tenant's namespace."""
    verbs = ["get", "list", "create", "update", "patch", "delete"]
    rule = {"apiGroups": ["stowage.dev"], "resources": [*resources], "verbs": verbs}
    tenant.create(rbac("Role", role, tenant.namespace) | {"rules": [rule]})
    tenant.create(binding("Role", role, user, tenant.namespace))
    tenant.asking.until_may(user, f"update workloads.stowage.dev -n {tenant.namespace}")


def grant(tenant, user: str, name_of: str, resource: str = "targetnamespaces") -> None:
    name = f"{tenant.namespace}-use-{name_of}".lower().replace("/", "-")
    rule = {
        "apiGroups": ["stowage.dev"],
        "resources": [resource],
        "resourceNames": [name_of],
        "verbs": ["use"],
    }
    tenant.create(rbac("ClusterRole", name) | {"rules": [rule]})
    tenant.create(binding("ClusterRole", name, user))
    tenant.asking.until_may(user, f"use {resource}.stowage.dev/{name_of}")


def rbac(kind: str, name: str, namespace: str = "") -> dict:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}


def binding(role: str, name: str, user: str, namespace: str = "") -> dict:
    """Of the Role or ClusterRole of the same name: in the namespace, or everywhere."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return rbac(kind, name, namespace) | {
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def config_map(namespace: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
    }


def attempt(tenant, user: str, workload: dict) -> str:
    """What such a user is refused with; empty where it is taken."""
    return refusal(tenant.apply, workload, user=user)


@pytest.mark.long
@pytest.mark.proves("C29")
def test_a_foreign_target_needs_the_verb(tenant, author):
    workload = tenant.workload("abroad", targetNamespace="demo")
    answer = attempt(tenant, author, workload)
    assert f"spec.targetNamespace: {author} may not deploy into the namespace demo" in answer
    assert "forbidden" in answer
    grant(tenant, author, "other")
    assert "it needs the verb use" in attempt(tenant, author, workload)
    grant(tenant, author, "demo")
    assert attempt(tenant, author, workload) == ""


@pytest.mark.proves("O17")
def test_an_author_may_override_and_not_change_images_of_a_cluster(tenant, author):
    override = {"name": "eu", "clusterSelector": {}, "patch": {"spec": {"paused": True}}}
    assert attempt(tenant, author, tenant.workload("here", overrides=[override])) == ""
    images = [{"from": "docker.io", "to": "elsewhere.example"}]
    member = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": f"{tenant.namespace}-member"},
        "spec": {"images": images},
    }
    assert "forbidden" in attempt(tenant, author, member)


@pytest.mark.proves("S4")
def test_an_override_of_a_guarded_kind_is_an_edit_of_it(tenant, author):
    role = rbac("ClusterRole", "wide")
    tenant.create(tenant.workload("given", manifests=[role]))
    said = {"name": "a", "clusterSelector": {}, "target": {"kind": "ClusterRole", "name": "wide"}}
    more = {"spec": {"overrides": [{**said, "patch": {"rules": []}}]}}
    assert "clusterscopedobjects" in refusal(
        functools.partial(tenant.patch, "given", user=author), more
    )


@pytest.mark.proves("C29")
def test_a_role_in_ones_own_namespace_grants_nothing(tenant, author):
    tenant.create(binding("ClusterRole", "cluster-admin", author, tenant.namespace))
    tenant.asking.until_may(author, f"delete pods -n {tenant.namespace}")
    workload = tenant.workload("abroad", targetNamespace="demo")
    assert "it needs the verb use" in attempt(tenant, author, workload)


@pytest.mark.proves("C29")
def test_ones_own_namespace_needs_no_verb(tenant, author):
    for name, spec in (("none", {}), ("own", {"targetNamespace": tenant.namespace})):
        workload = tenant.workload(name, manifests=[config_map(tenant.namespace)], **spec)
        assert attempt(tenant, author, workload) == ""


@pytest.mark.long
@pytest.mark.proves("C29")
def test_a_namespace_that_a_manifest_names_needs_the_verb_too(tenant, author):
    names = ["n1", "n2", "n3", "n4", "n5", "n6"]
    manifests = [config_map(name) for name in names for _ in range(3)]
    workload = tenant.workload("many", manifests=manifests)
    for name in names:
        answer = attempt(tenant, author, workload)
        assert f"spec.manifests: {author} may not deploy into the namespace {name}" in answer
        grant(tenant, author, name)
    assert attempt(tenant, author, workload) == ""


@pytest.mark.proves("C29")
def test_an_update_needs_the_verb_only_for_a_namespace_it_adds(tenant, author):
    tenant.create(tenant.workload("given", targetNamespace="demo"))
    patch = functools.partial(tenant.patch, "given", user=author)
    patch({"spec": {"replicas": 3}})
    patch({"metadata": {"finalizers": ["stowage.dev/propagation"]}})
    patch({"status": {"pending": 1}}, subresource="status")
    moved = {"spec": {"targetNamespace": "other"}}
    assert "it needs the verb use" in refusal(patch, moved)
    added = {"spec": {"manifests": [config_map("third")]}}
    assert "namespace third" in refusal(patch, added)
    patch({"metadata": {"finalizers": None}})
    assert tenant.get("given")["spec"]["targetNamespace"] == "demo"


LABEL_CASES = [
    ({FIRST: "p"}, {}),
    ({SECOND: "p"}, {}),
    ({FIRST: "p", SECOND: "p"}, {}),
    ({FIRST: "p", SECOND: "q"}, {}),
    ({FIRST: "p", LABEL_POLICY: "p"}, {}),
    ({FIRST: "p", LABEL_POLICY: "q"}, {}),
    ({LABEL_POLICY: "q"}, {}),
    ({GROUP_ALIASES[0]: "g"}, {}),
    ({GROUP_ALIASES[1]: "g", SECOND: "p"}, {}),
    ({FIRST: "new", LABEL_POLICY: "old"}, {MARK: "old"}),
    ({FIRST: "new", LABEL_POLICY: "mine"}, {MARK: "old"}),
    ({LABEL_POLICY: "old"}, {MARK: "old"}),
    ({}, {MARK: "old"}),
    ({FIRST: "p", SECOND: "q", LABEL_POLICY: "p"}, {MARK: "p"}),
    ({FIRST: "p", LABEL_POLICY: "p"}, {MARK: "p"}),
    ({LABEL_GROUP: "g", GROUP_ALIASES[0]: "h"}, {f"{NORMALISED_PREFIX}workload-group": "g"}),
    ({}, {}),
]


@pytest.mark.proves("C24", "K14")
def test_the_policy_and_python_bring_labels_into_the_same_form(asking):
    for labels, notes in LABEL_CASES:
        written = {"labels": labels, "annotations": notes}
        for empty in (True, False):
            workload = body("Workload", schedulerName="stowage")
            said = {field: each for field, each in written.items() if each or empty}
            workload["metadata"] |= said
            made = asking.create(workload, dry_run=True)["metadata"]
            patch = validation.normalised(workload)
            for field, before in written.items():
                merged = before | patch.get("metadata", {}).get(field, {})
                expected = {k: v for k, v in merged.items() if v is not None}
                assert made.get(field, {}) == expected, said
            assert "spec" not in patch, said


@pytest.mark.proves("C24", "C21")
@pytest.mark.parametrize("spec", [{}, {"schedulerName": ""}, {"schedulerName": None}])
def test_python_names_the_scheduler_where_nobody_does(spec):
    assert validation.normalised({"spec": spec}) == {"spec": {"schedulerName": "stowage"}}


@pytest.mark.proves("C24", "K14")
def test_a_label_follows_its_alias_and_goes_with_it(tenant):
    tenant.create(tenant.workload("bound", labels={FIRST: "one"}))
    assert tenant.get("bound")["metadata"]["labels"][LABEL_POLICY] == "one"
    tenant.label("bound", FIRST, "two")
    assert tenant.get("bound")["metadata"]["labels"][LABEL_POLICY] == "two"
    tenant.label("bound", FIRST, None)
    metadata = tenant.get("bound")["metadata"]
    assert "labels" not in metadata
    assert MARK not in metadata.get("annotations", {})
    tenant.apply(tenant.workload("applied", labels={FIRST: "one"}))
    tenant.apply(tenant.workload("applied", labels={LABEL_POLICY: "one"}))
    assert tenant.get("applied")["metadata"]["labels"] == {LABEL_POLICY: "one"}, "it is theirs now"


@pytest.mark.proves("S14")
def test_only_who_may_write_the_status_may_write_the_propagators_notes(tenant, author):
    plain = f"{tenant.namespace}-plain"
    writes(tenant, "plain", plain, "workloads")
    tenant.create(tenant.workload("noted"))

    def note(user: str, value: str | None, mark: str = "kinds") -> str:
        notes = {"metadata": {"annotations": {f"stowage.dev/{mark}": value}}}
        return refusal(tenant.patch, "noted", notes, user=user)

    # Each policy of the hub takes a moment of its own to be seen.
    hold_on(lambda: "are written by Stowage" in note(plain, "v1/Event"))
    for mark in ("kinds", "clusters", "ordinals"):
        assert "are written by Stowage; leave them out" in note(plain, "v1/Lease", mark)
        assert note(author, "v1/Secret", mark) == "", "as the propagator may"
    labels = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 2}}
    tenant.patch("noted", labels, user=plain)
    assert note(plain, None) == ""
    copied = tenant.workload("copied")
    copied["metadata"]["annotations"] = {"stowage.dev/clusters": "m1"}
    assert "are written by Stowage" in attempt(tenant, plain, copied)


@pytest.mark.proves("N7")
def test_only_who_may_write_the_status_makes_what_keeps_the_room_of_a_reservation(tenant, author):
    plain = f"{tenant.namespace}-plain"
    writes(tenant, "plain", plain, "workloads")
    pods = {"template": {"spec": {"priorityClassName": "stowage-placeholder"}}}
    held = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": pods}
    spec = {"schedulerName": "reservation.stowage.dev", "targetDeployment": held}
    hold = tenant.workload("later-hold", **spec)
    hold_on(lambda: "is for what Stowage makes" in attempt(tenant, plain, hold))
    assert attempt(tenant, author, hold) == "", "as the controller may"
    more = {"spec": {"replicas": 500}}
    assert "is for what Stowage makes" in refusal(tenant.patch, "later-hold", more, user=plain)


@pytest.mark.proves("C30")
def test_a_new_workload_has_its_finalizer_at_once(tenant):
    tenant.create(tenant.workload("new"))
    assert tenant.get("new")["metadata"]["finalizers"] == [FINALIZER]
    mine = tenant.workload("mine")
    mine["metadata"]["finalizers"] = ["example.com/mine"]
    tenant.create(mine)
    assert tenant.get("mine")["metadata"]["finalizers"] == ["example.com/mine", FINALIZER]
    again = {"metadata": {"finalizers": None}}
    tenant.patch("new", again)
    assert "finalizers" not in tenant.get("new")["metadata"], "who takes it off has a reason"
    for name in ("new", "mine"):
        tenant.patch(name, again)


@pytest.mark.proves("CT8")
def test_one_that_is_not_delivered_has_none(tenant):
    tenant.create(tenant.workload("undelivered", delivery="None"))
    assert "finalizers" not in tenant.get("undelivered")["metadata"]
    spec = {"schedulerName": "stowage", "delivery": "None"}
    assert validation.admitted({"metadata": {}, "spec": spec}) == {}


@pytest.mark.proves("C30")
def test_python_gives_a_workload_its_finalizer_as_the_policy_does():
    spec = {"schedulerName": "stowage"}
    patch = validation.admitted({"metadata": {"finalizers": ["a/b"]}, "spec": spec})
    assert patch == {"metadata": {"finalizers": ["a/b", FINALIZER]}}
    for there in ({"finalizers": [FINALIZER]}, {"deletionTimestamp": "2026-01-02T03:04:05Z"}):
        assert validation.admitted({"metadata": there, "spec": spec}) == {}
