"""Overrides in a decision: the room of the patched pods, and clusters on which they do not fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.pending import remedies
from controller.framework.room import variants_of
from controller.model import overridden
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo, restated, workload_info
from controller.scheduling.cycle import decide
from controller.snapshot import forms
from tests.controller.features.workloadspread import spreads
from tests.controller.make import NOW, cluster, decided, info, snapshot, verdicts, workload
from tests.controller.scheduling.test_long_sets import View

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
    # On m1 a replica asks for the most of 1500m, of the override, and 1 of the subset; on m2 for 1.
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


def slotted(many: int, units: list[WorkloadInfo]) -> View:
    """Clusters each of which has a value of its own of the label `slot`."""
    view = View([], units)
    for n in range(many):
        view.builder.upsert(small(f"m{n}", {**EU, "slot": f"s{n}"}))
    return view


def reading(name: str, patch: dict[str, Any] | None = None, **spec: Any) -> WorkloadInfo:
    patch = patch or main(args=["$(stowage.label:slot)"])
    return info(name, replicas=1100, overrides=[override(patch=patch)], **DIVIDED, **spec)


@pytest.mark.proves("A25")
def test_a_thousand_forms_take_as_many_steps_and_are_laid_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid: list[Any] = []
    real = overridden.overridden

    def counted(*args: Any, **more: Any) -> Any:
        laid.append(args)
        return real(*args, **more)

    asked = reading("one")
    view = slotted(1100, [asked])
    monkeypatch.setattr(overridden, "overridden", counted)
    most = [0]

    def step(_number: int) -> None:
        most.append(len(laid))

    batch, steps = view.decide(asked, between=step)
    assert len(batch.decisions[0].placements) == 1100
    assert steps >= 1100
    assert len(laid) == 1100
    assert max(after - before for before, after in pairwise([*most, len(laid)])) == 1
    laid.clear()
    view.resize("m7", "2")  # another snapshot
    view.decide(asked)
    assert laid == [], "the next decision finds them"


@pytest.mark.proves("A25")
def test_what_has_more_forms_than_are_evaluated_is_told_and_what_runs_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = reading("one", present={"m1": 2})
    assert asked.overridden is not None
    monkeypatch.setattr(forms, "MOST_FORMS_BYTES", 20 * asked.overridden.size)
    few, _ = slotted(20, [asked]).decide(asked)
    assert len(few.decisions[0].placements) == 20
    many, steps = slotted(21, [asked]).decide(asked)
    found = many.decisions[0]
    assert not found.scheduled
    assert "spec.overrides make 21 forms" in found.message
    assert found.placements == {"m1": 2}
    assert steps == 1


@pytest.mark.proves("A25")
def test_forms_that_ask_alike_are_looked_at_as_one_and_very_many_others_are_told() -> None:
    labelled = {"spec": {"template": {"metadata": {"labels": {"at": "$(stowage.label:slot)"}}}}}
    asked = reading("one", labelled)
    view = slotted(200, [asked])
    found = view.decide(asked)[0].decisions[0]
    assert len(found.placements) == 200
    assert len(variants_of(found.cycle_state)) == 1
    for n in range(200):
        view.builder.upsert(small(f"m{n}", {**EU, "slot": str(n + 1)}))
    other = reading("one", asks("$(stowage.label:slot)m"), present={"m1": 2})
    told = view.decide(other)[0].decisions[0]
    assert "spec.overrides make 200 different replicas" in told.message
    assert told.placements == {"m1": 2}


@pytest.mark.proves("A25")
def test_results_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = overridden.OverriddenPods(b"x" * 10_000)
    monkeypatch.setattr(overridden, "_evaluated", lambda *_: made)
    results = overridden._Results(100_000)
    about = (b"", b"", "", "")
    for n in range(1000):
        results.of((about, (n,), ()))
    assert sum(map(overridden._size, results._kept.values())) <= 100_000
    assert len(results._kept) == 9
