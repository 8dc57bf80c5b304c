"""The start of gangs: all that they need at once, or nothing at all, seen on the members.

Each test makes the room that it needs on the members' nodes, in whole units: `e2e.gangs`. The two
processes are the test's own, so that it may end them and freeze members: `e2e.stage`.
"""

from __future__ import annotations

import signal

import pytest

from e2e.gangs import Yard
from e2e.harness import steady, wait
from e2e.stage import MEMBERS

pytestmark = pytest.mark.long


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


@pytest.mark.proves("G3", "G24")
def test_a_gang_that_runs_is_edited_scaled_and_outlives_its_group(yard: Yard) -> None:
    yard.room(3, 3, 3)
    yard.group(4)
    yard.workers("worker", 4)
    yard.until_running("worker", 4)
    assert yard.until(phase="Running").get("quorumTime")
    uids = yard.uids("worker")

    yard.workers("worker", 4, tag="3.9")
    for member in uids:
        wait(f"the new image on {member}", lambda m=member: image(yard, m).endswith(":3.9"))
    yard.until_running("worker", 4)
    assert yard.uids("worker") == uids, "a roll-out is no new start"

    yard.workers("worker", 8, tag="3.9")
    yard.until_running("worker", 8)
    yard.until(scheduled=8, running=8)
    yard.workers("worker", 2, tag="3.9")  # below the quorum: it has run, nothing is torn down
    yard.until_running("worker", 2)
    steady(yard.stage, "two stay", lambda: yard.pods("worker").total() == 2)
    yard.workers("worker", 4, tag="3.9")
    yard.until_running("worker", 4)

    kept = yard.uids("worker")
    yard.delete("wg", "batch")
    steady(yard.stage, "what runs outlives its group", lambda: yard.uids("worker") == kept)
    yard.group(4)
    yard.until(phase="Running", running=4)
    steady(yard.stage, "and is taken over by a new one", lambda: yard.uids("worker") == kept)
    yard.delete("wl", "worker")
    wait("the members to be empty", lambda: yard.nothing("worker"))
    yard.until(phase="Pending", workloads=0, scheduled=0, running=0)


def image(yard: Yard, member: str) -> str:
    """Return the image of the worker's Deployment on that member."""
    found = yard.stage.seen(member, yard.space, "worker") or {}
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])
