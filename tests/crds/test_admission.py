"""The admission policies on a real API server: who may write where, and one name for each label."""

from __future__ import annotations

import json

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
from tests.inforce import until_may
from tests.patience import hold_on

MARK = f"{NORMALISED_PREFIX}workload-policy"
FIRST, SECOND = POLICY_ALIASES


@pytest.fixture
def author(tenant):
    """A user who may write Workloads in the tenant's namespace, and nothing else."""
    user = f"{tenant.namespace}-author"
    verbs = "--verb=get,list,create,update,patch,delete"
    resources = "--resource=workloads.stowage.dev,workloads.stowage.dev/status"
    tenant.kubectl("create", "role", "author", verbs, resources)
    tenant.kubectl("create", "rolebinding", "author", "--role=author", f"--user={user}")
    until_may(tenant.hub, user, f"update workloads.stowage.dev -n {tenant.namespace}")
    return user


def grant(tenant, user: str, name_of: str, resource: str = "targetnamespaces") -> None:
    name = f"{tenant.namespace}-use-{name_of}".lower().replace("/", "-")
    rule = {
        "apiGroups": ["stowage.dev"],
        "resources": [resource],
        "resourceNames": [name_of],
        "verbs": ["use"],
    }
    tenant.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [rule],
        }
    )
    tenant.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={user}")
    until_may(tenant.hub, user, f"use {resource}.stowage.dev/{name_of}")


def config_map(namespace: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
    }


def attempt(tenant, user: str, workload: dict) -> str:
    return tenant.apply(workload, "--server-side", f"--as={user}", check=False)


@pytest.mark.proves("C29")
def test_a_foreign_target_needs_the_verb(tenant, author):
    workload = tenant.workload("abroad", targetNamespace="demo")
    answer = attempt(tenant, author, workload)
    assert f"spec.targetNamespace: {author} may not deploy into the namespace demo" in answer
    assert "forbidden" in answer
    grant(tenant, author, "other")
    assert "it needs the verb use" in attempt(tenant, author, workload)
    grant(tenant, author, "demo")
    assert attempt(tenant, author, workload) == "workload.stowage.dev/abroad serverside-applied\n"


@pytest.mark.proves("C29")
def test_a_role_in_ones_own_namespace_grants_nothing(tenant, author):
    tenant.kubectl(
        "create", "rolebinding", "all", "--clusterrole=cluster-admin", f"--user={author}"
    )
    until_may(tenant.hub, author, f"delete pods -n {tenant.namespace}")
    workload = tenant.workload("abroad", targetNamespace="demo")
    assert "it needs the verb use" in attempt(tenant, author, workload)


@pytest.mark.proves("C29")
def test_ones_own_namespace_needs_no_verb(tenant, author):
    for name, spec in (("none", {}), ("own", {"targetNamespace": tenant.namespace})):
        workload = tenant.workload(name, manifests=[config_map(tenant.namespace)], **spec)
        assert "serverside-applied" in attempt(tenant, author, workload)


@pytest.mark.proves("C29")
def test_a_namespace_that_a_manifest_names_needs_the_verb_too(tenant, author):
    names = ["n1", "n2", "n3", "n4", "n5", "n6"]
    manifests = [config_map(name) for name in names for _ in range(3)]
    workload = tenant.workload("many", manifests=manifests)
    for name in names:
        answer = attempt(tenant, author, workload)
        assert f"spec.manifests: {author} may not deploy into the namespace {name}" in answer
        grant(tenant, author, name)
    assert "serverside-applied" in attempt(tenant, author, workload)


@pytest.mark.proves("C29")
def test_an_update_needs_the_verb_only_for_a_namespace_it_adds(tenant, author):
    tenant.apply(tenant.workload("given", targetNamespace="demo"))
    patch = ["patch", "wl", "given", "--type=merge", f"--as={author}", "-p"]
    tenant.kubectl(*patch, json.dumps({"spec": {"replicas": 3}}))
    tenant.kubectl(*patch, json.dumps({"metadata": {"finalizers": ["stowage.dev/propagation"]}}))
    tenant.kubectl(*patch, json.dumps({"status": {"pending": 1}}), "--subresource=status")
    moved = {"spec": {"targetNamespace": "other"}}
    assert "it needs the verb use" in tenant.kubectl(*patch, json.dumps(moved), check=False)
    added = {"spec": {"manifests": [config_map("third")]}}
    assert "namespace third" in tenant.kubectl(*patch, json.dumps(added), check=False)
    tenant.kubectl(*patch, json.dumps({"metadata": {"finalizers": None}}))
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
@pytest.mark.parametrize(("labels", "annotations"), LABEL_CASES)
@pytest.mark.parametrize("empty", [True, False])
def test_the_policy_and_python_bring_labels_into_the_same_form(tenant, labels, annotations, empty):
    workload = tenant.workload("labelled", schedulerName="stowage")
    workload["metadata"] |= {"labels": labels} if labels or empty else {}
    workload["metadata"] |= {"annotations": annotations} if annotations or empty else {}
    made = json.loads(
        tenant.kubectl(
            "create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(workload)
        )
    )["metadata"]
    patch = validation.normalised(workload)
    for field, before in (("labels", labels), ("annotations", annotations)):
        merged = before | patch.get("metadata", {}).get(field, {})
        assert made.get(field, {}) == {k: v for k, v in merged.items() if v is not None}
    assert "spec" not in patch


@pytest.mark.proves("C24", "C21")
@pytest.mark.parametrize("spec", [{}, {"schedulerName": ""}, {"schedulerName": None}])
def test_python_names_the_scheduler_where_nobody_does(spec):
    assert validation.normalised({"spec": spec}) == {"spec": {"schedulerName": "stowage"}}


@pytest.mark.proves("C24", "K14")
def test_a_label_follows_its_alias_and_goes_with_it(tenant):
    tenant.apply(tenant.workload("bound", labels={FIRST: "one"}))
    assert tenant.get("bound")["metadata"]["labels"][LABEL_POLICY] == "one"
    tenant.kubectl("label", "wl", "bound", f"{FIRST}=two", "--overwrite")
    assert tenant.get("bound")["metadata"]["labels"][LABEL_POLICY] == "two"
    tenant.kubectl("label", "wl", "bound", f"{FIRST}-")
    metadata = tenant.get("bound")["metadata"]
    assert "labels" not in metadata
    assert MARK not in metadata["annotations"]


@pytest.mark.proves("C24", "K14")
@pytest.mark.parametrize("flags", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_a_user_who_takes_the_new_name_over_keeps_it(tenant, flags):
    tenant.apply(tenant.workload("renamed", labels={FIRST: "one"}), *flags)
    tenant.apply(tenant.workload("renamed", labels={LABEL_POLICY: "one"}), *flags)
    metadata = tenant.get("renamed")["metadata"]
    assert metadata["labels"] == {LABEL_POLICY: "one"}


@pytest.mark.proves("C24", "K14")
def test_a_server_side_apply_drops_the_label_with_its_alias(tenant):
    tenant.apply(tenant.workload("dropped", labels={FIRST: "one"}), "--server-side")
    tenant.apply(tenant.workload("dropped"), "--server-side")
    assert "labels" not in tenant.get("dropped")["metadata"]


@pytest.mark.proves("S14")
def test_only_who_may_write_the_status_may_write_the_propagators_notes(tenant, author):
    plain = f"{tenant.namespace}-plain"
    verbs = "--verb=get,list,create,update,patch,delete"
    tenant.kubectl("create", "role", "plain", verbs, "--resource=workloads.stowage.dev")
    tenant.kubectl("create", "rolebinding", "plain", "--role=plain", f"--user={plain}")
    until_may(tenant.hub, plain, f"update workloads.stowage.dev -n {tenant.namespace}")
    tenant.apply(tenant.workload("noted"))
    patch = ["patch", "wl", "noted", "--type=merge"]

    def note(user: str, value: str | None, mark: str = "kinds") -> str:
        notes = {"metadata": {"annotations": {f"stowage.dev/{mark}": value}}}
        return tenant.kubectl(*patch, f"--as={user}", "-p", json.dumps(notes), check=False)

    # Each policy of the hub takes a moment of its own to be seen.
    hold_on(lambda: "are written by Stowage" in note(plain, "v1/Event"))
    for mark in ("kinds", "clusters", "ordinals"):
        assert "are written by Stowage; leave them out" in note(plain, "v1/Lease", mark)
        assert "patched" in note(author, "v1/Secret", mark), "as the propagator may"
    labels = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 2}}
    tenant.kubectl(*patch, f"--as={plain}", "-p", json.dumps(labels))
    assert "patched" in note(plain, None)
    copied = tenant.workload("copied")
    copied["metadata"]["annotations"] = {"stowage.dev/clusters": "m1"}
    assert "are written by Stowage" in attempt(tenant, plain, copied)


@pytest.mark.proves("C30")
def test_a_new_workload_has_its_finalizer_at_once(tenant):
    tenant.apply(tenant.workload("new"))
    assert tenant.get("new")["metadata"]["finalizers"] == [FINALIZER]
    mine = tenant.workload("mine")
    mine["metadata"]["finalizers"] = ["example.com/mine"]
    tenant.apply(mine)
    assert tenant.get("mine")["metadata"]["finalizers"] == ["example.com/mine", FINALIZER]
    again = json.dumps({"metadata": {"finalizers": None}})
    tenant.kubectl("patch", "workload", "new", "--type=merge", "-p", again)
    assert "finalizers" not in tenant.get("new")["metadata"], "who takes it off has a reason"
    for name in ("new", "mine"):
        tenant.kubectl("patch", "workload", name, "--type=merge", "-p", again)


@pytest.mark.proves("C30")
def test_python_gives_a_workload_its_finalizer_as_the_policy_does():
    spec = {"schedulerName": "stowage"}
    patch = validation.admitted({"metadata": {"finalizers": ["a/b"]}, "spec": spec})
    assert patch == {"metadata": {"finalizers": ["a/b", FINALIZER]}}
    for there in ({"finalizers": [FINALIZER]}, {"deletionTimestamp": "2026-01-02T03:04:05Z"}):
        assert validation.admitted({"metadata": there, "spec": spec}) == {}
