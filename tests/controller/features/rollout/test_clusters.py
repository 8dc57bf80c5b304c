"""What the wave machine is told of a Workload's clusters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.features.rollout.controller import placed_view, view_of
from controller.features.rollout.feature import StagedRollout
from controller.features.rollout.machine import Machine, RolloutCluster, RolloutView
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import Workload
from machinery.kinds.readiness import counts_of, judge
from machinery.kinds.table import profile_of
from tests.controller import make
from tests.controller.live import deployment

OLD, NEW = "a" * 16, "b" * 16
WAVES = [
    {"name": "first", "clusterSelector": {"matchLabels": {"tier": "canary"}}},
    {
        "name": "second",
        "clusterSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    },
]
ROLLOUT = {"phase": "Progressing", "revision": NEW, "stable": OLD, "wave": "first"}


def stored(*, kind: str = "", status: dict[str, Any] | None = None, **pace: Any) -> Workload:
    """A Workload with two waves, and that status."""
    template = deployment("web", "1")
    if kind == "CronJob":
        pods = template["spec"]["template"]
        template |= {"apiVersion": "batch/v1", "kind": kind}
        template["spec"] = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pods}}}
    body = {
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1"},
        "spec": {"template": template, "rollout": {"waves": WAVES, **pace}},
        "status": {"rollout": ROLLOUT, **(status or {})},
    }
    return known(msgspec.convert(body, Workload))


def share(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": 2, "updated": 2, "ready": 2, "revision": NEW, **fields}


def seen(status: dict[str, Any]) -> dict[str, RolloutCluster]:
    fleet = (
        make.cluster("a", {"tier": "canary"}),
        make.cluster("b", {"tier": "large"}),
        make.cluster("c"),
        make.cluster("d", {"tier": "canary"}, ready=False),
    )
    view = view_of(stored(status=status), make.snapshot(*fleet), make.NOW)
    assert view is not None
    return {each.name: each for each in view.clusters}


PLACED = [{"cluster": name, "replicas": 2} for name in ("a", "b", "c", "d", "x")]


@pytest.mark.proves("T14", "T15")
def test_the_first_wave_that_takes_a_cluster_counts_and_the_last_is_of_the_others() -> None:
    found = seen({"placements": PLACED})
    assert {name: each.wave for name, each in found.items()} == {
        "a": 0,
        "b": 1,
        "c": 2,
        "d": 0,
        "x": 2,
    }
    assert [name for name, each in found.items() if not each.reachable] == ["d", "x"]


@pytest.mark.proves("T2", "T25")
@pytest.mark.parametrize(
    ("fields", "settled"),
    [
        ({}, True),
        ({"updated": 1}, False),
        ({"ready": 1}, False),
        ({"ready": 3}, False),
        ({"replicas": 3, "updated": 3, "ready": 3}, False),
        ({"revision": OLD}, True),
        ({"updated": 4, "ready": 4}, True),
        ({"outdated": 1}, False),
    ],
)
def test_settled_is_updated_and_ready_with_the_present_units(
    fields: dict[str, Any], settled: bool
) -> None:
    found = seen({"placements": PLACED, "clusters": [share("a", **fields)]})
    assert found["a"].settled is settled
    assert found["a"].revision == fields.get("revision", NEW)
    assert not found["b"].settled, "nothing is told of it"


@pytest.mark.proves("T18", "T20")
def test_what_leaves_is_seen_and_is_leaving_only_without_a_share() -> None:
    leaving = [{"cluster": name, "replicas": 1} for name in ("a", "c")]
    found = seen({"placements": PLACED[:2], "leaving": leaving})
    assert {name: each.leaving for name, each in found.items()} == {
        "a": False,
        "b": False,
        "c": True,
    }


@pytest.mark.proves("T22")
def test_what_runs_only_now_and_then_is_healthy_as_soon_as_it_is_written() -> None:
    fleet = make.snapshot(make.cluster("a"))
    for kind, seconds in (("CronJob", 0), ("Deployment", 30)):
        view = view_of(stored(kind=kind, minReadySeconds=30), fleet, make.NOW)
        assert view is not None
        assert view.spec.min_ready_seconds == seconds


@pytest.mark.proves("T14")
def test_a_renamed_cluster_keeps_its_revision_in_the_decision_that_names_it_anew() -> None:
    renamed = make.cluster("new-name", {"tier": "large"}, formerNames=["b"])
    fleet = make.snapshot(make.cluster("a", {"tier": "canary"}), renamed)
    before = stored(
        status={
            "placements": [{"cluster": "a", "replicas": 2}, {"cluster": "new-name", "replicas": 2}],
            "revisions": [{"revision": OLD, "clusters": ["b"]}],
        }
    )
    view = placed_view(before.info, before.placements, fleet)
    assert isinstance(view, RolloutView)
    assert view.exceptions == {"new-name": OLD}
    plugin = StagedRollout(NoArgs(), DryRunHandle())
    fields = plugin.status_fields(before.info, before.placements, fleet, make.index())
    assert fields["revisions"] == [{"revision": OLD, "clusters": ["new-name"]}]


@pytest.mark.proves("T14", "A27")
def test_a_look_before_that_decision_passes_no_wave_to_a_renamed_cluster() -> None:
    renamed = make.cluster("new-name", {"tier": "large"}, formerNames=["b"])
    fleet = make.snapshot(make.cluster("a", {"tier": "canary"}), renamed)
    before = stored(
        status={
            "placements": [{"cluster": "a", "replicas": 2}, {"cluster": "b", "replicas": 2}],
            "clusters": [share("a", updated=0), share("b", revision=OLD)],
            "rollout": {**ROLLOUT, "updates": [{"cluster": "a"}]},
            "revisions": [{"revision": OLD, "clusters": ["b"]}],
        }
    )
    view = view_of(before, fleet, make.NOW)
    assert view is not None
    assert {each.name: each.wave for each in view.clusters} == {"a": 0, "new-name": 1}
    step = Machine(view, NEW).step()
    assert step.exceptions == {"new-name": OLD}
    assert "new-name" not in {each.cluster for each in step.status.updates}


@pytest.mark.proves("T14", "T24")
def test_a_decision_says_nothing_where_it_adds_no_cluster_and_where_there_is_no_rollout() -> None:
    fleet = make.snapshot(make.cluster("a", {"tier": "canary"}), make.cluster("c"))
    plugin = StagedRollout(NoArgs(), DryRunHandle())
    under_way = stored(status={"placements": [{"cluster": "a", "replicas": 2}]})
    assert plugin.status_fields(under_way.info, {"a": 5}, fleet, make.index()) == {}
    added = plugin.status_fields(under_way.info, {"a": 2, "c": 1}, fleet, make.index())
    assert added == {"revisions": [{"revision": OLD, "clusters": ["c"]}]}
    plain = make.info("plain")
    assert plugin.status_fields(plain, {"a": 1}, fleet, make.index()) == {}


def of_argo(generation: int, **status: int | str) -> dict[str, Any]:
    """The share of an Argo Rollout of 4 whose controller says that."""
    body = {"metadata": {}, "spec": {"replicas": 4}, "status": status}
    profile = profile_of("argoproj.io/v1alpha1", "Rollout")
    counts = counts_of(judge(profile, body, generation=generation), 4)
    outdated = {"outdated": counts.outdated} if counts.outdated else {}
    said = {"ready": counts.ready, "updated": counts.updated, **outdated}
    return share("a", **{**said, "replicas": 4})


@pytest.mark.proves("KD40")
@pytest.mark.parametrize(
    ("status", "settled"),
    [
        # The observed generation is text.
        (
            {"observedGeneration": "2", "replicas": 4, "readyReplicas": 4, "updatedReplicas": 4},
            True,
        ),
        (
            {"observedGeneration": "1", "replicas": 4, "readyReplicas": 4, "updatedReplicas": 4},
            False,
        ),
        (
            {"observedGeneration": "2", "replicas": 4, "readyReplicas": 3, "updatedReplicas": 4},
            False,
        ),
        (
            {"observedGeneration": "2", "replicas": 4, "readyReplicas": 4, "updatedReplicas": 1},
            False,
        ),
        # As many updated ones as ready ones, and none of them is both.
        (
            {"observedGeneration": "2", "replicas": 8, "readyReplicas": 4, "updatedReplicas": 4},
            False,
        ),
        # Those of before have not gone yet.
        (
            {"observedGeneration": "2", "replicas": 8, "readyReplicas": 8, "updatedReplicas": 4},
            False,
        ),
        ({"observedGeneration": "2", "phase": "Healthy"}, False),
    ],
)
def test_an_argo_rollout_leaves_a_wave_by_its_ready_and_updated_replicas(
    status: dict[str, Any], settled: bool
) -> None:
    told = {"placements": [{"cluster": "a", "replicas": 4}], "clusters": [of_argo(2, **status)]}
    assert seen(told)["a"].settled is settled
