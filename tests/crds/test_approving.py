"""A change of a rollout's approvals needs the verb approve, on a real API server and in Python."""

from __future__ import annotations

import functools

import pytest

from crds.admission import validation

from .asking import refusal
from .test_admission import binding, rbac, writes

pytestmark = pytest.mark.proves("T5")

CANARY = {"revision": "6f2c000000000000", "wave": "canary"}
EU = {"revision": "6f2c000000000000", "wave": "eu"}


@pytest.fixture
def editor(tenant):
    """A user who may write Workloads in the tenant's namespace, and approve none."""
    user = f"{tenant.namespace}-editor"
    writes(tenant, "editor", user, "workloads")
    return user


def allow(tenant, user: str, name: str) -> None:
    """A Role there that lets the user approve the rollout of the Workload of that name."""
    rule = {
        "apiGroups": ["stowage.dev"],
        "resources": ["workloads"],
        "resourceNames": [name],
        "verbs": ["approve"],
    }
    role = f"approves-{name}"
    tenant.create(rbac("Role", role, tenant.namespace) | {"rules": [rule]})
    tenant.create(binding("Role", role, user, tenant.namespace))
    tenant.asking.until_may(user, f"approve workloads.stowage.dev/{name} -n {tenant.namespace}")


def rollout(*approvals, **more) -> dict:
    waves = [{"name": "canary", "clusterSelector": {}, "approval": True}]
    return {"waves": waves, "approvals": [*approvals], **more}


@pytest.mark.long
def test_an_approval_needs_the_verb_for_that_workload(tenant, editor):
    create = functools.partial(tenant.asking.create, user=editor, dry_run=True)
    assert refusal(create, tenant.workload("web", rollout=rollout())) == ""
    approved = tenant.workload("web", rollout=rollout(CANARY))
    said = refusal(create, approved)
    assert f"spec.rollout.approvals: {editor} may not approve the rollout of web" in said
    assert (
        f"the verb approve on workloads.stowage.dev web in the namespace {tenant.namespace}" in said
    )
    assert "forbidden" in said
    allow(tenant, editor, "other")
    assert "it needs the verb approve" in refusal(create, approved), "that is another Workload"
    allow(tenant, editor, "web")
    assert refusal(create, approved) == ""


def test_who_leaves_the_approvals_as_they_are_is_not_asked(tenant, editor):
    tenant.create(tenant.workload("web", rollout=rollout(CANARY)))
    tenant.create(tenant.workload("plain"))
    edit = functools.partial(tenant.patch, "web", user=editor)
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
    added = functools.partial(tenant.patch, "plain", user=editor)
    assert "it needs the verb approve" in refusal(added, {"spec": {"rollout": rollout(CANARY)}})
    allow(tenant, editor, "web")
    assert refusal(edit, {"spec": {"rollout": {"approvals": [CANARY, EU]}}}) == ""
    assert refusal(edit, {"spec": {"rollout": None}}) == ""


def test_python_names_the_right():
    def needed(**spec) -> list[str]:
        workload = {"metadata": {"namespace": "shop"}, "spec": spec}
        return [f"{right.field}: {right}" for right in validation.rights_needed(workload)]

    assert needed(rollout=rollout(CANARY)) == [
        "spec.rollout.approvals: approve workloads.stowage.dev"
    ]
    assert needed(rollout=rollout()) == needed(rollout=None) == needed() == []
