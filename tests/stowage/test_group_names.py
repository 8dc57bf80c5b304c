"""Names of WorkloadGroups in labels: whoever reads them reads the same, whatever text they are."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller.model.objects import Workload
from controller.model.unit import workload_info
from crds.names import LABEL_GROUP
from machinery.kinds.table import profile_of
from propagator.types.workload import groups_of
from stowage.report import groups
from tests.stowage.test_explain_groups import Hub, hub, lines, run, workload

__all__ = ["hub"]

KINDS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("apps.kruise.io/v1beta1", "StatefulSet"),
    ("apps.kruise.io/v1alpha1", "DaemonSet"),
    ("apps.kruise.io/v1alpha1", "CronJob"),
    ("batch.example.com/v1alpha1", "Job"),
    ("example.com/v1", "Deployment"),
    ("apps.kruise.io/v1alpha1", "CloneSet"),
    ("apps/v1", "CloneSet"),
    ("batch/v1", "Train"),
    ("ai.example/v1", "Train"),
)


def named(name: Any, api_version: str, kind: str, place: str) -> dict[str, Any]:
    """A Workload of that kind that names a group in that place."""
    labels = {"metadata": {"labels": {LABEL_GROUP: name}}}
    pods: dict[str, Any] = {"template": {"spec": {}, **(labels if place == "pods" else {})}}
    if kind == "CronJob":
        pods = {"jobTemplate": {"spec": pods}}
    template = {"apiVersion": api_version, "kind": kind, "spec": pods}
    template |= labels if place == "template" else {}
    metadata = {"name": "w", **(labels["metadata"] if place == "itself" else {})}
    path = {} if profile_of(api_version, kind).known else {"replicasPath": "spec.replicas"}
    return {"metadata": metadata, "spec": {**path, "template": template}}


@pytest.mark.proves("G2")
@pytest.mark.parametrize(("api_version", "kind"), KINDS)
@pytest.mark.parametrize("place", ["itself", "template", "pods"])
def test_controller_propagator_and_commands_see_the_same_members(
    api_version: str, kind: str, place: str
) -> None:
    body = named("batch", api_version, kind, place)
    decided = workload_info(msgspec.convert(body, Workload)).groups
    raw = msgspec.Raw(json.dumps(body["spec"]["template"]).encode())
    assert groups_of(body["metadata"].get("labels", {}), raw) == decided
    assert groups.names_of(body) == decided
    assert decided == (("batch",) if place != "pods" or profile_of(api_version, kind).pods else ())


@pytest.mark.parametrize("kind", ["StatefulSet", 7, ["Job"], None])
def test_a_kind_that_is_no_text_has_no_pods(kind: Any) -> None:
    body = named("batch", "apps/v1", kind, "pods")
    assert groups.names_of(body) == (("batch",) if kind == "StatefulSet" else ())


@pytest.mark.proves("U3", "G18")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("team/batch", "team/batch"),
        ("..", ".."),
        ("a%2fb", "a%2fb"),
        ("no such name", "no such name"),
        ("étude", "étude"),
        ("two\nlines/\x1b[2J", "two lines/ [2J"),
        ("g" * 5000, "g" * 252 + "…"),
    ],
)
def test_a_name_that_no_group_can_have_is_told_beside_the_rest(
    name: str, told: str, hub: Hub
) -> None:
    body = workload("train", 2, {"a": 2})
    del body["metadata"]["labels"]
    body["spec"] = named(name, "apps/v1", "Deployment", "template")["spec"]
    hub.workloads.append(body)
    printed = lines(run(hub.file, "explain", "wl/train"))
    assert printed[0].startswith("shop/train: 2 of 2 replicas placed")
    assert printed[1].startswith(f"in wg/{told}, which is not there: ")
    assert printed[2] == ""
    data = json.loads(run(hub.file, "explain", "wl/train", "-o", "json").stdout)["recorded"]
    assert (data["group"]["names"], data["group"]["found"]) == ([name], False)
    alias = {"scheduling.x-k8s.io/pod-group": "second"}
    body["metadata"]["labels"] = alias
    several = lines(run(hub.file, "explain", "wl/train"))[1]
    assert several.startswith("its labels name several groups, so it is in none: ")
    assert set(several.partition(": ")[2].split(", ")) == {told, "second"}
