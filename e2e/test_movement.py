"""Workloads leave tainted and lost members, and come back: both processes, and real members.

What runs is read by watches of the test's own (`e2e.movement`); after each test the sums of every
state of every status are checked.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crds.names import TAINT_DRAIN
from e2e.harness import steady, wait, workload
from e2e.movement import DWELL_SECONDS, TOLERATION_SECONDS, MovingStage
from e2e.stage import MEMBERS

pytestmark = [pytest.mark.long_group("movement"), pytest.mark.stops_api_servers, pytest.mark.long]
KILLS = "movement-kills"
"""The group of the tests that kill processes: as long as all others here, and beside them."""
MAINTENANCE = "example.com/maintenance"
REGION = "topology.kubernetes.io/region"
EVEN = {"member_1": 2, "member_2": 2, "member_3": 2}
WITHOUT_FIRST = {"member_2": 3, "member_3": 3}


def tolerates(**more: Any) -> list[dict[str, Any]]:
    return [{"key": MAINTENANCE, "operator": "Exists", "effect": "NoExecute", **more}]


def affinity(operator: str, *members: str) -> dict[str, Any]:
    term = {"key": "stowage.dev/cluster", "operator": operator, "values": list(members)}
    terms = [{"matchExpressions": [term]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}


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


@pytest.mark.proves("M3", "M4")
def test_a_toleration_keeps_units_for_its_seconds_or_for_ever(fleet: MovingStage) -> None:
    fleet.run_workload("ever", 3, tolerations=tolerates())
    fleet.web(tolerations=tolerates(tolerationSeconds=5))
    fleet.taint("member-1", MAINTENANCE)
    time.sleep(3)
    fleet.taint("member-1")
    time.sleep(4)
    assert fleet.timeline.placed("web") == [dict.fromkeys(MEMBERS, 2)]
    decided = {json.dumps(status.get("decision")) for status in fleet.timeline.statuses("web")}
    assert len(decided) == 1, "nothing was decided"
    began = time.monotonic()
    fleet.taint("member-1", MAINTENANCE)
    fleet.until_placed("web", **WITHOUT_FIRST)
    assert time.monotonic() - began >= 5
    fleet.until_gone("web", "member-1")
    assert fleet.timeline.least_ready("web") == 6
    assert fleet.timeline.placed("ever") == [dict.fromkeys(MEMBERS, 1)]


# --- place first ----------------------------------------------------------------------------------


@pytest.mark.proves("M8", "M9", "M59")
def test_a_share_falls_stepwise_once_others_are_ready_and_never_before(fleet: MovingStage) -> None:
    fleet.web_at_home(4, movement={"maxSurge": 2})
    fleet.readiness.hold("member-2")
    fleet.edit("web", {"movement": {"rebalanceAfter": "2026-01-01T00:00:00Z"}})
    fleet.until_placed("web", member_1=2, member_2=2)
    message = fleet.until_moving("web", "NotReadyThere")
    assert "0 of 2 ready on member-2" in message
    steady(fleet.stage, "all of member-1", lambda: fleet.asked("member-1", "web") == 4)
    fleet.readiness.release("member-2")
    wait("the share to fall", lambda: fleet.asked("member-1", "web") == 2)
    fleet.until_moving("web", "Settled")
    fleet.until_ready("web", 4)
    assert fleet.timeline.least_ready("web") == 4
    assert fleet.timeline.most_pods("web") == 6
    assert fleet.status("web")["rebalanced"] == "2026-01-01T00:00:00Z"


@pytest.mark.proves("M12")
def test_a_unit_without_another_place_stays_and_goes_once_there_is_one(fleet: MovingStage) -> None:
    fleet.web_at_home(4)
    fleet.offer(member_2=2)
    fleet.taint("member-1", TAINT_DRAIN)
    fleet.until_placed("web", member_1=2, member_2=2)
    message = fleet.until_moving("web", "NoRoom")
    assert "2 of 4 units" in message
    assert "insufficient" in message.lower()
    steady(fleet.stage, "the rest", lambda: len(fleet.timeline.pods("member-1", "web")) == 2)
    assert fleet.evacuating("member-1") == ("True", "Draining")
    fleet.offer(member_3=2)
    fleet.until_placed("web", member_2=2, member_3=2)
    fleet.until_gone("web", "member-1")
    assert fleet.timeline.least_ready("web") == 4
    assert fleet.timeline.most_pods("web") <= 5


@pytest.mark.proves("M14")
def test_a_single_copy_is_placed_whole_and_the_old_one_goes_once_all_of_it_is_ready(
    fleet: MovingStage,
) -> None:
    fleet.web_at_home(4, distribution="Single", movement={"maxSurge": 1})
    fleet.readiness.hold("member-2")
    fleet.taint("member-1", TAINT_DRAIN)
    fleet.until_placed("web", member_2=4)
    assert fleet.leaving("web") == {"member-1": (4, "Drained")}
    wait("the new copy", lambda: len(fleet.timeline.pods("member-2", "web")) == 4)
    assert len(fleet.timeline.pods("member-1", "web")) == 4
    fleet.readiness.release("member-2")
    fleet.until_gone("web", "member-1")
    assert fleet.timeline.least_ready("web") == 4
    assert [
        (status["clusterRef"]["name"], next(iter(now)))
        for status in fleet.timeline.statuses("web")
        if (now := {p["cluster"] for p in status["placements"]}) != {status["clusterRef"]["name"]}
    ] == []


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


@pytest.mark.proves("M23")
def test_an_end_of_the_drain_in_the_middle_takes_the_rest_back(fleet: MovingStage) -> None:
    fleet.web_at_home(8)
    before = set(fleet.timeline.pods("member-1", "web"))
    fleet.readiness.hold("member-2")
    fleet.taint("member-1", TAINT_DRAIN)
    wait("two successors", lambda: len(fleet.timeline.pods("member-2", "web")) == 2)
    make_ready(fleet, "member-2", next(iter(fleet.timeline.pods("member-2", "web").values())))
    wait("one to leave", lambda: len(fleet.timeline.pods("member-1", "web")) == 7)
    fleet.taint("member-1")
    fleet.until_placed("web", member_1=7, member_2=1)
    fleet.until_moving("web", "Settled")
    fleet.until_ready("web", 8)
    assert fleet.causes("web")[-1] == "MoveCancelled"
    assert fleet.leaving("web") == {}
    assert fleet.timeline.least_ready("web") == 8
    assert set(fleet.timeline.pods("member-1", "web")) < before
    written = [each for each in fleet.timeline.placed("web") if each["member-1"] == 7]
    assert written[-1] == {"member-1": 7, "member-2": 1}, "in one write"


def make_ready(fleet: MovingStage, member: str, pod: dict[str, Any]) -> None:
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    fleet.stage.members[member](
        "-n", fleet.space, "patch", "pod", pod["metadata"]["name"], "--subresource=status",
        "-p", json.dumps({"status": {"conditions": ready}}),
    )  # fmt: skip


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


@pytest.mark.proves("M46")
def test_units_whose_successors_are_not_ready_are_their_members_again(fleet: MovingStage) -> None:
    fleet.web()
    before = set(fleet.timeline.pods("member-1", "web"))
    fleet.readiness.hold("member-2", "member-3")
    fleet.cut("member-1")
    fleet.until_placed("web", **WITHOUT_FIRST)
    wait("the successors", lambda: fleet.timeline.now("web").pods == 8)
    fleet.mend("member-1")
    fleet.until_placed("web", **EVEN)
    fleet.until_ready("web", 6)
    assert fleet.causes("web")[-1] == "MoveCancelled"
    assert set(fleet.timeline.pods("member-1", "web")) == before
    assert fleet.leaving("web") == {}


@pytest.mark.proves("M35", "M42")
def test_more_lost_members_than_the_brake_lets_move_nothing(fleet: MovingStage) -> None:
    fleet.web()
    before = len(fleet.events("FailoverBraked"))
    fleet.cut(*MEMBERS)
    for member in MEMBERS:
        fleet.until_evacuating(member, "Braked")
    time.sleep(TOLERATION_SECONDS)
    fleet.mend("member-3")
    fleet.until_moving("web", "Braked")
    wait("the numbers", lambda: "2 of 3 clusters are lost" in fleet.moving("web")["message"])
    assert fleet.timeline.placed("web") == [dict.fromkeys(MEMBERS, 2)]
    braked = fleet.events("FailoverBraked")[before:]
    assert sorted(braked) == sorted(MEMBERS), "one event for each"
    fleet.mend("member-2")
    # It dwells, so that all may go to the third.
    wait("member-1 to be left", lambda: "member-1" not in fleet.placed("web"))
    fleet.mend("member-1")
    fleet.until_placed("web", **EVEN)
    fleet.until_ready("web", 6)


@pytest.mark.proves("M43")
def test_two_lost_regions_move_nothing_and_one_whole_region_is_left(
    fleet: MovingStage, regions: None
) -> None:
    fleet.web()
    fleet.cut("member-1", "member-2")
    for member in ("member-1", "member-2"):
        fleet.until_evacuating(member, "Braked")
    time.sleep(TOLERATION_SECONDS)
    message = fleet.until_moving("web", "Braked")
    assert f"2 values of {REGION} (a, b), 1 at most" in message
    assert fleet.timeline.placed("web") == [dict.fromkeys(MEMBERS, 2)]
    fleet.mend("member-2")
    wait("member-1 to be left", lambda: "member-1" not in fleet.placed("web"))
    fleet.mend("member-1")
    fleet.until_placed("web", **EVEN)
    fleet.until_ready("web", 6)


@pytest.fixture
def regions(fleet: MovingStage) -> Iterator[None]:
    """Put each member into a region of its own, any number of which may be lost but for regions."""
    for member, region in zip(MEMBERS, "abc", strict=True):
        fleet.hub("label", "mc", member, f"{REGION}={region}")
    fleet.configure("brake: {maxLost: 100%}")
    yield
    fleet.configure()
    fleet.hub("label", "mc", *MEMBERS, f"{REGION}-")


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


@pytest.mark.proves("M40")
def test_a_member_that_is_taken_out_of_the_fleet_is_left_at_once(fleet: MovingStage) -> None:
    fleet.web()
    secret = fleet.stage.registration("member-1")
    fleet.stage.unregister("member-1")
    try:
        fleet.until_placed("web", **WITHOUT_FIRST)
        wait("six of them", lambda: ready_on(fleet, "member-2", "member-3") == 6)
    finally:
        fleet.stage.register(secret)
    fleet.until_gone("web", "member-1")
    time.sleep(DWELL_SECONDS)
    assert fleet.placed("web") == {"member-2": 3, "member-3": 3}


def ready_on(fleet: MovingStage, *members: str) -> int:
    pods = itertools.chain.from_iterable(fleet.timeline.pods(m, "web").values() for m in members)
    return sum(
        "True" in [c["status"] for c in p["status"]["conditions"] if c["type"] == "Ready"]
        for p in pods
    )


# --- edits and restarts ---------------------------------------------------------------------------


@pytest.mark.proves("M63")
def test_rules_that_exclude_the_present_member_place_first_and_those_of_none_move_nothing(
    fleet: MovingStage,
) -> None:
    fleet.web()
    fleet.edit("web", {"clusterAffinity": affinity("In", "member-2", "member-3")})
    fleet.until_placed("web", **WITHOUT_FIRST)
    fleet.until_gone("web", "member-1")
    fleet.edit("web", {"clusterAffinity": affinity("In", "menber-3")})
    message = fleet.until_moving("web", "NoRoom")
    assert "clusterAffinity" in message
    steady(fleet.stage, "all of it", lambda: fleet.timeline.now("web").ready == 6)
    assert fleet.placed("web") == {"member-2": 3, "member-3": 3}
    assert fleet.timeline.least_ready("web") == 6


@pytest.mark.proves("M62")
def test_a_restart_at_rest_writes_nothing(fleet: MovingStage) -> None:
    fleet.web()
    fleet.hub.apply(workload("still", fleet.space, replicas=2))
    fleet.stage.until_running(fleet.space, "still")
    fleet.taint("member-1", TAINT_DRAIN)
    fleet.until_gone("web", "member-1")
    fleet.until_moving("web", "Settled")
    wait("Drained", lambda: fleet.evacuating("member-1") == ("False", "Drained"))
    before: dict[str, Any] = {}
    while before != (before := written(fleet)):
        time.sleep(6)  # a slow hub gets reports after 5 s
    fleet.kill("controller", "propagator")
    fleet.run()
    for role in ("controller", "propagator"):
        wait(f"the {role}", lambda r=role: fleet.stage.metric(r, "process_") > 0)
    fleet.hub.apply(workload("later", fleet.space, replicas=1))
    fleet.stage.until_running(fleet.space, "later")
    fleet.stage.handled()
    assert written(fleet) == before


def written(fleet: MovingStage) -> dict[str, Any]:
    """Return what stands of two Workloads, and what is said of each member."""
    found = {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in fleet.hub.items("wl", fleet.space)
        if each["metadata"]["name"] != "later"
    }
    for each in fleet.hub.items("mc"):
        said = [c for c in each["status"]["conditions"] if c["type"] == "Evacuating"]
        found[each["metadata"]["name"]] = (each["status"].get("evacuation"), said)
    return found


ROLES = [("controller",), ("propagator",), ("controller", "propagator")]


@pytest.mark.proves("M21")
def test_a_kill_in_the_middle_of_a_drain_changes_nothing(fleet: MovingStage) -> None:
    drained_with_kills(fleet, random.Random(1), ROLES[2:])


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


@pytest.mark.proves("M33")
@pytest.mark.parametrize("seconds", LENGTHS)
def test_nothing_is_lost_while_no_propagator_looks(fleet: MovingStage, seconds: int) -> None:
    fleet.web()
    fleet.cut("member-1")
    fleet.until_evacuating("member-1", "Tolerating")
    fleet.kill("propagator")
    fleet.mend("member-1")
    fleet.until_evacuating("member-1", "Blind")
    time.sleep(seconds)
    fleet.run()
    wait("member-1 back", lambda: fleet.stage.ready("member-1")["status"] == "True")
    fleet.until_evacuating_nothing("member-1")
    time.sleep(TOLERATION_SECONDS)
    assert fleet.timeline.placed("web") == [dict.fromkeys(MEMBERS, 2)]


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


@pytest.mark.proves("M34")
def test_a_member_that_stays_lost_after_an_outage_of_the_hub_is_tolerated_anew(
    fleet: MovingStage,
) -> None:
    fleet.web()
    fleet.cut("member-1")
    fleet.until_evacuating("member-1", "Tolerating")
    fleet.stage.signal("hub", "kill")
    time.sleep(10 * TOLERATION_SECONDS)
    fleet.stage.signal("hub", "restart")
    began = time.monotonic()
    fleet.until_placed("web", timeout=120, **WITHOUT_FIRST)
    assert time.monotonic() - began >= TOLERATION_SECONDS
    fleet.mend("member-1")
    fleet.until_placed("web", **EVEN)
    fleet.until_ready("web", 6)
