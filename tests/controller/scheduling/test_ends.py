"""What has ended is made nowhere again: it stays where it was, and counts for nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.moving import MovementConfiguration
from crds.names import TAINT_DRAIN
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_QUOTAS, WORKLOADS
from tests.controller.features.workloadquota.quotas import body as quota
from tests.controller.memory import Stage

END = {"result": "Succeeded", "time": "2026-01-01T00:00:00Z", "object": "Job shop/bill"}
DRAIN = {"key": TAINT_DRAIN, "effect": "NoExecute"}


def job(name: str = "bill", **spec: Any) -> dict[str, Any]:
    asks = {"requests": {"cpu": "1"}}
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "resources": asks}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pods}, **spec},
    }


def put(stage: Stage, **spec: Any) -> None:
    spec = {"template": job(), "replicas": 1, **spec}
    stage.workload("bill", **spec, targetDeployment=None)


def change(stage: Stage, **spec: Any) -> None:
    stage.hub.edit(WORKLOADS, "bill", {"spec": spec})


def report(stage: Stage, **ends: dict[str, Any] | None) -> None:
    """What the propagator tells of the shares."""
    shares = []
    for each in stage.hub.read(WORKLOADS, "bill")["status"]["placements"]:
        share = {"name": each["cluster"], "replicas": each["replicas"], "state": "Running"}
        if (end := ends.get(each["cluster"])) is not None:
            n = each["replicas"]
            share |= {"ended": end, "finished": n, "succeeded": n, "ready": n, "state": "Complete"}
        shares.append(share)
    status = {"clusters": shares, "state": "Complete"}
    stage.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)


def taint(stage: Stage, name: str, *taints: dict[str, str]) -> None:
    stage.hub.edit(MEMBER_CLUSTERS, name, {"spec": {"taints": list(taints)}})


@pytest.mark.proves("A1", "KD29")
async def test_what_has_ended_moves_nowhere() -> None:
    stage = Stage()
    for name in ("m1", "m2"):
        stage.cluster(name, zone=name)
    put(stage, clusterSelector={"zone": "m1"})
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        report(stage, m1=END)
        change(stage, clusterSelector={"zone": "m2"})
        await stage.calm(30)
        assert stage.placed("bill") == {"m1": 1}
        change(stage, clusterSelector={})
        taint(stage, "m1", DRAIN)
        await stage.calm(30)
        taint(stage, "m1", {"key": "stowage.dev/out-of-service", "effect": "NoExecute"})
        await stage.calm(30)
        change(stage, movement={"rebalanceAfter": "2026-01-01T00:00:00Z"})
        await stage.calm(30)
        stage.hub.remove(MEMBER_CLUSTERS, "m1")
        await stage.calm(900)
        assert stage.placed("bill") == {"m1": 1}
        stage.cluster("m1", zone="m1")
        await stage.calm(900)
        assert stage.placed("bill") == {"m1": 1}
        found = stage.hub.read(WORKLOADS, "bill")["status"]
        assert (found["desired"], found["assigned"], found["pending"]) == (1, 1, 0)
        assert found["state"] == "Complete"
        assert stage.says("bill")[0] == "True"


@pytest.mark.proves("A1", "KD29")
async def test_what_ends_while_it_leaves_has_ended_there() -> None:
    stage = Stage("m1", "m2")
    put(stage)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        shows(stage, m1={"state": "Running", "scheduled": 1, "current": 1})
        taint(stage, "m1", DRAIN)
        await stage.until(lambda: stage.placed("bill") == {"m2": 1})
        end = {"ended": END, "finished": 1, "succeeded": 1, "state": "Complete"}
        shows(stage, m1=end, m2={"state": "Pending"})
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        await stage.calm(900)
        found = stage.hub.read(WORKLOADS, "bill")["status"]
        assert found["leaving"] == []
        assert (found["desired"], found["assigned"], found["pending"]) == (1, 1, 0)


@pytest.mark.proves("KD31")
async def test_what_ends_while_it_leaves_makes_way_for_what_moves_next() -> None:
    stage = Stage("m1", "m2")
    stage.hub.edit(MEMBER_CLUSTERS, "m2", {"spec": {"unschedulable": True}})
    put(stage)
    async with stage.leading(movement=MovementConfiguration(max_moving=1)):
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        stage.workload("web", replicas=1, created=1)
        await stage.until(lambda: stage.placed("web") == {"m1": 1})
        shows(stage, m1={"state": "Running", "scheduled": 1, "current": 1})
        stage.hub.edit(MEMBER_CLUSTERS, "m2", {"spec": {"unschedulable": False}})
        taint(stage, "m1", DRAIN)
        await stage.until(lambda: stage.says("web", "Moving")[1] == "FleetBudget")
        await stage.calm(30)
        assert (stage.placed("bill"), stage.placed("web")) == ({"m2": 1}, {"m1": 1})
        end = {"ended": END, "finished": 1, "succeeded": 1, "state": "Complete"}
        shows(stage, m1=end, m2={"state": "Pending"})
        await stage.until(lambda: stage.placed("web") == {"m2": 1})


@pytest.mark.proves("A1", "KD29")
async def test_a_job_that_has_ended_on_each_cluster_waits_for_none() -> None:
    stage = Stage("m1", "m2")
    put(stage, distribution="Duplicated", replicas=2)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 2, "m2": 2})
        for ends in ({"m1": END}, {"m1": END, "m2": END}):
            report(stage, **ends)
            await stage.calm(30)
            status = stage.hub.read(WORKLOADS, "bill")["status"]
            assert (status["desired"], status["assigned"], status["pending"]) == (4, 4, 0)
            assert stage.says("bill")[0] == "True"
        assert "4 of 4 replicas" in stage.says("bill")[2]
        stage.cluster("m3")
        await stage.until(lambda: stage.placed("bill") == {"m1": 2, "m2": 2, "m3": 2})


@pytest.mark.proves("A1", "KD32")
async def test_an_object_of_another_name_runs() -> None:
    stage = Stage()
    for name in ("m1", "m2"):
        stage.cluster(name, zone=name)
    put(stage, clusterSelector={"zone": "m1"})
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        report(stage, m1=END)
        change(stage, template=job(activeDeadlineSeconds=60), clusterSelector={"zone": "m2"})
        await stage.calm(30)
        assert stage.placed("bill") == {"m1": 1}
        change(stage, template=job("bill-2"))
        await stage.until(lambda: stage.placed("bill") == {"m2": 1})


@pytest.mark.proves("KD31")
@pytest.mark.parametrize("bound", ["room", "quota"])
async def test_what_has_ended_leaves_room_and_quota(bound: str) -> None:
    stage = Stage("m1", cpu="1" if bound == "room" else "8")
    if bound == "quota":
        stage.hub.put(WORKLOAD_QUOTAS, quota(units=1))
    put(stage)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        stage.workload("next", replicas=1)
        await stage.calm(10)
        assert stage.placed("next") == {}
        report(stage, m1=END)
        await stage.until(lambda: stage.placed("next") == {"m1": 1})


@pytest.mark.proves("KD29")
async def test_shares_beside_one_that_has_ended_move_on() -> None:
    stage = Stage("m1", "m2", "m3")
    put(stage, distribution="Divided", replicas=2, template=job(completions=2))
    async with stage.leading():
        await stage.until(lambda: sum(stage.placed("bill").values()) == 2)
        first, *others = sorted(stage.placed("bill"))
        report(stage, **{first: END})
        assert others
        taint(stage, others[0], DRAIN)
        free = {"m1", "m2", "m3"} - {first, others[0]}
        await stage.until(lambda: set(stage.placed("bill")) == {first, *free})


def parts(stage: Stage) -> dict[str, int | None]:
    placements = stage.hub.read(WORKLOADS, "bill")["status"]["placements"]
    return {each["cluster"]: each.get("completions") for each in placements}


def shows(stage: Stage, **shares: dict[str, Any]) -> None:
    """What the propagator tells of clusters."""
    told = [{"name": name, "state": "Running", **share} for name, share in shares.items()]
    stage.hub.edit(WORKLOADS, "bill", {"status": {"clusters": told}}, status=True)


def divided(stage: Stage, *clusters: str, completions: int | None, **spec: Any) -> None:
    for name in clusters:
        stage.cluster(name)
    more = {} if completions is None else {"completions": completions}
    put(stage, **{"distribution": "Divided", "template": job(**more), **spec})


@pytest.mark.proves("KD17")
async def test_a_suspended_job_takes_no_room_and_a_released_one_does() -> None:
    stage = Stage("m1", cpu="2")
    put(stage)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        shows(stage, m1={"replicas": 1, "health": "Suspended"})
        shows(stage, m1={"replicas": 1, "health": "Progressing"})
        stage.workload("second", replicas=2)
        await stage.calm(10)
        assert stage.placed("second") == {}, "it was released"
        shows(stage, m1={"replicas": 1, "health": "Suspended"})
        await stage.until(lambda: stage.placed("second") == {"m1": 2})
        assert stage.placed("bill") == {"m1": 1}


@pytest.mark.proves("KD17")
async def test_a_job_that_is_made_suspended_needs_a_place_and_then_asks_for_nothing() -> None:
    stage = Stage("m1", cpu="500m")
    put(stage, template=job(suspend=True))
    async with stage.leading():
        await stage.until(lambda: stage.says("bill")[1] == "InsufficientCapacity")
        stage.cluster("m2", cpu="1")
        await stage.until(lambda: stage.placed("bill") == {"m2": 1})
        stage.workload("second", replicas=1, clusterSelector={"stowage.dev/cluster": "m2"})
        await stage.until(lambda: stage.placed("second") == {"m2": 1})


@pytest.mark.proves("A20", "KD18", "KD19", "KD21")
async def test_completions_are_divided_and_what_is_left_goes_on_elsewhere() -> None:
    stage = Stage()
    divided(stage, "m1", "m2", "m3", completions=10, replicas=4)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 2, "m2": 1, "m3": 1})
        assert parts(stage) == {"m1": 5, "m2": 3, "m3": 2}
        running = {"m2": {"scheduled": 1}, "m3": {"scheduled": 1}}
        shows(stage, m1={"scheduled": 2, "completed": 2}, **running)
        stage.cluster("m4")
        taint(stage, "m1", DRAIN)
        await stage.until(lambda: stage.placed("bill") == {"m2": 1, "m3": 1, "m4": 2})
        assert parts(stage) == {"m2": 3, "m3": 2, "m4": None}, "m1 may do more of it yet"
        shows(stage, m1={"current": 1, "completed": 2, "state": "Leaving"}, **running)
        await stage.calm(15)
        assert parts(stage)["m4"] is None
        shows(stage, m1={"completed": 2, "state": "Leaving"}, **running)
        await stage.until(lambda: parts(stage) == {"m2": 3, "m3": 2, "m4": 3})
        found = stage.hub.read(WORKLOADS, "bill")["status"]
        assert (found["completed"], found.get("leaving")) == (2, [])


@pytest.mark.proves("A20", "KD19")
@pytest.mark.parametrize("state", ["Running", "Creating", "Pending", "Unreachable", ""])
async def test_a_job_between_two_pods_is_not_taken_for_gone_before_its_member_says_it_leaves(
    state: str,
) -> None:
    stage = Stage()
    divided(stage, "m1", "m2", completions=8, replicas=2)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1, "m2": 1})
        before = {"m1": {"completed": 2, "state": state}} if state else {}
        shows(stage, m2={"scheduled": 1}, **before)
        stage.cluster("m3")
        taint(stage, "m1", DRAIN)
        await stage.until(lambda: stage.placed("bill") == {"m2": 1, "m3": 1})
        await stage.calm(15)
        assert parts(stage) == {"m2": 4, "m3": None}
        shows(stage, m1={"completed": 3, "state": "Leaving"}, m2={"scheduled": 1})
        await stage.until(lambda: parts(stage) == {"m2": 4, "m3": 1})


@pytest.mark.proves("KD20")
async def test_a_share_stays_where_each_cluster_has_its_part() -> None:
    stage = Stage()
    divided(stage, "m1", "m2", completions=4, replicas=2)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1, "m2": 1})
        shows(stage, m1={"scheduled": 1}, m2={"scheduled": 1})
        taint(stage, "m1", DRAIN)
        await stage.until(lambda: stage.says("bill", "Moving")[1] == "NoRoom")
        assert "each cluster has its part of the completions" in stage.says("bill", "Moving")[2]
        await stage.calm(30)
        assert stage.placed("bill") == {"m1": 1, "m2": 1}


@pytest.mark.proves("KD21", "J2")
async def test_there_are_no_more_replicas_than_completions() -> None:
    stage = Stage()
    divided(stage, "m1", completions=3, replicas=10)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 3})
        assert stage.hub.read(WORKLOADS, "bill")["status"]["desired"] == 3


@pytest.mark.proves("KD22")
async def test_an_indexed_job_is_not_divided() -> None:
    stage = Stage()
    labels = {"stowage.dev/workload-policy": "even", "app": "bill"}
    for name in ("m1", "m2"):
        stage.cluster(name, zone=name)
    indexed = job(completions=4, completionMode="Indexed")
    stage.workload("bill", replicas=4, labels=labels, template=indexed, targetDeployment=None)
    async with stage.leading():
        await stage.until(lambda: list(stage.placed("bill").values()) == [4])
        assert list(parts(stage).values()) == [None]
        change(stage, distribution="Divided")
        await stage.until(lambda: stage.says("bill")[1] == "InvalidWorkload")
        assert "set distribution to Single" in stage.says("bill")[2]
        change(stage, distribution="Duplicated")
        await stage.until(lambda: stage.placed("bill") == {"m1": 4, "m2": 4})
        assert set(parts(stage).values()) == {None}


@pytest.mark.proves("KD83")
async def test_what_a_queue_of_a_member_holds_is_not_divided() -> None:
    stage = Stage()
    labels = {"stowage.dev/workload-policy": "even", "app": "db"}
    for name in ("m1", "m2"):
        stage.cluster(name, zone=name)
    pods = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "m"}]}}
    body: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    body |= {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {"template": pods}}
    stage.workload("bill", replicas=4, labels=labels, template=body, targetDeployment=None)
    async with stage.leading():
        await stage.until(lambda: list(stage.placed("bill").values()) == [4])
        change(stage, distribution="Divided")
        await stage.until(lambda: stage.says("bill")[1] == "InvalidWorkload")
        assert "only from and to 0: set distribution to Single" in stage.says("bill")[2]
        change(stage, template={**body, "metadata": {"labels": None}})
        await stage.until(lambda: stage.says("bill")[1] != "InvalidWorkload")


@pytest.mark.proves("KD23")
async def test_of_a_work_queue_what_has_not_begun_goes_once_a_share_is_complete() -> None:
    stage = Stage()
    divided(stage, "m1", "m2", "m3", completions=None, replicas=3)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1, "m2": 1, "m3": 1})
        end = {"ended": END, "finished": 1, "succeeded": 1, "ready": 1, "state": "Complete"}
        shows(stage, m1=end, m2={"scheduled": 1}, m3={"unschedulable": 1})
        await stage.until(lambda: stage.placed("bill") == {"m1": 1, "m2": 1})
        found = stage.hub.read(WORKLOADS, "bill")["status"]
        assert (found["desired"], found["pending"]) == (2, 0)


@pytest.mark.proves("KD19", "KD32")
@pytest.mark.parametrize("completions", [8, 12, 3])
async def test_another_run_divides_its_own_work(completions: int) -> None:
    """Of the last one m1 did two before it left, and nothing of that is done for this one."""
    stage = Stage()
    divided(stage, "m1", "m2", completions=8, replicas=2)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1, "m2": 1})
        shows(stage, m1={"completed": 2}, m2={"scheduled": 1})
        stage.cluster("m3")
        taint(stage, "m1", DRAIN)
        await stage.until(lambda: stage.placed("bill") == {"m2": 1, "m3": 1})
        shows(stage, m1={"completed": 2, "state": "Leaving"}, m2={"scheduled": 1})
        await stage.until(lambda: parts(stage) == {"m2": 4, "m3": 2})
        report(stage, m2=END, m3=END)
        await stage.calm(15)
        change(stage, template=job("again", completions=completions))
        await stage.calm(15)
        given = parts(stage)
        assert sum(each or 0 for each in given.values()) == completions, given
        assert not stage.hub.read(WORKLOADS, "bill")["status"].get("completed")
        assert stage.hub.read(WORKLOADS, "bill")["status"]["run"] == "Job shop/again"
        change(stage, template=job("queue", completions=None))
        await stage.calm(15)
        assert set(parts(stage).values()) == {None}
        assert "run" not in stage.hub.read(WORKLOADS, "bill")["status"]
