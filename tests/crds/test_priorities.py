"""A priority above 0 needs the verb use, on a real API server and in Python."""

from __future__ import annotations

import functools

import pytest

from crds.admission import validation

from .asking import refusal
from .test_admission import binding, rbac, writes
from .test_reservations import of

pytestmark = pytest.mark.proves("N4b")


@pytest.fixture
def author(tenant):
    """A user who may write Workloads and Reservations in the tenant's namespace, and no more."""
    user = f"{tenant.namespace}-author"
    writes(tenant, "author", user, "workloads", "reservations")
    return user


def first(tenant, kind: str, priority: int) -> dict:
    if kind == "Workload":
        return tenant.workload("demo", priority=priority)
    return of(tenant) | {"spec": {**of(tenant)["spec"], "priority": priority}}


def allow(tenant, user: str, namespace: str) -> None:
    """A Role there that lets the user set priorities."""
    rule = {"apiGroups": ["stowage.dev"], "resources": ["priorities"], "verbs": ["use"]}
    tenant.create(rbac("Role", user, namespace) | {"rules": [rule]})
    tenant.create(binding("Role", user, user, namespace))
    tenant.asking.until_may(user, f"use priorities.stowage.dev -n {namespace}")


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
    allow(tenant, author, "default")
    assert "it needs the verb use" in refusal(create, highest), "that is another namespace"
    allow(tenant, author, tenant.namespace)
    assert refusal(create, highest) == ""


@pytest.mark.parametrize("kind", ["Workload", pytest.param("Reservation", marks=pytest.mark.long)])
def test_only_who_raises_it_is_asked(tenant, author, kind):
    tenant.create(first(tenant, kind, 7))
    patch = functools.partial(tenant.patch, "demo", kind=kind, user=author)
    for edit in ({"replicas": 3}, {"priority": 7, "replicas": 2}, {"priority": 3}):
        assert refusal(patch, {"spec": edit}) == ""
    assert "it needs the verb use" in refusal(patch, {"spec": {"priority": 4}})
    assert refusal(patch, {"spec": {"priority": -1}}) == ""
    assert "it needs the verb use" in refusal(patch, {"spec": {"priority": 1}})


def test_python_names_the_right():
    def needed(**spec) -> list[str]:
        workload = {"metadata": {"namespace": "shop"}, "spec": spec}
        return [f"{right.field}: {right}" for right in validation.rights_needed(workload)]

    assert needed(priority=1) == ["spec.priority: use priorities.stowage.dev"]
    assert needed(priority=0) == needed(priority=-1) == needed() == []
