"""Clusters are left, lost and used again: what the controller writes, with members that follow."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from click.testing import CliRunner

from controller.config import default_profile
from controller.scheduler import Scheduler
from crds.names import TAINT_DRAIN, TAINT_OUT_OF_SERVICE
from machinery import metrics
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import parse_timestamp
from stowage.cli import cli
from tests.controller.live import deployment
from tests.controller.make import cluster, decided, info
from tests.controller.memory import Stage

from .movingfleet import (
    QUICK,
    THREE,
    Members,
    all_ready,
    causes,
    cordon,
    fleet,
    keep_from_m1,
    leaving,
    rebalance,
    running,
    running_on_m1,
    tolerated_loss,
    unled,
    web,
)


@pytest.mark.proves("M1", "M2")
async def test_all_units_leave_a_cluster_with_a_taint_and_as_many_are_ready_all_the_time() -> None:
    async with running() as (stage, members):
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        members.taint("m1", "example.com/maintenance")
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3})
        assert leaving(stage, "web") == {"m1": (2, "Tainted")}
        await stage.until(lambda: members.looks["web"][-1].pods == 6)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled")
        assert members.least_ready("web") == 6
        assert members.most_pods("web") <= 8
        assert causes(stage, "web")[-1] == "Tainted"
        await stage.until(lambda: members.evacuation("m1")[:2] == ("False", "Drained"))


@pytest.mark.proves("M3", "M4", "M5")
async def test_a_toleration_keeps_units_for_its_seconds_or_for_ever() -> None:
    tolerates = {"key": "example.com/a", "operator": "Exists", "effect": "NoExecute"}
    async with running(tolerations=[{**tolerates, "tolerationSeconds": 10}]) as (stage, members):
        written = stage.hub.read(WORKLOADS, "web")["status"]["decision"]["time"]
        members.taint("m1", "example.com/a")
        await stage.calm(8)
        members.taint("m1")
        await stage.calm(20)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert stage.hub.read(WORKLOADS, "web")["status"]["decision"]["time"] == written
        members.taint("m1", "example.com/a")
        await stage.calm(8.5)
        assert stage.placed("web")["m1"] == 2
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=4)
        stage.workload("ever", replicas=3, distribution="Divided", tolerations=[tolerates])
        await stage.until(lambda: stage.placed("ever").get("m2") == 1)
        members.taint("m2", "example.com/a")
        await stage.calm(60)
        assert stage.placed("ever")["m2"] == 1
        spec = {"taints": [{"key": "x", "effect": "NoSchedule"}], "unschedulable": True}
        stage.hub.edit(MEMBER_CLUSTERS, "m3", {"spec": spec})
        await stage.calm(60)
        assert stage.placed("ever")["m3"] == 1


@pytest.mark.proves("M7")
async def test_a_new_leader_goes_on_with_the_time_of_the_last_one() -> None:
    tolerates = {"key": "example.com/a", "operator": "Exists", "effect": "NoExecute"}
    stage, members = unled()
    async with members.following():
        async with stage.leading(movement=QUICK):
            await web(stage, members, tolerations=[{**tolerates, "tolerationSeconds": 10}])
            members.taint("m1", "example.com/a")
            began = stage.clock.monotonic()
            await stage.calm(5)
        async with stage.leading(movement=QUICK, identity="two"):
            await stage.until(lambda: "m1" not in stage.placed("web"), seconds=20)
        assert 8 <= stage.clock.monotonic() - began <= 12


@pytest.mark.proves("M11")
async def test_no_more_units_move_at_once_than_the_surge_lets_and_one_write_is_each_step() -> None:
    """The write that ends a step begins the next one."""
    async with running_on_m1(movement={"maxSurge": 1, "maxUnavailable": 0}) as (stage, members):
        before = len(stage.hub.requests)
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web") == {"m2": 6}, seconds=60)
        await stage.until(lambda: members.looks["web"][-1].pods == 6)
        assert members.most_pods("web") == 7
        assert members.least_ready("web") == 6
        assert set(causes(stage, "web")[1:]) == {"Drained"}
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled", seconds=60)
        patches = [
            body["status"]
            for method, path, body in stage.hub.requests[before:]
            if (method, path.rpartition("/workloads/")[2]) == ("PATCH", "web/status")
            and "placements" in body["status"]
        ]
        assert len(patches) == 7, "six steps, and the end of the last one"
        assert all(each["leaving"] for each in patches[:-1])


async def test_what_has_left_a_cluster_has_no_other_workload_decided_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The MemberCluster counts down each second what is still there."""
    decided = list[tuple[str, str]]()
    original = Scheduler.schedule_one

    async def noted(self: Scheduler, key: tuple[str, str]) -> Any:
        decided.append(key)
        return await original(self, key)

    monkeypatch.setattr(Scheduler, "schedule_one", noted)
    async with fleet("m1", "m2") as (stage, members):
        cordon(stage, "m2")
        await web(stage, members, movement={"maxSurge": 1, "maxUnavailable": 0})
        ever = {"key": "example.com/a", "operator": "Exists", "effect": "NoExecute"}
        stage.workload("ever", tolerations=[ever])
        await stage.until(lambda: stage.placed("ever") == {"m1": 2})
        cordon(stage, "m2", on=False)
        members.taint("m1", "example.com/a")
        await stage.until(lambda: members.evacuation("m1")[1] == "Tainted")
        await stage.calm(1)
        decided.clear()
        await stage.until(lambda: stage.placed("web") == {"m2": 6}, seconds=60)
        assert ("shop", "web") in decided
        assert ("shop", "ever") not in decided


@pytest.mark.proves("M12", "M13")
async def test_a_unit_without_another_place_stays_and_goes_once_there_is_one() -> None:
    async with running("m1", "m2", cpu="4") as (stage, members):
        before = stage.placed("web")
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web")["m2"] == 4)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "NoRoom")
        assert stage.placed("web") == {"m1": 2, "m2": 4}, before
        assert "4 of 6 replicas have a cluster" in stage.says("web", "Moving")[2]
        assert members.evacuation("m1")[:2] == ("True", "Draining")
        stage.cluster("m4", cpu="8")
        members.names = (*members.names, "m4")
        await stage.until(lambda: stage.placed("web") == {"m2": 4, "m4": 2})
        stage.workload("pinned", targetCluster={"name": "m2"})
        await stage.until(
            lambda: stage.placed("pinned") == {"m2": 2} or stage.says("pinned")[0] == "False"
        )


@pytest.mark.proves("M13", "M26")
async def test_where_nothing_else_matches_all_of_it_stays() -> None:
    async with fleet() as (stage, members):
        stage.workload("pinned", targetCluster={"name": "m1"})
        await stage.until(lambda: stage.placed("pinned") == {"m1": 2})
        await web(stage, members)
        for name in THREE:
            members.taint(name, TAINT_DRAIN)
        await stage.until(lambda: stage.says("pinned", "Moving")[1] == "NoRoom")
        await stage.until(lambda: stage.says("web", "Moving")[1] == "NoRoom")
        assert stage.placed("pinned") == {"m1": 2}
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert "2 had taints that were not tolerated" in stage.says("web", "Moving")[2] or (
            "taints" in stage.says("web", "Moving")[2]
        )


@pytest.mark.proves("M14")
async def test_a_single_copy_is_placed_whole_and_goes_when_all_of_the_new_one_is_ready() -> None:
    async with fleet("m1", "m2") as (stage, members):
        await web(stage, members, 4, distribution="Single", movement={"maxSurge": 1})
        (home,) = stage.placed("web")
        (other,) = {"m1", "m2"} - {home}
        members.taint(home, TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web") == {other: 4})
        assert stage.hub.read(WORKLOADS, "web")["status"]["clusterRef"]["name"] == other
        assert leaving(stage, "web") == {home: (4, "Drained")}
        await stage.until(lambda: not leaving(stage, "web"))
        assert members.least_ready("web") == 4


@pytest.mark.proves("M15")
async def test_a_copy_goes_and_the_last_one_stays() -> None:
    async with fleet("m1", "m2") as (stage, members):
        stage.workload("web", distribution="Duplicated")
        await stage.until(lambda: stage.placed("web") == {"m1": 2, "m2": 2})
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web") == {"m2": 2})
        members.taint("m2", TAINT_DRAIN)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "NoRoom")
        assert stage.placed("web") == {"m2": 2}


@pytest.mark.proves("M9")
@pytest.mark.parametrize(
    "edit",
    [
        {"movement": {"maxSurge": 2, "rebalanceAfter": "2026-01-01T00:00:00Z"}},
        {"targetCluster": {"name": "m2"}},
    ],
    ids=["rebalance", "edit"],
)
async def test_a_move_that_no_cluster_sets_off_tells_of_units_that_do_not_become_ready(
    edit: dict[str, Any],
) -> None:
    """Nothing else has the Workload decided again by then."""
    async with running_on_m1(4) as (stage, members):
        members.stuck.add("m2")
        stage.hub.edit(WORKLOADS, "web", {"spec": edit})
        await stage.until(lambda: "m2" in stage.placed("web"))
        await stage.until(lambda: stage.says("web", "Moving")[1] == "NotReadyThere", seconds=30)


@pytest.mark.proves("M18", "M19")
async def test_edits_in_the_middle_of_a_move() -> None:
    async with running_on_m1(4, movement={"maxSurge": 2}) as (stage, members):
        members.stuck.add("m2")
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web") == {"m1": 2, "m2": 2})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 6}})
        await stage.until(lambda: stage.placed("web") == {"m1": 2, "m2": 4})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 3}})
        await stage.until(lambda: sum(stage.placed("web").values()) == 3)
        assert stage.placed("web").get("m1", 0) == 0, stage.placed("web")
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 0}})
        await stage.until(lambda: not leaving(stage, "web"))


@pytest.mark.proves("M23", "M24")
async def test_an_end_of_the_drain_in_the_middle_takes_the_rest_back() -> None:
    async with running_on_m1(8) as (stage, members):
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web").get("m2", 0) > 2, seconds=60)
        members.stuck.add("m2")
        await stage.calm(1)
        units = members.shares["web"]["m1"].units
        members.taint("m1")
        await stage.until(lambda: not leaving(stage, "web"))
        assert causes(stage, "web")[-1] == "MoveCancelled"
        assert stage.placed("web")["m1"] == units
        members.stuck.clear()
        await stage.calm(60)
        assert stage.placed("web")["m1"] == units, "as many are there as a fresh plan has, or more"


@pytest.mark.proves("M25")
async def test_of_two_drained_clusters_what_fits_moves_and_nothing_moves_twice() -> None:
    async with running(cpu="4") as (stage, members):
        members.taint("m1", TAINT_DRAIN)
        members.taint("m2", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web").get("m3") == 4)
        await stage.calm(30)
        assert sum(stage.placed("web").values()) == 6
        came = [look.placements for look in members.looks["web"]]
        assert all(each.get("m1", 0) <= 2 and each.get("m2", 0) <= 2 for each in came)
        assert members.least_ready("web") == 6


# --- loss -----------------------------------------------------------------------------------------


@pytest.mark.proves("M32", "PL15")
@pytest.mark.parametrize("reason", ["Unreachable", "AgentSilent"])
async def test_a_lost_cluster_is_left_once_its_toleration_ends_and_all_at_once(
    reason: str,
) -> None:
    async with running(movement={"maxSurge": 1}) as (stage, members):
        await tolerated_loss(stage, members, "m1", reason=reason)
        assert stage.placed("web")["m1"] == 2
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3}, seconds=20)
        assert leaving(stage, "web") == {"m1": (2, "ClusterLost")}
        await stage.until(lambda: members.evacuation("m1")[:2] == ("True", "Lost"))
        await stage.calm(30)
        assert leaving(stage, "web") == {"m1": (2, "ClusterLost")}
        assert stage.says("web", "Moving")[1] == "Settled"


@pytest.mark.proves("A10")
@pytest.mark.parametrize("seconds", [600, -600])
async def test_a_wall_clock_that_is_wrong_ends_no_toleration(seconds: int) -> None:
    async with running() as (stage, members):
        await tolerated_loss(stage, members, "m1")
        lost = stage.clock.monotonic()
        stage.set_clock(seconds)
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=20)
        assert stage.clock.monotonic() - lost > 3, "its toleration is of five seconds"


@pytest.mark.proves("M33")
async def test_nothing_is_lost_while_no_propagator_looks() -> None:
    async with running() as (stage, members):
        await tolerated_loss(stage, members, "m1")
        members.renewing = False
        await stage.calm(60)
        assert stage.placed("web")["m1"] == 2
        assert members.evacuation("m1")[:2] == ("False", "Blind")
        members.term, members.renewing = 2, True
        await stage.until(lambda: members.evacuation("m1")[1] == "Tolerating", seconds=15)
        assert stage.placed("web")["m1"] == 2
        members.back("m1")
        await stage.calm(20)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}


@pytest.mark.proves("M34")
async def test_after_an_outage_of_the_hub_the_toleration_begins_with_the_new_terms() -> None:
    patient = replace(QUICK, not_ready_toleration_seconds=20)
    stage, members = unled()
    async with members.following():
        async with stage.leading(movement=patient):
            await web(stage, members)
            await tolerated_loss(stage, members, "m1")
            await stage.calm(10)
        members.renewing = False  # neither process reaches the hub
        await stage.calm(200)
        members.term, members.renewing = 2, True
        began = stage.clock.monotonic()
        async with stage.leading(movement=patient, identity="two"):
            await stage.until(lambda: "m1" not in stage.placed("web"), seconds=60)
        assert stage.clock.monotonic() - began >= 20


@pytest.mark.proves("M36", "PL15")
@pytest.mark.parametrize(
    "reason",
    [
        "Unauthorized",
        "SecretNotFound",
        "InvalidKubeconfig",
        "TLSVerificationFailed",
        "AgentRevoked",
        "WrongHub",
    ],
)
async def test_a_fault_of_our_own_is_no_loss(reason: str) -> None:
    async with running() as (stage, members):
        members.lose("m1", reason=reason)
        await stage.calm(60)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert members.evacuation("m1") == ("", "", "")


@pytest.mark.proves("M37", "M38")
async def test_edits_while_a_cluster_is_lost() -> None:
    patient = replace(QUICK, not_ready_toleration_seconds=600)
    async with running(brakes=patient) as (stage, members):
        await tolerated_loss(stage, members, "m1")
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 9}})
        await stage.until(lambda: sum(stage.placed("web").values()) == 9)
        assert stage.placed("web")["m1"] == 2
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 7}})
        await stage.until(lambda: sum(stage.placed("web").values()) == 7)
        assert stage.placed("web").get("m1", 0) == 0


@pytest.mark.proves("M39", "M45")
async def test_a_loss_without_room_keeps_the_units_on_paper() -> None:
    async with running(cpu="2") as (stage, members):
        members.lose("m1")
        await stage.until(lambda: stage.says("web", "Moving")[1] == "NoRoom", seconds=30)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert stage.hub.read(WORKLOADS, "web")["status"]["pending"] == 0
        members.back("m1")
        await stage.calm(30)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert members.most_pods("web") == 6


@pytest.mark.proves("M41")
async def test_higher_priorities_are_placed_first() -> None:
    async with fleet("m1", "m2", cpu="20") as (stage, members):
        cordon(stage, "m2")
        for number in range(10):
            stage.workload(f"w{number}", priority=number, distribution="Divided")
        await stage.until(lambda: all(stage.placed(f"w{n}") == {"m1": 2} for n in range(10)))
        stage.workload("big", replicas=10, distribution="Divided", targetCluster={"name": "m2"})
        cordon(stage, "m2", on=False)
        await stage.until(lambda: stage.placed("big") == {"m2": 10})
        members.lose("m1")
        await stage.until(lambda: stage.placed("w9") == {"m2": 2}, seconds=30)
        await stage.calm(15)
        moved = {n for n in range(10) if stage.placed(f"w{n}") == {"m2": 2}}
        assert moved == {5, 6, 7, 8, 9}


@pytest.mark.proves("M35", "M42")
async def test_more_lost_clusters_than_the_brake_lets_move_nothing() -> None:
    async with running() as (stage, members):
        members.lose("m1", "m2")
        await stage.until(lambda: members.evacuation("m1")[1] == "Braked", seconds=15)
        await stage.calm(60)
        assert members.evacuation("m2")[1] == "Braked"
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert stage.says("web", "Moving")[1] == "Braked"
        assert "2 of 3" in stage.says("web", "Moving")[2]
        assert len(stage.hub.events("FailoverBraked")) == 2
        members.lose("m3")
        await stage.until(lambda: "3 of 3" in stage.says("web", "Moving")[2], seconds=30)
        members.back("m2", "m3")
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=30)
        assert stage.hub.events("BrakeReleased")


@pytest.mark.proves("M45", "M46", "M47")
async def test_what_is_back_has_its_units_again_after_the_dwell() -> None:
    async with running() as (stage, members):
        members.lose("m1")
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3}, seconds=30)
        await stage.until(lambda: members.looks["web"][-1].ready == 6)
        members.looks["web"].clear()
        members.back("m1")
        await stage.until(lambda: members.evacuation("m1")[1] == "Dwelling")
        await stage.until(lambda: not leaving(stage, "web"))
        assert stage.placed("web") == {"m2": 3, "m3": 3}
        await stage.until(lambda: stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}, seconds=30)
        assert causes(stage, "web")[-1] == "Returned"
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled")
        assert members.least_ready("web") == 6
        assert not stage.hub.read(WORKLOADS, "web")["status"].get("displaced")


@pytest.mark.proves("M46")
async def test_units_whose_successors_are_not_ready_are_their_clusters_again() -> None:
    async with running() as (stage, members):
        members.stuck |= {"m2", "m3"}
        members.lose("m1")
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3}, seconds=30)
        members.back("m1")
        await stage.until(lambda: stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2})
        assert causes(stage, "web")[-1] == "MoveCancelled"
        assert not leaving(stage, "web")
        assert members.shares["web"]["m1"].units == 2


@pytest.mark.proves("M47")
@pytest.mark.parametrize("spec", [{"movement": {"returns": False}}, {"distribution": "Single"}])
async def test_what_shall_not_return_stays(spec: dict[str, Any]) -> None:
    async with running(**spec) as (stage, members):
        home = min(stage.placed("web"))
        members.lose(home)
        await stage.until(lambda: home not in stage.placed("web"), seconds=30)
        moved = stage.placed("web")
        await stage.calm(5)
        members.back(home)
        await stage.calm(60)
        assert stage.placed("web") == moved


@pytest.mark.proves("M48")
async def test_a_flapping_cluster_dwells_longer_each_time() -> None:
    async with running() as (stage, members):
        for _ in range(3):
            members.lose("m1")
            await stage.calm(12)
            members.back("m1")
            await stage.calm(3)
        seconds = stage.hub.read(MEMBER_CLUSTERS, "m1")["status"]["evacuation"]["dwellSeconds"]
        assert seconds == 20
        stage.workload("new", replicas=3, distribution="Divided")
        await stage.until(lambda: sum(stage.placed("new").values()) == 3)
        assert "m1" not in stage.placed("new")
        only = {"replicas": 1, "targetCluster": {"name": "m1"}}
        stage.workload("only", **only)
        await stage.until(lambda: stage.placed("only") == {"m1": 1})
        seen = [look.placements.get("m1", 0) for look in members.looks["web"]]
        assert all(a >= b for a, b in pairwise(seen)), "it came back early"


@pytest.mark.proves("M49")
async def test_nothing_returns_to_where_the_plan_wants_nothing_any_more() -> None:
    async with running() as (stage, members):
        members.lose("m1")
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=30)
        await stage.calm(3)
        keep_from_m1(stage)
        members.back("m1")
        await stage.calm(40)
        assert stage.placed("web") == {"m2": 3, "m3": 3}
        assert not stage.hub.read(WORKLOADS, "web")["status"].get("displaced")


# --- at most once ---------------------------------------------------------------------------------


def stateful(**spec: Any) -> dict[str, Any]:
    template = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {"template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}}},
    }
    return {"targetDeployment": None, "template": template, "distribution": "Divided", **spec}


async def database(stage: Stage, members: Members) -> None:
    """`db` of 6 that run at most once each, all of it ready."""
    stage.workload("db", replicas=6, **stateful())
    await all_ready(stage, members, "db", 6)


@pytest.mark.proves("M51", "M57")
async def test_a_unit_that_runs_at_most_once_is_gone_before_it_is_made_elsewhere() -> None:
    async with fleet() as (stage, members):
        await database(stage, members)
        members.looks["db"].clear()
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("db").get("m1", 0) == 0, seconds=60)
        await stage.until(lambda: members.looks["db"][-1].ready == 6, seconds=60)
        assert members.most_pods("db") == 6
        assert members.least_ready("db") == 5
        await stage.until(lambda: not leaving(stage, "db"))


@pytest.mark.proves("M52", "M53")
async def test_of_a_lost_cluster_it_moves_only_once_a_person_says_that_nothing_runs_there() -> None:
    async with fleet() as (stage, members):
        await database(stage, members)
        members.lose("m1")
        await stage.until(lambda: stage.says("db", "Moving")[1] == "AwaitingFencing", seconds=30)
        await stage.calm(600)
        assert stage.placed("db") == {"m1": 2, "m2": 2, "m3": 2}
        assert "m1" in stage.says("db", "Moving")[2]
        assert TAINT_OUT_OF_SERVICE in stage.says("db", "Moving")[2]
        members.taint("m1", TAINT_OUT_OF_SERVICE)
        await stage.until(lambda: stage.placed("db") == {"m2": 3, "m3": 3}, seconds=3)
        assert causes(stage, "db")[-1] == "OutOfService"


@pytest.mark.proves("Q2")
async def test_a_standing_move_says_a_time_of_day_and_begins_with_its_cause() -> None:
    async with fleet() as (stage, members):
        await database(stage, members)
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.says("db", "Moving")[1] == "Settled", seconds=60)
        await stage.calm(600)
        lost = stage.clock.now()
        await tolerated_loss(stage, members, "m2")
        said = members.evacuation("m2")[2]
        leaves = re.search(r"Workloads leave it at (\S+Z), unless it is back", said)
        assert leaves is not None
        assert parse_timestamp(leaves[1]) > lost
        await stage.calm(1)
        assert members.evacuation("m2")[2] == said, "it is true as long as it stands"
        await stage.until(lambda: stage.says("db", "Moving")[1] == "AwaitingFencing", seconds=30)
        conditions = stage.hub.read(WORKLOADS, "db")["status"]["conditions"]
        (moving,) = (each for each in conditions if each["type"] == "Moving")
        assert parse_timestamp(moving["lastTransitionTime"]) >= lost.replace(microsecond=0)


@pytest.mark.proves("M58")
async def test_a_copy_that_is_dropped_waits_for_no_budget_of_the_fleet() -> None:
    async with fleet(movement=replace(QUICK, max_moving=1)) as (stage, members):
        stage.workload("each", replicas=4, distribution="Duplicated")
        await all_ready(stage, members, "each", 12)
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: members.evacuation("m1")[1] == "Drained", seconds=60)
        assert stage.placed("each") == {"m2": 4, "m3": 4}


@pytest.mark.proves("Q20")
async def test_a_single_workload_stays_where_a_drain_took_it_as_the_help_of_undo_says() -> None:
    async with fleet() as (stage, members):
        stage.workload("one", replicas=2, distribution="Single")
        await all_ready(stage, members, "one", 2)
        (home,) = stage.placed("one")
        members.taint(home, TAINT_DRAIN)
        await stage.until(lambda: home not in stage.placed("one"), seconds=60)
        await stage.until(lambda: stage.says("one", "Moving")[1] == "Settled", seconds=60)
        there = stage.placed("one")
        members.taint(home)
        await stage.calm(120)
        assert stage.placed("one") == there
    told = CliRunner().invoke(cli, ["drain", "--help"]).output
    assert "a Single Workload stays where it went" in " ".join(told.split())


# --- budgets of the fleet, rebalance --------------------------------------------------------------


@pytest.mark.proves("M58")
async def test_no_more_units_of_the_fleet_move_than_may() -> None:
    few = replace(QUICK, max_moving=3)
    async with fleet("m1", "m2", movement=few) as (stage, members):
        cordon(stage, "m2")
        for number in range(6):
            stage.workload(f"w{number}", replicas=2, distribution="Divided")
        await stage.until(lambda: all(stage.placed(f"w{n}") == {"m1": 2} for n in range(6)))
        await stage.calm(3)
        cordon(stage, "m2", on=False)
        members.stuck.add("m2")
        members.taint("m1", TAINT_DRAIN)
        await stage.calm(15)
        moved = sum(stage.placed(f"w{n}").get("m2", 0) for n in range(6))
        assert moved == 3
        said = [stage.says(f"w{n}", "Moving")[1] for n in range(6)]
        assert said.count("FleetBudget") == 3
        members.stuck.clear()
        await stage.until(
            lambda: all(stage.placed(f"w{n}") == {"m2": 2} for n in range(6)), seconds=120
        )


@pytest.mark.proves("M59", "M61")
async def test_a_rebalance_moves_to_the_shares_of_a_fresh_plan_once() -> None:
    async with running_on_m1(12) as (stage, members):
        await stage.calm(30)
        assert stage.placed("web") == {"m1": 12}
        asked = rebalance(stage)
        await stage.until(lambda: stage.placed("web") == {"m1": 6, "m2": 6}, seconds=60)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled")
        assert stage.hub.read(WORKLOADS, "web")["status"]["rebalanced"] == asked
        assert causes(stage, "web")[-1] == "Rebalanced"
        assert members.least_ready("web") == 12
        assert members.most_pods("web") <= 15


@pytest.mark.proves("M62")
async def test_a_restart_at_rest_writes_nothing() -> None:
    stage, members = unled()
    async with members.following():
        async with stage.leading(movement=QUICK):
            await web(stage, members)
            members.taint("m1", TAINT_DRAIN)
            await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled")
            await stage.until(lambda: members.evacuation("m1")[1] == "Drained")
            await stage.calm(10)
        writes = len(stage.hub.writes())
        async with stage.leading(movement=QUICK, identity="two"):
            await stage.calm(120)
        assert len(stage.hub.writes()) == writes


@pytest.mark.proves("M21")
async def test_whoever_leads_next_goes_on_with_a_drain_that_is_half_done() -> None:
    stage, members = unled("m1", "m2")
    cordon(stage, "m2")
    async with members.following():
        async with stage.leading(movement=QUICK):
            await web(stage, members, movement={"maxSurge": 1})
            cordon(stage, "m2", on=False)
            members.taint("m1", TAINT_DRAIN)
            await stage.until(lambda: stage.placed("web").get("m2", 0) >= 2)
        assert stage.placed("web")["m1"] > 0
        async with stage.leading(movement=QUICK, identity="two"):
            await stage.until(lambda: stage.placed("web") == {"m2": 6}, seconds=60)
            await stage.until(lambda: members.looks["web"][-1].pods == 6)
    assert members.most_pods("web") == 7
    assert members.least_ready("web") == 6
    assert set(causes(stage, "web")[1:]) == {"Drained"}


@pytest.mark.proves("M63")
async def test_rules_that_exclude_every_cluster_move_nothing() -> None:
    async with running() as (stage, _):
        stage.hub.edit(WORKLOADS, "web", {"spec": {"clusterSelector": {"zone": "typo"}}})
        await stage.until(lambda: stage.says("web", "Moving")[1] == "NoRoom")
        await stage.calm(30)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert "3 didn't match clusterSelector" in stage.says("web", "Moving")[2]


@pytest.mark.proves("M65")
async def test_a_toleration_of_everything_stays_whatever_comes() -> None:
    async with running(tolerations=[{"operator": "Exists"}]) as (stage, members):
        members.taint("m1", TAINT_DRAIN)
        members.lose("m2")
        await stage.calm(60)
        assert stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2}
        assert "(tolerated)" in members.evacuation("m1")[2]


async def test_controllers_that_judge_otherwise_wage_no_war_of_writes() -> None:
    stage, members = unled()
    other = replace(default_profile(), scheduler_name="other")
    never = replace(QUICK, not_ready_toleration_seconds=-1)
    async with members.following(), stage.leading(movement=QUICK):
        await web(stage, members)
        async with stage.leading(other, identity="two", movement=never):
            members.lose("m1")
            await stage.until(lambda: "m1" not in stage.placed("web"), seconds=30)
            before = len(stage.hub.writes("/memberclusters/m1/status"))
            await stage.calm(20)
            assert len(stage.hub.writes("/memberclusters/m1/status")) - before <= 50


@pytest.mark.proves("M44")
async def test_a_brake_in_the_middle_lets_nothing_begin_and_ends_by_a_persons_word() -> None:
    few = replace(QUICK, max_moving=1)
    names = ("m1", "m2", "m3", "m4")
    async with running(*names, brakes=few, replicas=8) as (stage, members):
        members.stuck |= {"m2", "m3", "m4"}
        members.lose("m1")
        await stage.until(lambda: stage.placed("web")["m1"] == 1, seconds=30)
        members.lose("m2", "m3")
        await stage.until(lambda: members.evacuation("m1")[1] == "Braked", seconds=15)
        placed = stage.placed("web")
        members.stuck.clear()
        await stage.calm(30)
        assert stage.placed("web") == placed
        for name in ("m2", "m3"):
            members.taint(name, TAINT_OUT_OF_SERVICE)
        await stage.until(lambda: stage.hub.events("BrakeReleased"), seconds=15)
        await stage.until(lambda: stage.placed("web") == {"m4": 8}, seconds=60)


@pytest.mark.proves("M16")
async def test_a_cron_job_and_a_daemon_set() -> None:
    async with fleet("m1", "m2") as (stage, members):
        pods = {"template": {"spec": {"containers": []}}}
        spec: dict[str, Any] = {"jobTemplate": {"spec": pods}, "schedule": "* * * * *"}
        for kind, body in (("CronJob", spec), ("DaemonSet", pods)):
            api = "batch/v1" if kind == "CronJob" else "apps/v1"
            template = {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": body}
            name = kind.lower()
            stage.workload(name, replicas=None, targetDeployment=None, template=template)
        await stage.until(lambda: stage.placed("daemonset") == {"m1": 1, "m2": 1})
        await stage.until(lambda: stage.placed("cronjob"))
        (home,) = stage.placed("cronjob")
        (other,) = {"m1", "m2"} - {home}
        members.taint(home, TAINT_DRAIN)
        await stage.until(lambda: stage.placed("cronjob") == {other: 1})
        assert leaving(stage, "cronjob") == {home: (1, "Drained")}
        await stage.until(lambda: stage.placed("daemonset") == {other: 1})
        members.taint(other, TAINT_DRAIN)
        await stage.until(lambda: stage.says("daemonset", "Moving")[1] == "NoRoom")
        assert stage.placed("daemonset") == {other: 1}


@pytest.mark.proves("M17")
async def test_an_edit_of_the_template_in_the_middle_of_a_move_keeps_the_budgets() -> None:
    async with running_on_m1(8, movement={"maxSurge": 1}) as (stage, members):
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.placed("web").get("m2", 0) >= 2, seconds=30)
        newer = deployment("web", "1")
        newer["spec"]["template"]["metadata"]["annotations"] = {"a": "b"}
        stage.hub.edit(WORKLOADS, "web", {"spec": {"targetDeployment": newer}})
        await stage.until(lambda: stage.placed("web") == {"m2": 8}, seconds=60)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Settled", seconds=30)
        assert members.most_pods("web") <= 9
        assert members.least_ready("web") == 8


@pytest.mark.proves("CT21")
async def test_events_and_metrics_tell_of_moves() -> None:
    async with running() as (stage, members):
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.hub.events("Drained"))
        told = {each["reason"] for each in stage.hub.events()}
        assert {"Moving", "Moved", "Draining", "Drained"} <= told
        related = {each["related"]["name"] for each in stage.hub.events("Moving")}
        assert related == {"m1"}, "the cluster that units leave"
        text = metrics.exposition().decode()
        assert 'stowage_moves_total{cause="Drained",outcome="Moved"}' in text
        assert 'stowage_brake{scope="clusters"} 0.0' in text
        for name in ("m2", "m3"):
            members.taint(name, TAINT_DRAIN)
        await stage.until(lambda: stage.hub.events("MoveBlocked"))


WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 6}}
OF_A_WIDGET = {"template": WIDGET, "targetDeployment": None, "replicasPath": "spec.size"}


@pytest.mark.proves("KD42")
async def test_a_kind_of_which_nothing_is_known_stays_where_it_runs() -> None:
    async with fleet() as (stage, members):
        stage.workload("web", replicas=6, distribution="Divided", **OF_A_WIDGET)
        await stage.until(lambda: stage.placed("web") == {"m1": 2, "m2": 2, "m3": 2})
        await stage.calm(1)
        stands = stage.placed("web")
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "UnknownKind")
        said = stage.says("web", "Moving")
        assert said[0] == "False"
        assert said[2].startswith(
            "2 of 6 replicas leave m1 (drain): Widget of example.com is a kind"
        )
        members.lose("m2")
        await stage.calm(60)
        assert (stage.placed("web"), leaving(stage, "web")) == (stands, {})
        members.back("m2")
        stage.hub.edit(WORKLOADS, "web", {"spec": {"movement": {"maxSurge": 1}}})
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=60)


@pytest.mark.proves("KD42")
async def test_a_kind_of_which_nothing_is_known_stays_where_its_rules_are_edited() -> None:
    async with fleet("m1", "m2") as (stage, _):
        spec = {"clusterSelector": {"stowage.dev/cluster": "m1"}, **OF_A_WIDGET}
        stage.workload("web", replicas=3, **spec)
        await stage.until(lambda: stage.placed("web") == {"m1": 3})
        edit = {"spec": {"clusterSelector": {"stowage.dev/cluster": "m2"}}}
        stage.hub.edit(WORKLOADS, "web", edit)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "UnknownKind")
        await stage.calm(30)
        assert (stage.placed("web"), leaving(stage, "web")) == ({"m1": 3}, {})
        assert stage.says("web", "Moving")[1] == "UnknownKind"


@pytest.mark.proves("KD78")
async def test_a_suspended_share_gives_nothing_to_a_drain() -> None:
    async with fleet() as (stage, members):
        held = {"clusterSelector": {"stowage.dev/cluster": "m1"}}
        stage.workload("web", replicas=6, distribution="Divided", suspend=held)
        await stage.until(lambda: stage.placed("web") == {"m2": 3, "m3": 3})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"suspend": None}})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"replicas": 9}})
        await stage.until(lambda: stage.placed("web") == {"m1": 3, "m2": 3, "m3": 3})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"suspend": held}})
        members.taint("m1", TAINT_DRAIN)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "Suspended")
        said = stage.says("web", "Moving")
        assert said[0] == "False"
        assert said[2].startswith("3 of 9 replicas stay on m1 (drain): spec.suspend names")
        await stage.calm(60)
        assert (stage.placed("web"), leaving(stage, "web")) == ({"m1": 3, "m2": 3, "m3": 3}, {})
        stage.hub.edit(WORKLOADS, "web", {"spec": {"suspend": None}})
        await stage.until(lambda: "m1" not in stage.placed("web"), seconds=60)


SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
OF_SETTINGS = {"targetDeployment": None, "manifests": [SETTINGS]}


@pytest.mark.proves("KD80")
async def test_a_copy_of_manifests_alone_stays_on_a_cluster_that_is_lost_for_hours() -> None:
    async with fleet() as (stage, members):
        stage.workload("all", distribution="Duplicated", **OF_SETTINGS)
        stage.workload("one", **OF_SETTINGS)
        everywhere = {"m1": 1, "m2": 1, "m3": 1}
        await stage.until(lambda: stage.placed("all") == everywhere and stage.placed("one"))
        (home,) = stage.placed("one")
        await stage.calm(1)
        members.lose(home)
        await stage.until(lambda: home not in stage.placed("one"), seconds=900)
        await stage.calm(1200)
        assert (stage.placed("all"), leaving(stage, "all")) == (everywhere, {})


@pytest.mark.proves("KD80")
def test_manifests_alone_take_no_room_and_are_not_divided() -> None:
    full = cluster("m1", groups=[{"count": 1, "free": {"cpu": "0", "pods": "0"}}])
    of = {"template": None, "manifests": [SETTINGS], "replicas": None}
    assert decided(info(**of), full).placements == {"m1": 1}
    with pytest.raises(ValueError, match=r"spec\.distribution: manifests alone"):
        info(**of, distribution="Divided")
