"""What a template says by the profile of its kind, and what of it is malformed."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import LABEL_GROUP
from machinery.kinds.groups import groups_of
from machinery.kinds.paths import InvalidTemplate, set_at, value_at
from machinery.kinds.readiness import judge
from machinery.kinds.table import profile_in
from machinery.kinds.templates import (
    check,
    claims_in,
    label_places,
    pod_template,
    replicas_in,
    runs_once,
)
from machinery.kinds.workloadkinds import WorkloadKind, reading_of
from machinery.types.metadata import Meta


def template(kind: str, spec: Any, api_version: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "spec": spec}


@pytest.mark.parametrize(
    ("body", "asked", "wanted"),
    [
        (template("Deployment", {"replicas": 4}), None, 4),
        (template("Deployment", {}), None, 1),
        (template("Deployment", {"replicas": 4}), 2, 2),
        (template("DaemonSet", {"replicas": 4}), 7, 1),
        (template("Job", {"parallelism": 4}, "batch/v1"), None, 4),
        (template("Job", {"parallelism": 10, "completions": 3}, "batch/v1"), None, 3),
        (template("Job", {"completions": 3}, "batch/v1"), 10, 3),
        (template("Widget", {"size": 4}, "example.com/v1"), None, 4),
    ],
)
def test_the_replicas_that_are_wanted(body: Any, asked: int | None, wanted: int) -> None:
    assert replicas_in(profile_in(body, "spec.size"), body, asked) == wanted


@pytest.mark.proves("KD15", "B5")
@pytest.mark.parametrize(
    ("body", "path"),
    [
        (template("Deployment", {"replicas": "4"}), "spec.replicas"),
        (template("Deployment", {"replicas": -1}), "spec.replicas"),
        (template("Deployment", {"replicas": [4]}), "spec.replicas"),
        (template("Deployment", {"replicas": True}), "spec.replicas"),
        (template("Deployment", {"replicas": 2**31}), "spec.replicas"),
        (template("StatefulSet", {"ordinals": None}), "spec.ordinals"),
        (template("StatefulSet", {"ordinals": "1000"}), "spec.ordinals"),
        (template("StatefulSet", {"ordinals": {"start": "a"}}), "spec.ordinals.start"),
        (template("Deployment", None), "spec"),
        (template("Deployment", "text"), "spec"),
        (template("Deployment", {"template": []}), "spec.template"),
        (template("CronJob", {"jobTemplate": "text"}, "batch/v1"), "spec.jobTemplate"),
        (template("CronJob", {"jobTemplate": {"spec": 7}}, "batch/v1"), "spec.jobTemplate.spec"),
        (template("Job", {"completions": "all"}, "batch/v1"), "spec.completions"),
        (template("Widget", {"size": {}}, "example.com/v1"), "spec.size"),
        (template("Widget", [], "example.com/v1"), "spec"),
        (template("HelmRelease", None, "helm.toolkit.fluxcd.io/v2"), "spec"),
        (template("JobSet", "text", "jobset.x-k8s.io/v1alpha2"), "spec"),
    ],
)
def test_what_is_malformed_is_named_by_its_path(body: Any, path: str) -> None:
    with pytest.raises(InvalidTemplate) as told:
        check(profile_in(body, "spec.size"), body)
    assert str(told.value).startswith(f"spec.template.{path}: ")


def test_what_is_well_formed_passes() -> None:
    for body in (
        template("StatefulSet", {"ordinals": {"start": 3}}),
        template("Deployment", {}),
        template("CronJob", {}, "batch/v1"),
        template("Widget", {"template": "whatever it likes"}, "example.com/v1"),
    ):
        check(profile_in(body), body)


def test_what_runs_once_and_what_claims_it_has() -> None:
    recreate = template("Deployment", {"strategy": {"type": "Recreate"}})
    database = template("StatefulSet", {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]})
    assert runs_once(profile_in(recreate), recreate)
    assert not runs_once(profile_in(recreate), template("Deployment", {"strategy": "Recreate"}))
    assert runs_once(profile_in(database), database)
    assert claims_in(profile_in(database), database)
    assert not claims_in(profile_in(database), template("StatefulSet", {}))


@pytest.mark.proves("KD2")
def test_pods_of_a_kind_without_a_profile_are_not_known() -> None:
    pods = {"metadata": {"labels": {LABEL_GROUP: "g"}}}
    known = template("StatefulSet", {"template": pods})
    other = template("StatefulSet", {"template": pods}, "apps.example.com/v1")
    assert pod_template(profile_in(known), known) == pods
    assert pod_template(profile_in(other), other) == {}
    assert (groups_of({}, known), groups_of({}, other)) == (("g",), ())


def test_a_value_is_set_where_its_path_leads() -> None:
    body: dict[str, Any] = {"spec": {}}
    set_at(body, "spec.ordinals.start", 3)
    assert value_at(body, "spec.ordinals.start") == 3
    with pytest.raises(InvalidTemplate, match=r"^spec\.template\.spec\.ordinals\.start: "):
        set_at(body, "spec.ordinals.start.more", 3)


@pytest.mark.proves("KD84")
def test_what_a_suspension_would_end_for_good_is_not_suspended() -> None:
    def ray(**spec: Any) -> dict[str, Any]:
        return {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec}

    for fine in (ray(), ray(suspend=False), ray(suspend=True, shutdownAfterJobFinishes=True)):
        check(profile_in(fine), fine)
    for wrong in (ray(suspend=True), ray(suspend=True, shutdownAfterJobFinishes=False)):
        with pytest.raises(InvalidTemplate, match=r"^spec.template.spec.suspend: .*fail for good"):
            check(profile_in(wrong), wrong)
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"suspend": True}}
    check(profile_in(cluster), cluster)


@pytest.mark.proves("KD7")
def test_a_path_may_begin_with_the_object() -> None:
    spec = {
        "group": "example.com",
        "kind": "Gear",
        "versions": ["v1"],
        "pods": [{"each": "object.spec.groups", "name": "key", "template": "item.template"}],
        "ready": {"replicas": "object.status.ready", "when": ["object.status.up == true"]},
        "suspended": "object.spec.paused",
        "degraded": None,  # as a file has it
    }
    found = reading_of(WorkloadKind(metadata=Meta(name="gear.example.com"), spec=spec)).profile
    assert found is not None
    group = {"template": {"metadata": {}, "spec": {}}}
    body = {"spec": {"groups": {"a": group}}, "status": {"ready": 3, "up": True}}
    assert judge(found, body).ready == 3
    assert label_places(found, body) == [("spec", "groups", "a", "template", "metadata", "labels")]
    assert found.suspend_path == "spec.paused"
