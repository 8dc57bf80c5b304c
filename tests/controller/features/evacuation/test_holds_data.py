"""Replicas with claims of their own stay where these are, whatever would move others."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import TAINT_DRAIN, TAINT_OUT_OF_SERVICE
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from tests.controller.memory import Stage

from .movingfleet import Members, cordon, fleet, keep_from_m1, leaving, rebalance, web

HELD = "2 replicas hold 4 claims on m1; spec.movement.data: Leave lets them go without"
EVENLY = {"m1": 2, "m2": 2, "m3": 2}


def claims(name: str = "web", *names: str) -> dict[str, Any]:
    """A StatefulSet with claims of these names."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "volumeClaimTemplates": [{"metadata": {"name": each}} for each in names],
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }


async def database(stage: Stage, members: Members, **spec: Any) -> None:
    body = {"targetDeployment": None, "template": claims("web", "data", "log"), **spec}
    await web(stage, members, **body)


async def held(stage: Stage, text: str = HELD, placed: dict[str, int] | None = None) -> None:
    """It says so, and goes on where it is."""
    placed = stage.placed("web") if placed is None else placed
    await stage.until(lambda: text in stage.says("web", "Moving")[2])
    await stage.calm(20)
    assert stage.says("web", "Moving")[:2] == ("False", "HoldsData")
    assert stage.placed("web") == placed
    assert leaving(stage, "web") == {}


@pytest.mark.proves("A7", "KD46")
@pytest.mark.parametrize("cause", ["drain", "taint", "loss", "out of service", "edit", "rebalance"])
async def test_what_has_claims_is_left_where_it_is_whatever_drives_it_away(cause: str) -> None:
    async with fleet() as (stage, members):
        await database(stage, members)
        assert stage.placed("web") == EVENLY
        if cause == "drain":
            members.taint("m1", TAINT_DRAIN)
        elif cause == "taint":
            members.taint("m1", "example.com/maintenance")
        elif cause == "loss":
            members.lose("m1")
        elif cause == "out of service":
            members.lose("m1")
            members.taint("m1", TAINT_OUT_OF_SERVICE)
        elif cause == "edit":
            keep_from_m1(stage)
        else:
            stage.cluster("m4", cpu="1000")
            members.names = (*members.names, "m4")
            rebalance(stage)
            await held(stage, "claims on m2", placed=EVENLY)
            return
        await held(stage, placed=EVENLY)
        if cause == "drain":
            evacuation = stage.hub.read(MEMBER_CLUSTERS, "m1")["status"]["evacuation"]
            assert [each["reason"] for each in evacuation["blocked"]] == ["HoldsData"]


def both(replicas: int) -> dict[str, int]:
    return {"m1": replicas, "m2": replicas}


@pytest.mark.proves("A7", "KD46")
@pytest.mark.parametrize("distribution", ["Single", "Duplicated"])
async def test_a_copy_with_claims_stays_as_a_whole(distribution: str) -> None:
    async with fleet("m1", "m2") as (stage, members):
        cordon(stage, "m2")
        stage.workload(
            "web",
            replicas=2,
            distribution=distribution,
            targetDeployment=None,
            template=claims("web", "data"),
        )
        await stage.until(lambda: stage.placed("web") == {"m1": 2})
        cordon(stage, "m2", on=False)
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: "2 replicas hold 2 claims" in stage.says("web", "Moving")[2])
        await stage.calm(20)
        assert stage.placed("web")["m1"] == 2
        # It is no part of a move either when it grows or shrinks.
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 1}})
        await stage.until(lambda: stage.placed("web").get("m1") == 1)
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 200}})
        await stage.calm(10)
        assert stage.placed("web") == ({"m1": 1} if distribution == "Single" else both(200))


@pytest.mark.proves("A7")
async def test_with_data_left_it_moves_as_any_other_once_its_author_says_so() -> None:
    async with fleet() as (stage, members):
        await database(stage, members)
        members.taint("m1", TAINT_DRAIN)
        await held(stage, placed=EVENLY)
        stage.hub.edit(WORKLOADS, "web", {"spec": {"movement": {"data": "Leave"}}})
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3}, seconds=60)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled")


@pytest.mark.proves("A7", "KD46")
async def test_what_returns_stays_where_its_data_is_by_now() -> None:
    async with fleet() as (stage, members):
        await database(stage, members, movement={"data": "Leave"})
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3}, seconds=60)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled")
        stage.hub.edit(WORKLOADS, "web", {"spec": {"movement": {"data": "Hold"}}})
        members.taint("m1")
        await held(stage, "1 replica holds 2 claims on m2, 1 replica holds 2 claims on m3")


def scaled(stage: Stage, replicas: int) -> None:
    stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": replicas}})


@pytest.mark.proves("A21", "KD48", "RB18")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Widget"])
async def test_a_scale_to_nothing_keeps_each_cluster_and_is_undone_in_place(kind: str) -> None:
    async with fleet() as (stage, members):
        body = {**claims(), "kind": kind}
        how = {"apiVersion": "example.com/v1"} if kind == "Widget" else {}
        path = {"replicasPath": "spec.replicas"} if kind == "Widget" else {}
        await web(
            stage, members, replicas=4, targetDeployment=None, template={**body, **how}, **path
        )
        first = stage.placed("web")
        scaled(stage, 0)
        await stage.until(lambda: sum(stage.placed("web").values()) == 0)
        await stage.calm(5)
        assert stage.placed("web") == dict.fromkeys(first, 0)
        stage.cluster("m4", cpu="1000")  # of more room than all others
        scaled(stage, 4)
        await stage.until(lambda: sum(stage.placed("web").values()) == 4)
        assert stage.placed("web") == first
        scaled(stage, 0)
        await stage.until(lambda: stage.placed("web") == dict.fromkeys(first, 0))
        if kind == "Widget":
            return  # of which no room is known
        scaled(stage, 400)  # more than those clusters have room for
        await stage.until(lambda: stage.placed("web").get("m4", 0) > 0)


@pytest.mark.proves("A21", "KD48")
async def test_a_cluster_with_claims_keeps_its_object_when_others_have_all_that_is_left() -> None:
    async with fleet() as (stage, members):
        await database(stage, members)
        members.taint("m1", TAINT_DRAIN)
        scaled(stage, 1)
        await stage.until(lambda: sum(stage.placed("web").values()) == 1)
        await stage.calm(5)
        assert stage.placed("web").keys() == EVENLY.keys()
        scaled(stage, 0)
        await stage.until(lambda: stage.placed("web") == dict.fromkeys(EVENLY, 0))
        rule = {"clusterSelector": {"no": "such"}, "replicas": 0}
        stage.hub.edit(WORKLOADS, "web", {"spec": rule})
        await stage.calm(5)
        assert stage.placed("web") == dict.fromkeys(EVENLY, 0)


ROLLOUT: dict[str, Any] = {
    **claims(),
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
}
ABORTED = "its abort stands in its status alone"
STAYS = f"m1: web stays, as {ABORTED}; spec.movement.data: Leave lets it go without"


@pytest.mark.proves("KD82")
@pytest.mark.parametrize("cause", ["drain", "loss", "edit"])
async def test_what_its_object_alone_knows_keeps_it_where_it_is(cause: str) -> None:
    async with fleet() as (stage, members):
        members.holds["m1"] = ABORTED
        await web(stage, members, targetDeployment=None, template=ROLLOUT)
        if cause == "drain":
            members.taint("m1", TAINT_DRAIN)
        elif cause == "loss":
            members.lose("m1")
        else:
            keep_from_m1(stage)
        await held(stage, STAYS, placed=EVENLY)
        members.taint("m2", TAINT_DRAIN)  # where nothing is held
        await stage.until(lambda: "m2" not in stage.placed("web"))
        assert stage.placed("web")["m1"] == 2


@pytest.mark.proves("KD82")
@pytest.mark.parametrize("end", ["is over", "left"])
async def test_it_moves_once_its_object_knows_no_more_or_its_author_says_so(end: str) -> None:
    async with fleet() as (stage, members):
        members.holds["m1"] = ABORTED
        await web(stage, members, targetDeployment=None, template=ROLLOUT)
        members.taint("m1", TAINT_DRAIN)
        await held(stage, STAYS, placed=EVENLY)
        if end == "left":
            stage.hub.edit(WORKLOADS, "web", {"spec": {"movement": {"data": "Leave"}}})
        else:
            del members.holds["m1"]
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3})


@pytest.mark.proves("KD82")
async def test_a_rebalance_takes_nothing_from_where_it_stays() -> None:
    async with fleet() as (stage, members):
        members.holds = dict.fromkeys(EVENLY, ABORTED)
        await web(stage, members, targetDeployment=None, template=ROLLOUT)
        stage.cluster("m4", cpu="1000")
        members.names = (*members.names, "m4")
        rebalance(stage)
        await held(stage, "web stays, as", placed=EVENLY)
