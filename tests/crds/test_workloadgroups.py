"""WorkloadGroup: what is refused, alike by a real API server and in Python, and what is taken.

And its labels: what admission makes of them on a Workload, and what it leaves as it was written.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from crds.admission import validation
from crds.definition import UNOBSERVED
from crds.groups.membership import groups_named
from crds.names import GROUP_ALIASES, LABEL_GROUP, NORMALISED_PREFIX

from .asking import refusal
from .bodies import body, dry, taken

FIRST, SECOND = GROUP_ALIASES
MARK = f"{NORMALISED_PREFIX}workload-group"
group = partial(body, "WorkloadGroup")


def of(tenant: Any, **spec: Any) -> dict[str, Any]:
    return group(namespace=tenant.namespace, **spec)


@pytest.mark.proves("G1", "G2")
def test_a_name_is_one_that_a_label_can_give(asking):
    def named(length: int) -> dict[str, Any]:
        return group() | {"metadata": {"name": "g" * length, "namespace": "default"}}

    assert taken(asking, named(63))
    assert "at most 63 characters" in dry(asking, named(64))
    [said] = validation.object_violations("WorkloadGroup", named(64))
    assert said.startswith("metadata.name: at most 63 characters")
    assert said.endswith("take a shorter one")


@pytest.mark.proves("G1")
def test_all_of_it_can_be_changed_and_an_edit_is_judged_as_well(tenant):
    tenant.create(of(tenant, topology={"topologyKey": "zone"}))
    edits = {
        "minMember": 6,
        "minResources": {"cpu": "18"},
        "scheduleTimeoutSeconds": 10,
        "topology": {"topologyKey": "region", "mode": "Preferred"},
    }
    tenant.patch("demo", {"spec": edits}, kind="WorkloadGroup")
    assert tenant.get("demo", "WorkloadGroup")["spec"] == edits
    none = {"spec": {"minMember": 0}}
    assert "spec.minMember" in refusal(tenant.patch, "demo", none, kind="WorkloadGroup")
    assert tenant.get("demo", "WorkloadGroup")["spec"] == edits


def write_status(tenant: Any, status: dict[str, Any]) -> str:
    return refusal(tenant.write_status, "demo", status, "WorkloadGroup")


@pytest.mark.proves("G1", "G20")
def test_a_status_of_another_form_is_refused(tenant):
    tenant.create(of(tenant))
    for status, field in (
        ({"phase": "Available"}, "status.phase"),
        ({"gate": "Ajar"}, "status.gate"),
        ({"running": -1}, "status.running"),
        ({"decisions": {"f8a3": 7}}, "status.decisions.f8a3"),
        ({"decisions": {f"{n}": "acde049cabb8b1e6" for n in range(4097)}}, "status.decisions"),
    ):
        assert field in write_status(tenant, status), field
    assert tenant.get("demo", "WorkloadGroup")["status"] == UNOBSERVED


@pytest.mark.proves("G1", "G20")
def test_a_group_of_most_workloads_can_be_stored_with_all_of_them_released(tenant):
    """With sums that no Workload alone could have."""
    tenant.create(of(tenant))
    released = {f"{n:036}": f"{n:016}" for n in range(4096)}
    status = {**UNOBSERVED, "gate": "Open", "decisions": released, "desired": 2**40}
    assert write_status(tenant, status) == ""
    assert tenant.get("demo", "WorkloadGroup")["status"] == status


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.proves("G2")
def test_an_alias_on_a_workload_becomes_the_label_and_is_followed(tenant):
    for name, alias in zip("ab", GROUP_ALIASES, strict=True):
        tenant.create(tenant.workload(name, labels={alias: "batch"}))
        metadata = tenant.get(name)["metadata"]
        assert metadata["labels"] == {alias: "batch", LABEL_GROUP: "batch"}
        assert metadata["annotations"][MARK] == "batch"
        tenant.label(name, alias, "other")
        labels = tenant.get(name)["metadata"]["labels"]
        assert groups_named(labels) == ("other",)
        tenant.label(name, alias, None)
        assert groups_named(tenant.get(name)["metadata"].get("labels", {})) == ()


@pytest.mark.proves("G2")
def test_two_aliases_that_differ_stay_two_groups_whichever_came_first(tenant):
    """Nobody chooses one of them in silence: the controller says AmbiguousGroup."""
    tenant.create(tenant.workload("member", labels={FIRST: "batch", SECOND: "other"}))
    assert tenant.get("member")["metadata"]["labels"] == {FIRST: "batch", SECOND: "other"}
    tenant.create(tenant.workload("later", labels={FIRST: "batch"}))
    tenant.label("later", SECOND, "other")
    labels = tenant.get("later")["metadata"]["labels"]
    assert groups_named(labels) == ("batch", "other")
    tenant.label("later", FIRST, None)
    assert groups_named(tenant.get("later")["metadata"]["labels"]) == ("other",)


@pytest.mark.proves("G2")
def test_the_label_may_stand_on_the_template_and_on_its_pods(tenant):
    labels, parts = (LABEL_GROUP, *GROUP_ALIASES), ("targetDeployment", "template")
    for number, (label, part) in enumerate(itertools.product(labels, parts)):
        stands_on(tenant, f"member-{number}", label, part)


def stands_on(tenant: Any, name: str, label: str, part: str) -> None:
    workload = tenant.workload(name)
    body = workload["spec"].pop("targetDeployment")
    body["metadata"]["labels"] = {label: "batch"}
    pods = {"metadata": {"labels": {"app": "member", label: "other"}}}
    body["spec"] = {"selector": {"matchLabels": {"app": "member"}}, "template": pods}
    workload["spec"][part] = body
    tenant.create(workload)
    stored = tenant.get(name)
    assert "labels" not in stored["metadata"], "what is said below is not copied up"
    inner = stored["spec"][part]
    assert inner["metadata"]["labels"] == {label: "batch"}
    assert inner["spec"]["template"]["metadata"]["labels"] == pods["metadata"]["labels"]
    assert groups_named({}, inner["metadata"]["labels"]) == ("batch",)
    assert validation.violations(workload) == []
