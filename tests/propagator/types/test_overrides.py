"""status.overrides: how they are read, and what their patches make of a Workload on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from propagator.apply.render import PatchMisfit, Piece, render
from propagator.outcome import DesiredShare
from propagator.types.overrides import NOTHING
from propagator.types.workload import Workload, workload_of
from tests.propagator.apply.memberfacts import member_facts

CONTAINERS = [{"name": "main", "image": "x"}, {"name": "side", "image": "y"}]
SELECTED = {"selector": {"matchLabels": {"app": "web"}}}


def pods() -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}


def template(kind: str) -> dict[str, Any]:
    """A template of that kind."""
    group = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    spec: dict[str, Any] = {"template": pods()}
    if kind == "CronJob":
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
    elif group == "apps/v1":
        spec |= SELECTED
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def workload(overrides: Any, *, kind: str = "Deployment", **spec: Any) -> Workload:
    spec = spec or {"template": template(kind)}
    return workload_of(
        {
            "metadata": {"namespace": "shop", "name": "demo", "uid": "u-1", "generation": 1},
            "spec": spec,
            "status": {
                "placements": [{"cluster": each, "replicas": 2} for each in ("m1", "m2")],
                "overrides": overrides,
            },
        }
    )


def override(patch: Any = None, *clusters: str, name: str = "normal", **costs: Any) -> Any:
    told = {"patch": patch} if patch is not None else {}
    named = [{"name": each, **costs} for each in clusters or ("m1",)]
    return {"name": name, **told, "clusters": named}


def on(cluster: str, found: Workload) -> Piece:
    pieces = render(
        found,
        replicas=2,
        first_ordinal=0,
        secrets=[],
        member=member_facts(),
        override=found.overrides.of(cluster),
    )
    return pieces[-1]


def pods_of(piece: Piece) -> Mapping[str, Any]:
    spec = piece.body["spec"]
    if "jobTemplate" in spec:
        spec = spec["jobTemplate"]["spec"]
    pods: Mapping[str, Any] = spec["template"]
    return pods


ARCH = {
    "metadata": {"labels": {"arch": "x86"}},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "500m"}}}]},
}


@pytest.mark.proves("W11", "W1")
@pytest.mark.parametrize(
    "kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", "CronJob"]
)
def test_a_patch_is_laid_over_the_pod_template_of_its_clusters_alone(kind: str) -> None:
    found = workload([override(ARCH)], kind=kind)
    patched = pods_of(on("m1", found))
    main, side = patched["spec"]["containers"]
    assert patched["metadata"]["labels"] == {
        "app": "web",
        "arch": "x86",
        "stowage.dev/workload-uid": "u-1",
    }
    assert main == {"name": "main", "image": "x", "resources": {"limits": {"cpu": "500m"}}}
    assert side == CONTAINERS[1]
    assert "arch" not in pods_of(on("m2", found))["metadata"]["labels"]
    assert on("m2", found).digest == on("m2", workload([], kind=kind)).digest


def test_a_patch_is_part_of_what_was_applied_whatever_its_spelling() -> None:
    one = on("m1", workload([override({"spec": {"nodeSelector": {"a": "b", "c": "d"}}})]))
    same = on("m1", workload([override({"spec": {"nodeSelector": {"c": "d", "a": "b"}}})]))
    other = on("m1", workload([override({"spec": {"nodeSelector": {"c": "e", "a": "b"}}})]))
    assert one.digest == same.digest != other.digest
    assert one.subset == "normal"


def test_what_is_ours_survives_every_patch() -> None:
    patch = {
        "metadata": {
            "labels": {
                "$patch": "replace",
                "app": "web",
                "stowage.dev/workload-uid": "another",
                "stowage.dev/managed": "true",
            },
            "annotations": {"owner.stowage.dev/u-2": "shop/other"},
        },
        "spec": {"schedulerName": "stowage"},
    }
    found = workload([override(patch)])
    for _ in range(2):  # and the patch is not changed by it
        patched = pods_of(on("m1", found))
        assert patched["metadata"]["labels"] == {"app": "web", "stowage.dev/workload-uid": "u-1"}
        assert not patched["metadata"]["annotations"]
        assert "schedulerName" not in patched["spec"]


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        (
            {"spec": {"containers": [{"name": "main", "ports": {}}]}},
            "spec.containers[0].ports: must be a list",
        ),
        (
            {"spec": {"containers": [{"name": "third"}]}},
            "spec.containers[0]: no container 'third' in the template, and no image",
        ),
        ({"metadata": {"labels": {"app": "else"}}}, "metadata.labels.app: must stay web"),
        ({"metadata": {"labels": None}}, "metadata.labels.app: must stay web"),
        ({"metadata": None}, "metadata.labels.app: must stay web"),
        ([1], "the patch: must be a mapping"),
        ("odd", "the patch: must be a mapping"),
    ],
)
def test_a_patch_that_does_not_fit(patch: Any, told: str) -> None:
    found = workload([override(patch)])
    with pytest.raises(PatchMisfit) as caught:
        on("m1", found)
    assert told in str(caught.value)
    assert on("m2", found)


def test_a_patch_may_come_as_text_with_its_nulls() -> None:
    text = '{"metadata": {"labels": {"arch": "arm"}}, "spec": {"nodeSelector": null}}'
    piece = on("m1", workload([override(text)]))
    assert pods_of(piece)["metadata"]["labels"]["arch"] == "arm"
    with pytest.raises(PatchMisfit, match="the patch: must be a mapping, not a string"):
        on("m1", workload([override("{" * 5000)]))


def test_a_kind_without_a_pod_template_takes_no_patch() -> None:
    custom = {"apiVersion": "example.org/v1", "kind": "Farm", "metadata": {}, "spec": {}}
    with pytest.raises(PatchMisfit, match="a Farm has no pod template"):
        on("m1", workload([override(ARCH)], template=custom, replicasPath="spec.size"))
    bare = {**template("Deployment"), "spec": {}}
    with pytest.raises(PatchMisfit, match=r"spec\.template of the Deployment is missing"):
        on("m1", workload([override(ARCH)], template=bare))


def test_costs_are_read_the_highest_first_and_within_their_bounds() -> None:
    costs = [{"cost": -100, "replicas": 3}, {"cost": 2**70, "replicas": -5}]
    found = workload([override(None, "m1", deletionCosts=costs)])
    assert found.overrides.of("m1").costs == ((2**31 - 1, 0), (-100, 3))
    assert found.overrides.with_costs() == ["m1"]
    assert found.overrides.of("m2") is NOTHING


def test_the_first_entry_that_names_a_cluster_counts() -> None:
    found = workload([override(ARCH, "m1"), override(None, "m1", "m2", name="elastic")])
    assert found.overrides.of("m1").subset == "normal"
    assert found.overrides.of("m2").subset == "elastic"


@pytest.mark.parametrize(
    "overrides",
    [
        "text",
        {"a": 1},
        [1],
        [{"clusters": [{}]}],
        [{"clusters": [{"name": 1}]}],
        [{"clusters": [{"name": "m1", "deletionCosts": [{"cost": "x", "replicas": 1}]}]}],
    ],
)
def test_what_cannot_be_read_is_a_fault_and_no_crash(overrides: Any) -> None:
    found = workload(overrides)
    assert found.overrides.fault.startswith("status.overrides cannot be read")
    assert found.overrides.of("m1") is NOTHING


@pytest.mark.parametrize("overrides", [None, [], [{}], [{"name": None, "patch": None}]])
def test_nothing_in_them_is_no_fault(overrides: Any) -> None:
    found = workload(overrides)
    assert not found.overrides.fault
    assert found.overrides.of("m1") is NOTHING


def test_another_patch_is_another_wish_and_other_costs_are_none() -> None:
    plain, patched = workload([]), workload([override(ARCH)])
    costly = workload([override(None, "m1", deletionCosts=[{"cost": 1, "replicas": 2}])])
    assert DesiredShare.of(plain, "m1") != DesiredShare.of(patched, "m1")
    assert DesiredShare.of(plain, "m2") == DesiredShare.of(patched, "m2")
    assert DesiredShare.of(plain, "m1") == DesiredShare.of(costly, "m1")
    assert plain.overrides.differing(patched.overrides) == {"m1"}
    assert plain.overrides.differing(workload("odd").overrides) == set()
