"""WorkloadSpreads wake their Workload and keep its shares, on a hub in memory."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_SPREADS, WORKLOADS
from tests.controller.features.workloadspread.spreads import KIND, stored, subset
from tests.controller.memory import Stage


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    for kind in "ab":
        made.cluster(f"{kind}1", cpu="100", **{KIND: kind})
    return made


def costs(stage: Stage, name: str = "demo") -> dict[str, Any]:
    """{cluster: its deletion costs} as the status tells."""
    said = stage.hub.read(WORKLOADS, name)["status"].get("overrides", [])
    return {c["name"]: c["deletionCosts"] for entry in said for c in entry["clusters"]}


def scale(stage: Stage, replicas: int) -> None:
    stage.hub.edit(WORKLOADS, "demo", {"spec": {"replicas": replicas}})


@pytest.mark.proves("W2", "W33")
async def test_a_spread_comes_and_goes_and_nothing_moves(stage: Stage) -> None:
    async with stage.leading():
        stage.workload("demo", replicas=6)
        await stage.until(lambda: sum(stage.placed("demo").values()) == 6)
        before, (home,) = stage.hub.read(WORKLOADS, "demo"), stage.placed("demo")
        stage.hub.put(WORKLOAD_SPREADS, stored(subset(home[0], 2), subset("rest", kind="")))
        await stage.until(lambda: costs(stage))
        after = stage.hub.read(WORKLOADS, "demo")
        assert after["spec"] == before["spec"]
        assert after["metadata"].get("generation") == before["metadata"].get("generation")
        assert stage.placed("demo") == {home: 6}
        assert costs(stage) == {home: [{"cost": 200, "replicas": 2}, {"cost": 100, "replicas": 4}]}
        stage.hub.remove(WORKLOAD_SPREADS, "ws")
        await stage.until(lambda: not costs(stage))
        assert stage.placed("demo") == {home: 6}


@pytest.mark.proves("W6", "W15")
async def test_a_larger_cap_lets_waiting_units_in(stage: Stage) -> None:
    async with stage.leading():
        stage.hub.put(WORKLOAD_SPREADS, stored(subset("a", 2), subset("b", 1)))
        stage.workload("demo", replicas=6)
        await stage.until(lambda: stage.placed("demo") == {"a1": 2, "b1": 1})
        await stage.until(lambda: stage.says("demo")[1] == "ReplicasReached")
        larger = stored(subset("a", 2), subset("b"))["spec"]
        stage.hub.edit(WORKLOAD_SPREADS, "ws", {"spec": larger})
        await stage.until(lambda: stage.placed("demo") == {"a1": 2, "b1": 4})


async def test_clusters_that_are_labelled_anew_change_costs_and_move_nothing(stage: Stage) -> None:
    async with stage.leading():
        stage.hub.put(WORKLOAD_SPREADS, stored(subset("a"), subset("b")))
        stage.workload("demo", replicas=4)
        await stage.until(lambda: stage.placed("demo") == {"a1": 4})
        stage.hub.edit(MEMBER_CLUSTERS, "a1", {"metadata": {"labels": {KIND: "other"}}})
        await stage.until(lambda: costs(stage) == {"a1": [{"cost": -300, "replicas": 4}]})
        assert stage.placed("demo") == {"a1": 4}


async def test_a_restart_writes_nothing(stage: Stage) -> None:
    async with stage.leading():
        stage.hub.put(
            WORKLOAD_SPREADS,
            stored(subset("a", 3, patch={"metadata": {"labels": {"x": "y"}}}), subset("b")),
        )
        stage.workload("demo", replicas=5)
        await stage.until(lambda: stage.placed("demo") == {"a1": 3, "b1": 2})
        await stage.calm(5)
    written = len(stage.hub.writes("/demo/status"))
    async with stage.leading(identity="two") as controller:
        workload = controller.workloads.get(("shop", "demo"))
        assert workload is not None
        assert not controller.cache.needs_decision(workload)
        await stage.calm(30)
    assert len(stage.hub.writes("/demo/status")) == written


@pytest.mark.proves("W8", "W11")
async def test_a_spread_that_is_made_wrong_loses_nothing_and_comes_back(stage: Stage) -> None:
    patch = {"metadata": {"labels": {"x": "y"}}}
    good = stored(subset("a", 3, patch=patch), subset("b"))
    async with stage.leading():
        stage.hub.put(WORKLOAD_SPREADS, good)
        stage.workload("demo", replicas=5)
        await stage.until(lambda: stage.placed("demo") == {"a1": 3, "b1": 2})
        said = stage.hub.read(WORKLOADS, "demo")["status"]["overrides"]
        bad = {"spec": {"containers": [{"name": "nobody", "env": []}]}}
        wrong = stored(subset("a", 3, patch=bad), subset("b"))
        stage.hub.edit(WORKLOAD_SPREADS, "ws", {"spec": wrong["spec"]})
        await stage.until(lambda: stage.says("demo")[1] == "InvalidSpread")
        scale(stage, 7)
        await stage.until(
            lambda: (
                "5 of 7" in stage.says("demo")[2]
                or stage.hub.read(WORKLOADS, "demo")["status"]["pending"] == 2
            )
        )
        assert stage.placed("demo") == {"a1": 3, "b1": 2}
        assert stage.hub.read(WORKLOADS, "demo")["status"]["overrides"] == said
        stage.hub.edit(WORKLOAD_SPREADS, "ws", {"spec": good["spec"]})
        await stage.until(lambda: stage.placed("demo") == {"a1": 3, "b1": 4})


@pytest.mark.parametrize("spec", [None, 3, {"targetRef": 7}, {"subsets": "none"}])
async def test_whatever_is_stored_the_others_are_placed(stage: Stage, spec: Any) -> None:
    odd = {**stored(), "spec": spec}
    stage.hub.put(WORKLOAD_SPREADS, odd)
    async with stage.leading():
        stage.workload("demo", replicas=2)
        await stage.until(lambda: sum(stage.placed("demo").values()) == 2)
