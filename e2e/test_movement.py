"""Workloads leave tainted and lost members, and come back: both processes, and real members.

What runs is read by watches of the test's own (`e2e.movement`); after each test the sums of every
state of every status are checked.
"""

from __future__ import annotations

import json
import random
import time

import pytest

from crds.names import TAINT_DRAIN
from e2e.harness import steady, wait, workload
from e2e.movement import TOLERATION_SECONDS, MovingStage
from e2e.stage import MEMBERS

pytestmark = [pytest.mark.long_group("movement"), pytest.mark.stops_api_servers, pytest.mark.long]
KILLS = "movement-kills"
"""The group of the tests that kill processes: as long as all others here, and beside them."""
MAINTENANCE = "example.com/maintenance"
EVEN = {"member_1": 2, "member_2": 2, "member_3": 2}
WITHOUT_FIRST = {"member_2": 3, "member_3": 3}


# --- taints ---------------------------------------------------------------------------------------


@pytest.mark.proves("M1", "M2")
def test_all_units_leave_a_tainted_member_and_as_many_are_ready_all_the_time(
    fleet: MovingStage,
) -> None:
    fleet.web()
    assert fleet.placed("web") == dict.fromkeys(MEMBERS, 2)
    fleet.taint("member-1", MAINTENANCE)
    fleet.until_placed("web", **WITHOUT_FIRST)
    fleet.until_gone("web", "member-1")
    fleet.until_moving("web", "Settled")
    wait("Drained", lambda: fleet.evacuating("member-1") == ("False", "Drained"))
    assert fleet.timeline.least_ready("web") == 6
    assert fleet.timeline.most_pods("web") <= 8
    assert fleet.causes("web") == ["Placed", "Tainted"]


# --- place first ----------------------------------------------------------------------------------


@pytest.mark.proves("M17")
def test_an_edit_of_the_template_in_the_middle_reaches_both_sides(fleet: MovingStage) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    template = fleet.template(strategy=rolling)
    fleet.offer(member_1=6, member_2=0, member_3=0)
    fleet.web(4, template=template)
    fleet.offer(member_2=6)
    fleet.readiness.hold("member-2")
    fleet.taint("member-1", TAINT_DRAIN)
    wait("a successor", lambda: fleet.timeline.pods("member-2", "web"))
    image = "registry.k8s.io/pause:3.9"
    template["spec"]["template"]["spec"]["containers"][0]["image"] = image
    fleet.edit("web", {"template": template})
    for member in ("member-1", "member-2"):
        wait(
            f"the edit on {member}",
            lambda m=member: image in json.dumps(fleet.timeline.pods(m, "web")),
        )
    fleet.readiness.release("member-2")
    fleet.until_placed("web", member_2=4)
    fleet.until_gone("web", "member-1")
    fleet.until_ready("web", 4)
    assert fleet.timeline.least_ready("web") == 4


@pytest.mark.proves("M20")
def test_no_status_takes_the_last_ready_units_away(fleet: MovingStage) -> None:
    def place(**shares: int) -> None:
        placed = [{"cluster": c.replace("_", "-"), "replicas": n} for c, n in shares.items()]
        body = {"status": {"placements": placed, "desired": 3, "pending": 3 - sum(shares.values())}}
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(body))
        fleet.hub("-n", fleet.space, "patch", "wl", "web", *patch)

    spec = {"replicas": 3, "distribution": "Divided", "schedulerName": "somebody-else"}
    fleet.hub.apply(workload("web", fleet.space, **spec))
    place(member_1=3)
    fleet.until_ready("web", 3)
    fleet.timeline.begin("web")
    fleet.readiness.hold("member-2")
    place(member_2=3)
    wait("three more", lambda: len(fleet.timeline.pods("member-2", "web")) == 3)
    steady(fleet.stage, "what runs", lambda: fleet.asked("member-1", "web") == 3)

    def told() -> bool:  # at first the objects of member-2 are on their way
        said = fleet.stage.condition(fleet.space, "web", "Propagated")
        assert (said["status"], said["reason"]) == ("False", "Propagating")
        return "member-1" in said["message"]

    wait("what stays to be told", told)
    assert fleet.asked("member-1", "web") == 3
    fleet.readiness.release("member-2")
    fleet.until_gone("web", "member-1")
    assert fleet.timeline.least_ready("web") == 3
    fleet.edit("web", {"replicas": 0})
    place()
    fleet.until_gone("web", "member-2")


# --- loss and return ------------------------------------------------------------------------------


@pytest.mark.proves("M32", "M45", "M47")
def test_a_lost_member_is_left_after_its_toleration_and_has_its_units_again_after_the_dwell(
    fleet: MovingStage,
) -> None:
    fleet.web(movement={"maxSurge": 1})
    fleet.lose("member-1")
    fleet.until_evacuating("member-1", "Tolerating")
    seen = time.monotonic()
    assert fleet.placed("web") == dict.fromkeys(MEMBERS, 2)
    fleet.until_placed("web", **WITHOUT_FIRST)
    assert time.monotonic() - seen >= TOLERATION_SECONDS - 2, "the condition is written before"
    assert fleet.timeline.placed("web") == [
        dict.fromkeys(MEMBERS, 2),
        {"member-2": 3, "member-3": 3},
    ], "all at once"
    assert fleet.leaving("web") == {"member-1": (2, "ClusterLost")}
    fleet.until_moving("web", "Settled")  # its ready units count what the lost one said last
    wait("Lost", lambda: fleet.evacuating("member-1") == ("True", "Lost"))
    assert len(fleet.timeline.pods("member-1", "web")) == 2
    fleet.timeline.begin("web")
    fleet.thaw("member-1")
    fleet.until_evacuating("member-1", "Dwelling")
    fleet.until_placed("web", **EVEN)
    fleet.until_moving("web", "Settled")
    fleet.until_ready("web", 6)
    assert fleet.causes("web") == ["Placed", "ClusterLost", "Returned", "Returned"], "one by one"
    assert fleet.timeline.least_ready("web") == 6
    assert not fleet.status("web").get("displaced")


@pytest.mark.proves("M44")
def test_a_brake_in_the_middle_of_a_move_keeps_what_is_placed_and_ends_with_the_loss(
    fleet: MovingStage,
) -> None:
    fleet.web()
    fleet.readiness.hold("member-3")
    fleet.cut("member-1")
    fleet.until_placed("web", **WITHOUT_FIRST)
    fleet.cut("member-2")
    fleet.until_evacuating("member-2", "Braked")
    released = len(fleet.events("BrakeReleased"))
    stands = {"member-1": (2, "ClusterLost")}
    time.sleep(TOLERATION_SECONDS)
    steady(
        fleet.stage,
        "what is placed",
        lambda: (
            (fleet.placed("web"), fleet.leaving("web")) == ({"member-2": 3, "member-3": 3}, stands)
        ),
    )
    fleet.mend("member-2")
    wait("BrakeReleased", lambda: len(fleet.events("BrakeReleased")) > released)
    fleet.readiness.release("member-3")
    fleet.until_moving("web", "Settled")
    fleet.mend("member-1")
    fleet.until_placed("web", **EVEN)
    fleet.until_ready("web", 6)


@pytest.mark.proves("M50")
def test_what_is_deleted_while_its_member_is_lost_stays_deleted(fleet: MovingStage) -> None:
    fleet.web()
    fleet.cut("member-1")
    fleet.until_placed("web", **WITHOUT_FIRST)
    wait("all to be ready", lambda: fleet.timeline.now("web").ready == 6)
    fleet.hub("-n", fleet.space, "delete", "wl", "web", "--wait=false")
    fleet.until_gone("web", "member-2", "member-3")
    steady(fleet.stage, "waits", lambda: fleet.hub.exists("-n", fleet.space, "wl", "web"))
    assert len(fleet.timeline.pods("member-1", "web")) == 2
    fleet.mend("member-1")
    fleet.until_gone("web", "member-1")
    wait("to be gone", lambda: not fleet.hub.exists("-n", fleet.space, "wl", "web"))
    steady(fleet.stage, "gone", lambda: fleet.timeline.now("web").pods == 0)


# --- edits and restarts ---------------------------------------------------------------------------


ROLES = [("controller",), ("propagator",), ("controller", "propagator")]


@pytest.mark.long_group(KILLS)
@pytest.mark.proves("M21")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("roles", ROLES, ids="-".join)
def test_kills_at_any_moment_of_a_drain_change_nothing(
    fleet: MovingStage, roles: tuple[str, ...], seed: int
) -> None:
    drained_with_kills(fleet, random.Random(seed), [roles] * 3)


def drained_with_kills(
    fleet: MovingStage, chance: random.Random, kills: list[tuple[str, ...]]
) -> None:
    """Drain a member; kill the processes at writes of the status, and at moments between them."""
    fleet.web_at_home(8)
    fleet.taint("member-1", TAINT_DRAIN)
    for roles in kills:
        seen = len(fleet.timeline.statuses("web"))
        wait(
            "a write",
            lambda n=seen: settled(fleet) or len(fleet.timeline.statuses("web")) > n,
            every=0.01,
        )
        time.sleep(chance.random() * chance.choice((0.05, 0.5)))
        fleet.kill(*roles)
        fleet.run()
    fleet.until_placed("web", member_2=8)
    fleet.until_gone("web", "member-1")
    fleet.until_moving("web", "Settled")
    fleet.until_ready("web", 8)
    assert fleet.timeline.least_ready("web") == 8
    assert fleet.timeline.most_pods("web") <= 10


@pytest.mark.long_group(KILLS)
@pytest.mark.proves("M21")
def test_thirty_ends_of_a_leader_in_the_middle_of_drains_cost_no_ready_unit(
    fleet: MovingStage,
) -> None:
    """Who leads dies while a member is drained, and the standby goes on; undone in the middle."""
    config = f"--config={fleet.configuration}"
    fleet.stage.process("controller", "standby", None, config)
    try:
        fleet.web(6)
        chance = random.Random(30)
        for _ in range(30):
            member = chance.choice(MEMBERS)
            fleet.taint(member, TAINT_DRAIN)
            time.sleep(chance.uniform(0, 2))
            leader = wait("a leader", lambda: leading(fleet))
            process = fleet.stage.processes[leader]
            process.kill()
            process.start()
            nobody = {"spec": {"holderIdentity": ""}}
            patch = ("patch", "lease", "stowage-controller", "-p", json.dumps(nobody))
            fleet.hub("-n", "stowage-system", *patch)
            time.sleep(chance.uniform(0, 2))
            fleet.taint(member)
        fleet.until_moving("web", "Settled")
        fleet.until_ready("web", 6)
        assert sum(fleet.placed("web").values()) == 6
        assert fleet.timeline.least_ready("web") == 6
    finally:
        fleet.stage.processes.pop("standby").kill()


def leading(fleet: MovingStage) -> str:
    """Return the process that holds the Lease of the controllers; empty where none of them does."""
    lease = fleet.hub.get("lease", "stowage-controller", "stowage-system")
    holder = (lease["spec"].get("holderIdentity") or "").split("_")
    for name in ("controller", "standby"):
        running = fleet.stage.processes[name].running
        if running is not None and str(running.pid) in holder:
            return name
    return ""


def settled(fleet: MovingStage) -> bool:
    return fleet.placed("web") == {"member-2": 8} and fleet.moving("web").get("reason") == "Settled"


# --- blindness ------------------------------------------------------------------------------------


LENGTHS = [TOLERATION_SECONDS, pytest.param(10 * TOLERATION_SECONDS, marks=pytest.mark.long)]


@pytest.mark.proves("M34")
@pytest.mark.parametrize("seconds", LENGTHS)
def test_an_outage_of_the_hub_is_no_loss_of_members(fleet: MovingStage, seconds: int) -> None:
    fleet.web()
    fleet.lose("member-1")
    fleet.until_evacuating("member-1", "Tolerating")
    fleet.stage.signal("hub", "kill")
    time.sleep(seconds)
    fleet.thaw("member-1")
    fleet.stage.signal("hub", "restart")
    fleet.until_evacuating_nothing("member-1")
    time.sleep(TOLERATION_SECONDS)
    assert fleet.placed("web") == dict.fromkeys(MEMBERS, 2)
    assert fleet.timeline.placed("web") == [dict.fromkeys(MEMBERS, 2)]
