"""Failover of an application that is unhealthy on a cluster, on members that follow the hub."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import parse_timestamp
from tests.controller.memory import Stage

from .movingfleet import Members, causes, fleet, leaving, running, web

MOVEMENT = {"unhealthySeconds": 30, "maxSurge": "100%"}


def limits(stage: Stage) -> dict[str, tuple[int, int]]:
    """{cluster: (replicas, hold)} of status.limits."""
    told = stage.hub.read(WORKLOADS, "web")["status"].get("limits", ())
    return {each["cluster"]: (each["replicas"], each["holdSeconds"]) for each in told}


def entry(stage: Stage, cluster: str) -> dict[str, Any]:
    shares = stage.hub.read(WORKLOADS, "web")["status"]["clusters"]
    return next((each for each in shares if each["name"] == cluster), {"ready": 0})


def home(stage: Stage) -> str:
    (found,) = stage.placed("web")
    return found


async def single(stage: Stage, members: Members, **movement: Any) -> str:
    """`web` of 4, whole on one cluster and ready there; returns its name."""
    await web(stage, members, 4, distribution="Single", movement={**MOVEMENT, **movement})
    return home(stage)


async def crash(stage: Stage, members: Members) -> str:
    """Have it crash where it is, alone, once it is ready there, until it leaves; return from where."""
    here = home(stage)
    await stage.until(lambda: entry(stage, here)["ready"] == 4)
    members.sick = {here}
    await stage.until(lambda: home(stage) != here, seconds=1300)
    return here


@pytest.mark.proves("KD71")
async def test_by_default_nothing_leaves_a_cluster_for_its_health() -> None:
    async with running(replicas=4, distribution="Single") as (stage, members):
        before = stage.placed("web")
        members.sick |= set(before)
        written = len(stage.hub.read(WORKLOADS, "web")["status"]["history"])
        await stage.calm(600)
        assert stage.placed("web") == before
        status = stage.hub.read(WORKLOADS, "web")["status"]
        assert len(status["history"]) == written
        assert not leaving(stage, "web")
        assert all("failover" not in each for each in status["clusters"])


@pytest.mark.proves("KD72")
async def test_it_leaves_place_first_and_its_cluster_is_unused_for_a_while() -> None:
    async with fleet() as (stage, members):
        first = await single(stage, members)
        members.stuck |= {name for name in members.names if name != first}
        members.sick.add(first)
        await stage.calm(29)
        assert home(stage) == first
        await stage.until(lambda: home(stage) != first, seconds=5)
        assert leaving(stage, "web") == {first: (4, "Unhealthy")}
        assert causes(stage, "web")[-1] == "Unhealthy"
        assert limits(stage) == {first: (0, 300)}
        await stage.calm(20)
        assert members.shares["web"][first].units == 4, "the old pods stay until others are ready"
        assert stage.says("web", "Moving")[1] == "NotReadyThere"
        second = home(stage)
        members.stuck.clear()
        await stage.until(lambda: not leaving(stage, "web"))
        assert members.shares["web"][first].units == 0
        members.sick.clear()
        members.sick.add(second)
        await stage.until(lambda: home(stage) != second, seconds=60)
        assert home(stage) != first, "m1 takes nothing for its time"


@pytest.mark.proves("KD72")
async def test_a_divided_one_leaves_within_its_budget_and_is_held_to_what_stays() -> None:
    async with running(movement={**MOVEMENT, "maxSurge": 1}) as (stage, members):
        members.sick.add("m1")
        await stage.until(lambda: stage.placed("web").get("m1") == 1, seconds=60)
        assert limits(stage) == {"m1": (1, 300)}
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=60)
        await stage.until(lambda: not leaving(stage, "web"))
        assert limits(stage) == {"m1": (0, 300)}
        members.sick.clear()
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 12}})
        await stage.until(lambda: sum(stage.placed("web").values()) == 12)
        assert "m1" not in stage.placed("web")


@pytest.mark.proves("KD73")
async def test_what_was_never_ready_stays() -> None:
    async with fleet() as (stage, members):
        members.stuck |= set(members.names)
        stage.workload("web", replicas=4, movement=MOVEMENT)
        await stage.until(lambda: stage.placed("web"))
        first = home(stage)
        await stage.calm(300)
        assert home(stage) == first
        assert "failover" not in entry(stage, first)


@pytest.mark.proves("KD73")
async def test_unhealthy_on_most_of_its_clusters_it_stays_and_says_so() -> None:
    async with running(movement=MOVEMENT) as (stage, members):
        before = stage.placed("web")
        members.sick |= {"m1", "m2"}
        await stage.until(
            lambda: stage.says("web", "Moving")[1] == "UnhealthyEverywhere", seconds=60
        )
        assert "unhealthy on 2 of 3 clusters" in stage.says("web", "Moving")[2]
        await stage.calm(300)
        assert stage.placed("web") == before
        members.sick.discard("m2")
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=60)


@pytest.mark.proves("KD74")
async def test_the_clock_stands_still_while_the_cluster_is_silent_and_a_restart_keeps_it() -> None:
    async with fleet(movement=None) as (stage, members):
        first = await single(stage, members)
        members.sick.add(first)
        await stage.calm(20)
        members.lose(first)
        await stage.calm(60)
        assert home(stage) == first
        assert "since" not in entry(stage, first)["failover"]
        assert entry(stage, first)["failover"]["seconds"] in range(18, 22)
        members.back(first)
        await stage.calm(5)
        assert home(stage) == first
        told = entry(stage, first)["failover"]
        since = stage.clock.now() - parse_timestamp(told["since"])
        assert timedelta(seconds=23) <= since <= timedelta(seconds=27)
        async with stage.leading(identity="two", elect=False):
            await stage.until(lambda: home(stage) != first, seconds=10)


@pytest.mark.proves("KD75")
async def test_where_it_crashes_on_each_cluster_each_is_left_once_in_a_time_that_doubles() -> None:
    async with fleet() as (stage, members):
        await single(stage, members)
        left: dict[str, list[float]] = {}
        for _ in range(7):
            here = await crash(stage, members)
            left.setdefault(here, []).append(stage.clock.monotonic())
        assert {len(moments) for moments in left.values()} == {2, 3}
        for moments in left.values():
            assert moments[1] - moments[0] > 300
        (thrice,) = (moments for moments in left.values() if len(moments) == 3)
        assert thrice[2] - thrice[1] > 600
        assert {hold for _, hold in limits(stage).values()} == {600, 1200}


@pytest.mark.proves("KD76")
async def test_values_of_the_cluster_that_is_left_are_carried_on() -> None:
    async with fleet() as (stage, members):
        told = [{"name": "savepoint", "path": "status.savepoint"}]
        await web(
            stage,
            members,
            4,
            distribution="Single",
            movement={**MOVEMENT, "carry": ["savepoint"]},
            statusFields=told,
        )
        first = home(stage)
        members.fields[first] = {"savepoint": "s3://b/6", "phase": "Running"}
        await stage.calm(5)
        assert "carried" not in stage.hub.read(WORKLOADS, "web")["status"]
        members.stuck |= {name for name in members.names if name != first}
        members.sick.add(first)
        await stage.until(lambda: home(stage) != first, seconds=60)

        def carried() -> Any:
            return stage.hub.read(WORKLOADS, "web")["status"].get("carried")

        assert carried() == {"savepoint": "s3://b/6"}
        members.fields[first] = {"savepoint": "s3://b/7"}
        await stage.until(lambda: carried() == {"savepoint": "s3://b/7"})
        members.stuck.clear()
        await stage.until(lambda: not leaving(stage, "web"))
        await stage.calm(60)
        assert carried() == {"savepoint": "s3://b/7"}
        stage.hub.edit(WORKLOADS, "web", {"spec": {"movement": {"carry": []}}})
        await stage.until(lambda: not carried())


@pytest.mark.proves("KD76", "A8")
async def test_another_name_of_its_cluster_carries_nothing_on() -> None:
    stage = Stage()
    stage.cluster("a")
    async with stage.leading():
        told = [{"name": "savepoint", "path": "status.savepoint"}]
        how = {"distribution": "Single", "movement": {"carry": ["savepoint"]}}
        stage.workload("web", statusFields=told, **how)  # type: ignore[arg-type]
        await stage.until(lambda: stage.placed("web") == {"a": 2})
        share = {"name": "a", "replicas": 2, "ready": 2, "fields": {"savepoint": "s3://b/6"}}
        stage.hub.edit(WORKLOADS, "web", {"status": {"clusters": [share]}}, status=True)
        await stage.calm(2)
        body = stage.hub.read(MEMBER_CLUSTERS, "a")
        spec = {**body["spec"], "formerNames": ["a"]}
        meta = {"name": "paris", "labels": {}}
        stage.hub.put(MEMBER_CLUSTERS, {**body, "metadata": meta, "spec": spec})
        stage.hub.remove(MEMBER_CLUSTERS, "a")
        await stage.until(lambda: stage.placed("web") == {"paris": 2})
        assert "carried" not in stage.hub.read(WORKLOADS, "web")["status"]
