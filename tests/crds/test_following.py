"""Objects that pods name go into a foreign namespace only for who may read Secrets, hub and Python."""

from __future__ import annotations

import functools

import pytest

from crds.admission import validation

from .asking import refusal
from .test_admission import binding, rbac, writes

pytestmark = pytest.mark.proves("DP12")


@pytest.fixture
def author(tenant):
    """A user who may write Workloads of the tenant, and have them deploy into `shared`."""
    user = f"{tenant.namespace}-author"
    writes(tenant, "author", user, "workloads")
    use = {
        "apiGroups": ["stowage.dev"],
        "resources": ["targetnamespaces"],
        "resourceNames": ["shared"],
        "verbs": ["use"],
    }
    tenant.create(rbac("ClusterRole", user) | {"rules": [use]})
    tenant.create(binding("ClusterRole", user, user))
    tenant.asking.until_may(user, "use targetnamespaces.stowage.dev/shared")
    return user


def allow(tenant, user: str, namespace: str) -> None:
    """A Role there that lets the user read Secrets."""
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    tenant.create(rbac("Role", "reads-secrets", namespace) | {"rules": [rule]})
    tenant.create(binding("Role", "reads-secrets", user, namespace))
    tenant.asking.until_may(user, f"get secrets -n {namespace}")


def test_a_foreign_target_needs_the_right_to_read_secrets(tenant, author):
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
    allow(tenant, author, tenant.namespace)
    assert refusal(create, elsewhere) == ""


def test_each_edit_is_asked_for_as_it_may_name_another_secret(tenant, author):
    tenant.create(tenant.workload("demo", dependencies="Follow", targetNamespace="shared"))
    patch = functools.partial(tenant.patch, "demo", user=author)
    said = refusal(patch, {"spec": {"targetDeployment": {"spec": {"paused": True}}}})
    assert "it needs the verb get on secrets" in said
    assert refusal(patch, {"spec": {"dependencies": "None"}}) == ""
    assert "it needs the verb get on secrets" in refusal(
        patch, {"spec": {"dependencies": "Follow"}}
    )


def test_python_names_the_right():
    def needed(**spec) -> list[str]:
        workload = {"metadata": {"namespace": "shop"}, "spec": spec}
        return [
            f"{right.field}: {right}"
            for right in validation.rights_needed(workload)
            if right.field == "spec.dependencies"
        ]

    assert needed(dependencies="Follow", targetNamespace="other") == [
        "spec.dependencies: get secrets"
    ]
    for spec in (
        {},
        {"dependencies": "Follow"},
        {"dependencies": "Follow", "targetNamespace": "shop"},
        {"dependencies": "None", "targetNamespace": "other"},
    ):
        assert needed(**spec) == []


def test_only_the_two_words_are_taken(tenant):
    create = functools.partial(tenant.create, dry_run=True)
    assert '"None", "Follow"' in refusal(create, tenant.workload("demo", dependencies="follow"))
