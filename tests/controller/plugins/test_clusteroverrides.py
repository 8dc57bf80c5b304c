"""Overrides in a decision: the room of the patched pods, and clusters on which they do not fit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.remedies import remedies
from controller.model import overridden
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, restated, workload_info
from controller.scheduling.cycle import decide
from tests.controller.features.workloadspread import spreads
from tests.controller.make import NOW, cluster, decided, info, snapshot, verdicts, workload

EU, US = {"region": "eu"}, {"region": "us"}
DIVIDED = {"distribution": "Divided"}


def override(name: str = "eu", labels: dict[str, str] | None = None, **said: Any) -> dict[str, Any]:
    return {
        "name": name,
        "clusterSelector": {"matchLabels": EU if labels is None else labels},
        **said,
    }


def main(**container: Any) -> dict[str, Any]:
    """A merge patch of the container main."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


def asks(cpu: str) -> dict[str, Any]:
    return main(resources={"requests": {"cpu": cpu}})


def small(name: str, labels: dict[str, str]) -> MemberCluster:
    """A cluster with room for four units of half a cpu."""
    free = {"cpu": "2", "memory": "32Gi", "pods": "110"}
    return cluster(name, labels, groups=[{"count": 1, "free": free}])


@pytest.mark.proves("O7")
def test_room_is_counted_with_the_patched_request_on_those_clusters() -> None:
    overrides = [override(patch=asks("1"))]
    found = decided(
        info(replicas=9, overrides=overrides, **DIVIDED), small("m1", EU), small("m2", US)
    )
    assert found.placements == {"m1": 2, "m2": 4}


@pytest.mark.proves("O7")
def test_the_later_of_two_overrides_decides_what_is_asked() -> None:
    both = [override("one", patch=asks("2")), override("two", patch=asks("1"))]
    there = [small("m1", EU)]
    assert decided(info(replicas=9, overrides=both, **DIVIDED), *there).placements == {"m1": 2}
    again = info(replicas=9, overrides=both[::-1], **DIVIDED)
    assert decided(again, *there).placements == {"m1": 1}


@pytest.mark.proves("O5")
@pytest.mark.parametrize(
    "said",
    [
        {
            "jsonPatch": [
                {"op": "replace", "path": "/spec/template/spec/containers/3/image", "value": "x"}
            ]
        },
        {"patch": {"spec": {"template": {"spec": {"containers": [{"name": "other"}]}}}}},
        {"patch": main(resources={"requests": {"cpu": "lots"}})},
        {"patch": main(args=["$(stowage.label:zone)"])},
    ],
    ids=["path", "container", "quantity", "label"],
)
def test_a_cluster_on_which_it_does_not_fit_is_refused_and_the_others_take_all(
    said: dict[str, Any],
) -> None:
    of = info(replicas=3, overrides=[override(**said)], **DIVIDED)
    found = decided(of, small("m1", EU), small("m2", US))
    assert found.placements == {"m2": 3}
    assert verdicts(found) == {"m1": "override eu does not fit", "m2": ""}


@pytest.mark.proves("O5")
def test_what_runs_stays_where_the_override_does_not_fit() -> None:
    wrong = [override(patch=main(args=["$(stowage.label:zone)"]))]
    of = info(replicas=3, overrides=wrong, present={"m1": 3}, **DIVIDED)
    assert decided(of, small("m1", EU), small("m2", US)).placements == {"m1": 3}


@pytest.mark.proves("O5")
def test_what_would_help_is_said() -> None:
    of = info(overrides=[override(patch=main(args=["$(stowage.label:zone)"]))], **DIVIDED)
    view = snapshot(small("m1", EU))
    found = decide(view, of, PlacementIndex(), default_profile(), NOW)
    said = [str(each) for each in remedies(found)]
    assert any("the cluster has no label zone" in each for each in said), said


@pytest.mark.proves("O6")
def test_a_relabelled_cluster_moves_nothing() -> None:
    of = info(
        replicas=3, overrides=[override(patch=main(args=["x"]))], present={"m1": 3}, **DIVIDED
    )
    for labels in (EU, US):
        assert decided(of, small("m1", labels), small("m2", US)).placements == {"m1": 3}


@pytest.mark.proves("O11")
def test_a_label_counts_on_clusters_whose_override_reads_it_alone() -> None:
    overrides = [override(patch=asks("$(stowage.label:size)"))]
    clusters = [
        small("m1", {**EU, "size": "1"}),
        small("m2", {**EU, "size": "2"}),
        small("m3", EU),
        small("m4", US),
    ]
    found = decided(info(replicas=20, overrides=overrides, **DIVIDED), *clusters)
    assert found.placements == {"m1": 2, "m2": 1, "m4": 4}
    assert verdicts(found)["m3"] == "override eu does not fit"


@pytest.mark.proves("O3")
def test_a_subsets_patch_is_laid_over_the_overridden_pods() -> None:
    extra = main(env=[{"name": "A", "value": "1"}])
    extra["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "wait", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
    ]
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    bound = spreads.spread({"name": "all", "patch": patch}, scheduleStrategy=spreads.adaptive())
    of = spreads.info(replicas=9, cpu="500m", overrides=[override(patch=extra)])
    found = spreads.decided(of, bound, small("m1", EU), small("m2", US))
    # On m1 a unit asks for the most of 1500m, of the override, and 1 of the subset; on m2 for 1.
    assert found.placements == {"m1": 1, "m2": 2}


def test_a_change_of_the_status_keeps_the_compiled_overrides() -> None:
    stored = workload(overrides=[override(patch=asks("1"))])
    compiled = msgspec.structs.replace(stored, info=workload_info(stored))
    again = restated(compiled, stored.metadata, stored.status)
    before: WorkloadInfo = compiled.info
    assert again.info.overridden is before.overridden is not None
    assert workload_info(workload()).overridden is None
    assert before.shape != workload_info(workload()).shape


def test_overrides_that_cannot_be_read_hold_nowhere() -> None:
    stored: Workload = workload()
    spec = msgspec.structs.replace(stored.spec, overrides=[{"name": 3}])
    of = workload_info(msgspec.structs.replace(stored, spec=spec))
    assert of.overridden is not None
    assert "spec.overrides" in of.overridden.fault
    assert decided(of, small("m1", EU)).placements == {"m1": 2}


def test_a_patch_that_is_nested_beyond_measure_is_a_fault_and_no_crash() -> None:
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    of = info(overrides=[override(patch={"spec": deep})])
    assert of.overridden is not None
    assert decided(of, small("m2", US)).placements == {"m2": 2}
    whole = [{"op": "add", "path": "/spec/jobTemplate", "value": "text"}]
    odd = info(kind="CronJob", overrides=[override(jsonPatch=whole)])
    assert verdicts(decided(odd, small("m1", EU))) == {"m1": ""}, "its member refuses it"


@pytest.mark.proves("O11")
def test_what_names_its_cluster_is_laid_once_for_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid: list[Any] = []
    real = overridden.overridden

    def counted(*args: Any, **more: Any) -> Any:
        laid.append(args)
        return real(*args, **more)

    monkeypatch.setattr(overridden, "overridden", counted)
    names = ["$(stowage.cluster)", "$(stowage.label:stowage.dev/cluster)"]
    of = info(replicas=3000, overrides=[override(patch=main(args=names))], **DIVIDED)
    found = decided(of, *(small(f"m{n}", EU) for n in range(1000)))
    assert set(found.placements.values()) == {3}
    assert len(laid) == 1
