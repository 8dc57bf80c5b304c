"""Assignments and MemberReports: where they may be, and what of an agent a real server refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from crds.assignment import MOST_BUNDLE, Assignment
from crds.memberreport import MemberReport
from crds.names import LABEL_MEMBER_NAMESPACE
from tests.patience import hold_on

from .asking import Asking, refusal

_numbers = itertools.count(1)
CLAIM = "A" * 43 + "="
OTHER = "B" * 43 + "="
WORKLOAD = {"namespace": "shop", "name": "demo", "generation": 1}


def assignment(uid: str = "u-1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Assignment",
        "metadata": {"name": uid},
        "spec": {
            "workload": WORKLOAD | {"uid": "u-1"},
            "order": "Apply",
            "targetNamespace": "shop",
            "digest": "6b1c",
            "decided": "81230",
            **spec,
        },
    }


def report(name: str = "member") -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "MemberReport",
        "metadata": {"name": name},
    }


def within(namespace: str, made: Mapping[str, Any]) -> dict[str, Any]:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


@pytest.fixture
def place(asking: Asking) -> str:
    """A namespace of a member, once the server goes by its label."""
    name = f"stowage-member-m-{next(_numbers)}"
    meta = {"name": name, "labels": {LABEL_MEMBER_NAMESPACE: "m"}}
    asking.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    hold_on(lambda: not refusal(asking.create, within(name, assignment()), dry_run=True))
    return name


@pytest.mark.proves("PL5")
def test_each_kind_lives_in_its_own_namespaces(asking: Asking, tenant: Any, place: str) -> None:
    workload = tenant.workload("demo")
    assert not refusal(asking.create, workload, dry_run=True)
    assert "use another one" in refusal(asking.create, within(place, workload), dry_run=True)
    for made in (assignment(), report()):
        assert not refusal(asking.create, within(place, made), dry_run=True)
        elsewhere = within(tenant.namespace, made)
        assert LABEL_MEMBER_NAMESPACE in refusal(asking.create, elsewhere, dry_run=True)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (assignment("u-2"), "is the UID of the Workload"),
        (assignment(bundle="x" * (MOST_BUNDLE + 1)), "spec.bundle"),
        (assignment(targetNamespace="kube-system"), "never a target"),
        (assignment(order="Restart"), "spec.order"),
        (assignment(replicas=-1), "spec.replicas"),
        (report("another"), "is member"),
    ],
)
def test_what_no_shard_writes_is_refused(
    asking: Asking, place: str, made: dict[str, Any], told: str
) -> None:
    assert told in refusal(asking.create, within(place, made), dry_run=True)
    model = Assignment if made["kind"] == "Assignment" else MemberReport
    with pytest.raises(ValidationError):
        model.model_validate(made)


def patched(asking: Asking, place: str, kind: str, name: str) -> Callable[[Any], str]:
    def status(patch: Any) -> str:
        more = {"kind": kind, "namespace": place, "subresource": "status"}
        return refusal(asking.patch, name, {"status": patch}, **more)

    return status


@pytest.mark.proves("PL6")
def test_a_claim_is_final(asking: Asking, place: str) -> None:
    """Neither null, nor a status without it, nor one that is null takes it off."""
    asking.create(within(place, report()))
    status = patched(asking, place, "MemberReport", "member")
    assert not status({"release": "0.1.0"})
    assert "status.claim" in status({"claim": "short"})
    assert not status({"claim": CLAIM})
    for patch in ({"claim": OTHER}, {"claim": None}, None):
        assert "was claimed by another agent" in status(patch), patch
    assert not status({"claim": CLAIM, "release": "0.2.0"})
    stored = asking.get("member", "MemberReport", namespace=place)
    assert stored["status"]["claim"] == CLAIM


@pytest.mark.proves("PL17")
def test_a_report_beyond_its_bounds_is_refused(asking: Asking, place: str) -> None:
    asking.create(within(place, report()))
    told = patched(asking, place, "MemberReport", "member")
    assert "status.version" in told({"version": "v" * 2**20})
    assert "status.capacity.nodes" in told({"capacity": {"nodes": -1}})
    assert "status.nodeGroups" in told({"nodeGroups": [{"count": 1}] * 65})
    assert "status.unassigned.count" in told({"unassigned": {"count": -1}})
    assert not told({"version": "v1.36.3", "capacity": {"nodes": 3}})

    asking.create(within(place, assignment()))
    said = patched(asking, place, "Assignment", "u-1")
    assert "must not be more than asked" in said({"counts": {"asked": 2, "ready": 3}})
    assert "counts.ready" in said({"counts": {"asked": 2, "ready": -1}})
    assert "more than ready" in said({"counts": {"asked": 2, "ready": 1, "available": 2}})
    assert "status.message" in said({"message": "x" * 5000})
    assert not said({"state": "Running", "counts": {"asked": 2, "ready": 2, "available": 2}})


def test_a_table_shows_the_share(hub: Any, asking: Asking, place: str) -> None:
    asking.create(within(place, assignment()))
    patched(asking, place, "Assignment", "u-1")(
        {"state": "Running", "counts": {"asked": 2, "ready": 1}}
    )
    head, row = hub.kubectl("-n", place, "get", "asg").splitlines()
    assert head.split() == ["NAME", "WORKLOAD", "ORDER", "STATE", "READY", "AGE"]
    assert row.split()[1:5] == ["demo", "Apply", "Running", "1"]
