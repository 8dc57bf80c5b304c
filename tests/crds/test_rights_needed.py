"""What else a spec asks of its author is a right, on a real API server and in Python.

A priority above 0, a change of a rollout's approvals, and objects that pods name in a foreign
namespace.
"""

from __future__ import annotations

import functools

import pytest

from crds.admission import validation

from .asking import refusal
from .test_admission import binding, rbac, writes
from .test_reservations import of

CANARY = {"revision": "6f2c000000000000", "wave": "canary"}
EU = {"revision": "6f2c000000000000", "wave": "eu"}


@pytest.fixture
def author(tenant):
    """A user who may write Workloads and Reservations in the tenant's namespace, and no more."""
    user = f"{tenant.namespace}-author"
    writes(tenant, "author", user, "workloads", "reservations")
    return user


def allow(tenant, user: str, verb: str, resource: str, namespace: str = "", *names: str) -> None:
    """A Role, or ClusterRole, by which the user may do that."""
    kind, (group, _, plural) = "Role" if namespace else "ClusterRole", resource.rpartition("/")
    rule = {"apiGroups": [group], "resources": [plural], "verbs": [verb]}
    rule |= {"resourceNames": [*names]} if names else {}
    role = "-".join((verb, plural, *names, user))
    tenant.create(rbac(kind, role, namespace) | {"rules": [rule]})
    tenant.create(binding(kind, role, user, namespace))
    what = ".".join(filter(None, (plural, group))) + "".join(f"/{name}" for name in names)
    tenant.asking.until_may(user, f"{verb} {what}" + (f" -n {namespace}" if namespace else ""))


def test_python_names_the_right():
    def needed(**spec) -> list[str]:
        workload = {"metadata": {"namespace": "shop"}, "spec": spec}
        return [f"{right.field}: {right}" for right in validation.rights_needed(workload)]

    assert needed(priority=1) == ["spec.priority: use priorities.stowage.dev"]
    approved = "spec.rollout.approvals: approve workloads.stowage.dev"
    assert needed(rollout=rollout(CANARY)) == [approved]
    elsewhere = needed(dependencies="Follow", targetNamespace="other")
    assert "spec.dependencies: get secrets" in elsewhere
    assert "spec.dependencies: get secrets" not in needed(targetNamespace="other")
    for spec in (
        {},
        {"priority": 0},
        {"priority": -1},
        {"rollout": rollout()},
        {"rollout": None},
        {"dependencies": "Follow"},
        {"dependencies": "Follow", "targetNamespace": "shop"},
    ):
        assert needed(**spec) == [], spec


# --- a priority above 0 ---------------------------------------------------------------------------


def first(tenant, kind: str, priority: int) -> dict:
    if kind == "Workload":
        return tenant.workload("demo", priority=priority)
    return of(tenant) | {"spec": {**of(tenant)["spec"], "priority": priority}}


@pytest.mark.proves("N4b")
@pytest.mark.parametrize("kind", ["Workload", "Reservation"])
def test_a_priority_above_0_needs_the_verb_in_the_namespace(tenant, author, kind):
    create = functools.partial(tenant.asking.create, user=author, dry_run=True)
    for priority in (-5, 0):
        assert refusal(create, first(tenant, kind, priority)) == ""
    highest = first(tenant, kind, 2**31 - 1)
    said = refusal(create, highest)
    assert f"spec.priority: {author} may not set a priority above 0" in said
    assert "the verb use on priorities.stowage.dev there" in said
    assert "forbidden" in said
    allow(tenant, author, "use", "stowage.dev/priorities", "default")
    assert "it needs the verb use" in refusal(create, highest), "that is another namespace"
    allow(tenant, author, "use", "stowage.dev/priorities", tenant.namespace)
    assert refusal(create, highest) == ""


@pytest.mark.proves("N4b")
@pytest.mark.parametrize("kind", ["Workload", "Reservation"])
def test_only_who_raises_it_is_asked(tenant, author, kind):
    tenant.create(first(tenant, kind, 7))
    patch = functools.partial(tenant.patch, "demo", kind=kind, user=author)
    for edit in ({"replicas": 3}, {"priority": 7, "replicas": 2}, {"priority": 3}):
        assert refusal(patch, {"spec": edit}) == ""
    assert "it needs the verb use" in refusal(patch, {"spec": {"priority": 4}})
    assert refusal(patch, {"spec": {"priority": -1}}) == ""
    assert "it needs the verb use" in refusal(patch, {"spec": {"priority": 1}})


# --- a rollout's approvals ------------------------------------------------------------------------


def rollout(*approvals, **more) -> dict:
    waves = [{"name": "canary", "clusterSelector": {}, "approval": True}]
    return {"waves": waves, "approvals": [*approvals], **more}


def approves(tenant, user: str, name: str) -> None:
    allow(tenant, user, "approve", "stowage.dev/workloads", tenant.namespace, name)


@pytest.mark.proves("T5")
def test_an_approval_needs_the_verb_for_that_workload(tenant, author):
    create = functools.partial(tenant.asking.create, user=author, dry_run=True)
    assert refusal(create, tenant.workload("web", rollout=rollout())) == ""
    approved = tenant.workload("web", rollout=rollout(CANARY))
    said = refusal(create, approved)
    assert f"spec.rollout.approvals: {author} may not approve the rollout of web" in said
    assert (
        f"the verb approve on workloads.stowage.dev web in the namespace {tenant.namespace}" in said
    )
    assert "forbidden" in said
    approves(tenant, author, "other")
    assert "it needs the verb approve" in refusal(create, approved), "that is another Workload"
    approves(tenant, author, "web")
    assert refusal(create, approved) == ""


@pytest.mark.proves("T5")
def test_who_leaves_the_approvals_as_they_are_is_not_asked(tenant, author):
    tenant.create(tenant.workload("web", rollout=rollout(CANARY)))
    tenant.create(tenant.workload("plain"))
    edit = functools.partial(tenant.patch, "web", user=author)
    for spec in (
        {"replicas": 3},
        {"rollout": {"paused": True, "aborted": "6f2c000000000000"}},
        {"rollout": rollout(CANARY, minReadySeconds=5)},
    ):
        assert refusal(edit, {"spec": spec}) == ""
    for spec in (
        {"rollout": {"approvals": []}},
        {"rollout": {"approvals": [EU]}},
        {"rollout": None},
    ):
        assert "it needs the verb approve" in refusal(edit, {"spec": spec}), spec
    added = functools.partial(tenant.patch, "plain", user=author)
    assert "it needs the verb approve" in refusal(added, {"spec": {"rollout": rollout(CANARY)}})
    approves(tenant, author, "web")
    assert refusal(edit, {"spec": {"rollout": {"approvals": [CANARY, EU]}}}) == ""
    assert refusal(edit, {"spec": {"rollout": None}}) == ""


# --- what pods name, in a foreign namespace -------------------------------------------------------


@pytest.mark.proves("DP12")
def test_a_foreign_target_needs_the_right_to_read_secrets(tenant, author):
    allow(tenant, author, "use", "stowage.dev/targetnamespaces", "", "shared")
    create = functools.partial(tenant.asking.create, user=author, dry_run=True)
    for spec in (
        {},
        {"dependencies": "Follow"},
        {"dependencies": "Follow", "targetNamespace": tenant.namespace},
        {"dependencies": "None", "targetNamespace": "shared"},
        {"targetNamespace": "shared"},
    ):
        assert refusal(create, tenant.workload("demo", **spec)) == "", spec
    elsewhere = tenant.workload("demo", dependencies="Follow", targetNamespace="shared")
    said = refusal(create, elsewhere)
    assert f"spec.dependencies: {author} may not let Secrets of the namespace" in said
    assert f"it needs the verb get on secrets in {tenant.namespace}" in said
    assert "forbidden" in said
    allow(tenant, author, "get", "secrets", tenant.namespace)
    assert refusal(create, elsewhere) == ""


@pytest.mark.proves("DP12")
def test_each_edit_is_asked_for_as_it_may_name_another_secret(tenant, author):
    tenant.create(tenant.workload("demo", dependencies="Follow", targetNamespace="shared"))
    patch = functools.partial(tenant.patch, "demo", user=author)
    said = refusal(patch, {"spec": {"targetDeployment": {"spec": {"paused": True}}}})
    assert "it needs the verb get on secrets" in said
    assert refusal(patch, {"spec": {"dependencies": "None"}}) == ""
    assert "it needs the verb get on secrets" in refusal(
        patch, {"spec": {"dependencies": "Follow"}}
    )


@pytest.mark.proves("DP12")
def test_only_the_two_words_are_taken(tenant):
    create = functools.partial(tenant.create, dry_run=True)
    assert '"None", "Follow"' in refusal(create, tenant.workload("demo", dependencies="follow"))
