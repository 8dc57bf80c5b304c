"""The start of gangs: all that they need at once, or nothing at all, seen on the members.

Each test makes the room that it needs on the members' nodes, in whole units: `e2e.gangs`. The two
processes are the test's own, so that it may end them and freeze members: `e2e.stage`.
"""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from crds.names import LABEL_GROUP
from e2e.gangs import UNIT, Yard
from e2e.harness import PACE, steady, wait, workload
from e2e.stage import MEMBERS


@pytest.mark.long
@pytest.mark.proves("G1")
def test_a_group_of_nobody_is_refused_and_one_of_four_has_its_columns(yard: Yard) -> None:
    said = yard.hub.refused(yard.manifest(0))
    assert "minMember" in said
    yard.group(4)
    yard.until(phase="Pending", desired=0)
    head, row = yard.hub("-n", yard.space, "get", "wg", "batch").splitlines()
    assert head.split() == ["NAME", "PHASE", "MINMEMBER", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
    assert row.split()[:6] == ["batch", "Pending", "4", "0", "0", "0"]
    wide = yard.hub("-n", yard.space, "get", "wg", "batch", "-o", "wide").splitlines()[0]
    for column in ("SCHEDULED", "WAITING", "GATE"):
        assert column in wide


@pytest.mark.long
@pytest.mark.proves("G3", "G5", "G15", "G19", "E9")
def test_room_for_four_of_six_runs_four(yard: Yard) -> None:
    yard.room(2, 1, 1)
    yard.group(4)
    yard.workers("worker", 6)
    shares = yard.until_running("worker", 4)
    assert yard.placed("worker") == shares == {"member-1": 2, "member-2": 1, "member-3": 1}
    status = yard.stage.status(yard.space, "worker")
    assert (status["desired"], status["assigned"], status["pending"]) == (6, 4, 2)
    yard.until(phase="Running", scheduled=4, running=4, waiting=0, desired=6)
    gang = yard.gang()
    assert (gang["min"], gang["assigned"], gang["waiting"]) == (4, 4, 0)

    uids, before = yard.uids("worker"), yard.told()
    controller = yard.stage.processes["controller"]
    controller.kill(signal.SIGTERM)
    controller.start()
    wait("the new controller to answer", lambda: yard.gang()["assigned"] == 4)
    steady(yard.stage, "nothing moves", lambda: yard.uids("worker") == uids)
    assert yard.told()["scheduled"] == 4
    assert yard.told()["decisions"] == before["decisions"]
    assert yard.gang()["waiting"] == 0


@pytest.mark.long
@pytest.mark.proves("G4", "G11", "G13")
def test_room_for_three_leaves_every_member_empty(yard: Yard) -> None:
    yard.room(1, 1, 1)
    yard.group(4)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    yard.workers("worker", 6, manifests=[config | {"data": {"mode": "fast"}}])
    said = yard.until_refused("worker", "resource gap")
    assert said["reason"] == "GroupDenied"
    assert f"WorkloadGroup {yard.space}/batch" in said["message"]
    assert yard.resource in said["message"]

    wait("the group to say how far it is", lambda: yard.told().get("phase"))

    def empty() -> bool:
        status = yard.stage.status(yard.space, "worker")
        assert status["pending"] == 6, status
        assert not status.get("placements"), status
        assert yard.told().get("phase") in ("Pending", "Scheduling")
        return yard.nothing()

    steady(yard.stage, "no member has any object", empty)
    for member in MEMBERS:
        assert not yard.stage.members[member].exists("namespace", yard.space)
    assert yard.free_units() == 3, "nothing is held"

    yard.room(1, 2, 1)  # no wait for the end of the denial: a cluster with more room ends it
    yard.until_running("worker", 4)
    yard.until(phase="Running", scheduled=4)


@pytest.mark.long
@pytest.mark.proves("G3", "G16")
def test_of_two_gangs_that_need_more_than_half_one_runs_and_then_the_other(yard: Yard) -> None:
    yard.room(2, 2, 2)
    names = ("one", "two")
    yard.hub.apply(
        *(yard.manifest(4, name) for name in names),
        *(yard.member(name, 4, name) for name in names),
    )

    def settled() -> list[str]:
        sums = {name: sum(yard.placed(name).values()) for name in names}
        if sorted(sums.values()) != [0, 4]:
            raise ValueError(json.dumps(sums))
        return sorted(names, key=lambda name: -sums[name])

    first, second = wait("one of them to be placed", settled)
    yard.until_running(first, 4)
    steady(yard.stage, "the other has nothing", lambda: yard.nothing(second))
    assert yard.stage.status(yard.space, second)["pending"] == 4
    assert yard.gang(second)["assigned"] == 0
    # A unit counts as in flight and as a pod until the share names the capacity that has its pod.
    wait("the rest to be free", lambda: yard.free_units() == 2)
    yard.delete("wl", first)
    yard.until_running(second, 4)
    assert yard.nothing(first)


@pytest.mark.long
@pytest.mark.proves("G2", "G12")
def test_a_driver_and_its_workers_wait_for_each_other(yard: Yard) -> None:
    yard.room(2, 2, 2)
    yard.group(4)
    yard.workers("worker", 3)
    yard.until_refused(
        "worker",
        f"WorkloadGroup {yard.space}/batch has 3 replicas in all its Workloads, minMember is 4",
    )
    steady(yard.stage, "nobody starts alone", yard.nothing)
    driver = yard.member("driver", 1, takes=UNIT // 3, distribution="Single")
    driver["metadata"]["labels"].pop("stowage.dev/workload-group")
    pods = driver["spec"]["template"]["spec"]["template"]["metadata"]["labels"]
    pods["pod-group.scheduling.sigs.k8s.io"] = "batch"  # the alias, and on its template
    yard.hub.apply(driver)
    yard.until_running("worker", 3)
    yard.until_running("driver", 1)
    yard.until(phase="Running", workloads=2, scheduled=4, running=4)


@pytest.mark.long
@pytest.mark.proves("G18")
def test_a_label_without_a_group_waits_for_it(yard: Yard) -> None:
    yard.room(2, 2, 2)
    yard.workers("worker", 4)
    yard.workers("stranger", 1, group="")
    said = yard.until_refused("worker", "WorkloadGroup not found")
    assert said["reason"] == "GroupNotFound"
    yard.until_running("stranger", 1)
    steady(yard.stage, "it has nothing", lambda: yard.nothing("worker"))
    yard.group(4)
    yard.until_running("worker", 4)


@pytest.mark.long
@pytest.mark.proves("G10", "G11")
def test_a_new_cluster_is_asked_at_once_and_others_are_not_touched(yard: Yard) -> None:
    yard.room(1, 1, 2)
    secret = yard.stage.registration("member-3")
    yard.stage.unregister("member-3")
    try:
        yard.group(4)
        yard.workers("worker", 4)
        yard.until_refused("worker", "resource gap")
        yard.workers("stranger", 1, group="", takes=0)
        yard.until_running("stranger", 1)
        assert yard.nothing("worker")
        assert "worker" not in str(yard.stage.status(yard.space, "stranger"))
    finally:
        yard.stage.register(secret)
    yard.until_running("worker", 4)


@pytest.mark.long
@pytest.mark.proves("G5", "G16", "E9")
def test_nine_of_ten_are_held_for_the_tenth(yard: Yard) -> None:
    nine_of_ten(yard)
    yard.group(10, scheduleTimeoutSeconds=600)
    yard.workers("worker", 10)
    yard.until(waiting=9, scheduled=0)
    yard.stage.until_condition(yard.space, "worker", "Scheduled", reason="WaitingForGroup")
    gang = yard.gang()
    assert (gang["min"], gang["assigned"], gang["waiting"]) == (10, 9, 9)
    assert sum(map(yard.free, MEMBERS)) == yard.spare(), "held room is nobody else's"
    steady(yard.stage, "nothing starts", yard.nothing)
    yard.offer("member-3", 4)
    yard.until_running("worker", 10)
    yard.until(phase="Running", scheduled=10, waiting=0)


@pytest.mark.long
@pytest.mark.proves("G6")
def test_what_is_held_is_given_back_after_ten_seconds(yard: Yard) -> None:
    nine_of_ten(yard)
    yard.group(10, scheduleTimeoutSeconds=10)
    began = time.monotonic()
    yard.workers("worker", 10)
    yard.until(waiting=9)
    assert sum(map(yard.free, MEMBERS)) == yard.spare()

    def free() -> bool:
        return sum(map(yard.free, MEMBERS)) == 9 * UNIT + yard.spare()

    wait("the room to be free", free, timeout=20, every=0.1)
    passed = time.monotonic() - began
    assert passed > 9.5, "as long as it was told to wait"
    yard.until_reason("ScheduleTimeout", timeout=10)
    yard.stage.until_condition(yard.space, "worker", "Scheduled", reason="ScheduleTimeout")
    assert yard.nothing()
    assert passed < 10 + 10 * PACE.factor, f"free after {passed:.1f} s"


def nine_of_ten(yard: Yard) -> None:
    """Offer room for nine units, though the free room of all nodes together would fit ten."""
    yard.room(3, 3, 3)
    assert sum(map(yard.free, MEMBERS)) >= 10 * UNIT


@pytest.mark.long
@pytest.mark.proves("G24")
def test_a_member_that_fails_before_the_quorum_leaves_nothing_on_the_others(yard: Yard) -> None:
    yard.room(2, 2, 0)
    yard.group(4)
    yard.stage.signal("member-2", "freeze")  # no process has noticed it yet
    try:
        yard.workers("worker", 4)
        wait("a decision", lambda: yard.placed("worker") == {"member-1": 2, "member-2": 2})
        yard.until_reason("PropagationFailed")
        wait("member-1 to be empty again", lambda: not yard.there("member-1"))
        yard.until(phase="Scheduling", scheduled=0)
        steady(yard.stage, "it stays so", lambda: not yard.there("member-1"))
    finally:
        yard.stage.signal("member-2", "thaw")
    yard.until_running("worker", 4)
    yard.until(phase="Running", running=4)


@pytest.mark.long
@pytest.mark.proves("G2", "G24")
def test_a_known_failure_keeps_the_others_from_starting(yard: Yard) -> None:
    """member-2 takes no Deployment of this namespace: what went to member-1 leaves it again."""
    yard.room(2, 2, 0)
    second = yard.stage.members["member-2"]
    second("create", "namespace", yard.space)
    second.apply(_no_deployments(yard.space))
    wait("the quota to be counted", lambda: second.get("quota", "none", yard.space)["status"])
    yard.group(4)
    yard.workers("worker", 4)
    yard.until_reason("PropagationFailed")
    wait("both to be empty", lambda: yard.nothing("worker"))
    second("-n", yard.space, "delete", "quota", "none")
    yard.until_running("worker", 4)


@pytest.mark.long
@pytest.mark.proves("N8")
def test_a_gate_that_closes_leaves_what_ran_before_it(yard: Yard) -> None:
    """Three units run; their group wants six, and the two of a new sibling are refused."""
    yard.room(3, 0, 0)
    second = yard.stage.members["member-2"]
    second("create", "namespace", yard.space)
    second.apply(_no_deployments(yard.space))
    wait("the quota to be counted", lambda: second.get("quota", "none", yard.space)["status"])
    before = yard.member("old", 3)
    del before["metadata"]["labels"][LABEL_GROUP]
    yard.hub.apply(before)
    assert yard.until_running("old", 3) == {"member-1": 3}
    wait("its pods to be told", lambda: yard.stage.status(yard.space, "old").get("ready") == 3)
    uids = yard.uids("old")

    yard.room(4, 2, 0)
    yard.group(6)
    yard.workers("old", 4)  # a fourth one with the group
    yard.workers("new", 2)
    yard.until_reason("PropagationFailed")
    wait("the new ones to be taken back", lambda: yard.placed("new") == {})
    wait("the fourth one to be taken back", lambda: yard.placed("old") == {"member-1": 3})
    wait("it to have left", lambda: yard.units("old") == {"member-1": 3})
    steady(yard.stage, "what ran stays", lambda: yard.pods("old")["member-1"] == 3)
    assert yard.uids("old") == uids

    second("-n", yard.space, "delete", "quota", "none")
    yard.until_running("old", 4)
    yard.until_running("new", 2)
    assert yard.uids("old").items() >= uids.items()
    yard.until(phase="Running", running=6)


def _no_deployments(space: str) -> dict[str, Any]:
    """Return a quota by which a member refuses every Deployment."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": space},
        "spec": {"hard": {"count/deployments.apps": "0"}},
    }


@pytest.mark.long
@pytest.mark.proves("G2")
def test_placements_of_another_scheduler_wait_for_the_quorum(yard: Yard) -> None:
    yard.room(2, 2, 2)
    yard.group(4)
    for name in ("left", "right"):
        yard.workers(name, 2, schedulerName="somebody-else")
    yard.place("left", member_1=1, member_2=1)
    yard.stage.until_condition(yard.space, "left", "Propagated", reason="WaitingForGroup")
    steady(yard.stage, "half of it does not start", yard.nothing)
    yard.place("right", member_2=1, member_3=1)
    yard.until_running("left", 2)
    yard.until_running("right", 2)
    yard.until(phase="Running", scheduled=4, running=4)
    yard.hub.apply(workload("other", yard.space))
    yard.stage.until_running(yard.space, "other")
