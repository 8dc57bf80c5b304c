"""Clusters that are named no more: away, as lost ones, and given up by `stowage unjoin` alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crds.names import ANNOTATION_UNJOIN, GIVEN_UP
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from tests.controller.memory import Stage

from .movingfleet import QUICK, fleet, leaving, running, unled, web

EVEN = {"m1": 2, "m2": 2, "m3": 2}


def stateful(kind: str = "StatefulSet") -> dict[str, Any]:
    pods = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main"}]}}
    spec: dict[str, Any] = {"template": pods}
    if kind == "StatefulSet":
        spec |= {"selector": {"matchLabels": {"app": "db"}}, "serviceName": "db"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db"}, "spec": spec}


def once(stage: Stage, kind: str = "StatefulSet", **spec: Any) -> None:
    template = stateful(kind)
    template["apiVersion"] = "apps/v1" if kind == "StatefulSet" else "batch/v1"
    stage.workload("db", targetDeployment=None, template=template, **spec)


def written(stage: Stage, name: str = "web") -> str:
    return str(stage.hub.read(WORKLOADS, name)["status"]["decision"]["time"])


@pytest.mark.proves("A2")
@pytest.mark.parametrize("pause", [0.0, 1.0, 4.0])
async def test_a_membercluster_that_is_made_again_moves_nothing(pause: float) -> None:
    async with running() as (stage, members):
        once(stage, replicas=3, distribution="Divided")
        await stage.until(lambda: sum(stage.placed("db").values()) == 3)
        await stage.calm(3)
        before, placed = written(stage), stage.placed("db")
        for _ in range(2):
            gone = members.unregister("m1")
            await stage.calm(pause)
            members.register(*gone.values())
            await stage.calm(10)
        assert written(stage) == before
        assert (stage.placed("web"), stage.placed("db")) == (EVEN, placed)
        assert not leaving(stage, "web")
        assert stage.says("web", "Moving") == ("", "", "")


@pytest.mark.proves("A2", "M40")
async def test_what_a_deleted_membercluster_had_leaves_as_from_a_lost_cluster() -> None:
    async with running() as (stage, members):
        gone = members.unregister("m1")
        began = stage.clock.monotonic()
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3})
        assert stage.clock.monotonic() - began >= 5
        assert leaving(stage, "web") == {"m1": (2, "ClusterLost")}
        await stage.calm(30)
        assert leaving(stage, "web") == {"m1": (2, "ClusterLost")}
        assert "what m1 (lost) still has goes once it answers" in stage.says("web", "Moving")[2]
        assert [each["regarding"]["name"] for each in stage.hub.events("Lost")] == ["m1"]
        members.register(*gone.values())
        await stage.until(lambda: not leaving(stage, "web"))
        await stage.until(lambda: members.looks["web"][-1].pods == 6)


@pytest.mark.proves("A2")
@pytest.mark.parametrize("kind", ["StatefulSet", "Job"])
async def test_what_runs_at_most_once_is_fenced_and_taken_up_again(kind: str) -> None:
    async with fleet() as (stage, members):
        once(stage, kind)
        await stage.until(lambda: stage.placed("db"))
        await stage.calm(3)
        placed = stage.placed("db")
        (home,) = placed
        gone = members.unregister(home)
        await stage.until(lambda: stage.says("db", "Moving")[1] == "AwaitingFencing", seconds=60)
        said = stage.says("db", "Moving")[2]
        assert f"there is no MemberCluster {home}: register the cluster again" in said
        assert f"`stowage unjoin {home} --force`" in said
        await stage.calm(120)
        assert stage.placed("db") == placed
        members.register(*gone.values())
        await stage.calm(10)
        assert stage.placed("db") == placed
        assert stage.says("db", "Moving")[1] == "Settled"
        assert members.most_pods("db") == 2


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("2 of 3", marks=pytest.mark.proves("A2"), id="away"),
        pytest.param("3 of 3", marks=pytest.mark.proves("PL16"), id="all agents silent"),
    ],
)
async def test_the_brake_counts_what_is_away_and_silent_agents(told: str) -> None:
    async with running() as (stage, members):
        if told == "2 of 3":
            members.unregister("m1", "m2")
        else:
            members.lose("m1", "m2", "m3", reason="AgentSilent")
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Braked", seconds=60)
        assert told in stage.says("web", "Moving")[2]
        await stage.calm(60)
        assert stage.placed("web") == EVEN


@pytest.mark.proves("A2")
async def test_without_a_propagator_that_looks_nothing_leaves() -> None:
    async with running() as (stage, members):
        members.renewing = False
        await stage.calm(20)
        members.unregister("m1")
        await stage.calm(60)
        assert stage.placed("web") == EVEN


@pytest.mark.proves("A2")
async def test_a_new_leader_knows_what_is_away_by_the_shares_and_waits_in_full() -> None:
    stage, members = unled()
    async with members.following():
        async with stage.leading(movement=QUICK):
            await web(stage, members)
            members.unregister("m1")
            await stage.calm(4)
        async with stage.leading(movement=QUICK, identity="two"):
            began = stage.clock.monotonic()
            await stage.until(lambda: "m1" not in stage.placed("web"), seconds=30)
            assert stage.clock.monotonic() - began >= 4
            assert leaving(stage, "web") == {"m1": (2, "ClusterLost")}


@pytest.mark.proves("A2")
async def test_a_membercluster_of_another_name_takes_the_shares_up() -> None:
    async with running() as (stage, members):
        gone = members.unregister("m1")
        await stage.calm(3)
        members.register(*gone.values(), name="paris")
        await stage.until(lambda: stage.placed("web") == {"m2": 2, "m3": 2, "paris": 2})
        await stage.calm(20)
        assert not leaving(stage, "web")
        assert members.most_pods("web") == 6


@pytest.mark.proves("A2")
async def test_a_tainted_or_drained_cluster_goes_on_being_left_while_it_is_away() -> None:
    async with running() as (stage, members):
        members.stuck = {"m2", "m3"}
        members.taint("m1", "example.com/maintenance")
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3})
        gone = members.unregister("m1")
        await stage.calm(30)
        assert leaving(stage, "web") == {"m1": (2, "Tainted")}
        members.register(*gone.values())
        members.stuck = set()
        await stage.until(lambda: members.looks["web"][-1].pods == 6)
        await stage.until(lambda: not leaving(stage, "web"))
        assert members.least_ready("web") >= 4


@pytest.mark.proves("A29")
async def test_only_a_cluster_that_is_given_up_is_left_at_once() -> None:
    never = replace(QUICK, not_ready_toleration_seconds=-1)
    async with running(brakes=never) as (stage, members):
        once(stage)
        await stage.until(lambda: stage.placed("db"))
        (home,) = stage.placed("db")
        members.unregister(home)
        await stage.calm(60)
        assert stage.placed("web") == EVEN
        mark = {"metadata": {"name": home, "annotations": {ANNOTATION_UNJOIN: GIVEN_UP}}}
        stage.hub.put(MEMBER_CLUSTERS, {**mark, "spec": {}})
        await stage.until(lambda: home not in stage.placed("web"), seconds=3)
        await stage.until(lambda: stage.placed("db") and home not in stage.placed("db"), seconds=3)
        assert not leaving(stage, "web")
        stage.hub.remove(MEMBER_CLUSTERS, home)
        await stage.calm(10)
        assert home not in stage.placed("web")
