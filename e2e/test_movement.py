"""Workloads leave tainted and lost members, and come back: both processes, and real members.

What runs is read by watches of the test's own (`e2e.movement`); after each test the sums of every
state of every status are checked.
"""

from __future__ import annotations

import random
import time

import pytest

from crds.names import TAINT_DRAIN
from e2e.harness import wait
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


# --- edits and restarts ---------------------------------------------------------------------------


ROLES = [("controller",), ("propagator",), ("controller", "propagator")]


@pytest.mark.long_group(KILLS)
@pytest.mark.proves("M21")
@pytest.mark.parametrize("roles", ROLES, ids="-".join)
def test_kills_at_any_moment_of_a_drain_change_nothing(
    fleet: MovingStage, roles: tuple[str, ...]
) -> None:
    """Drain a member; kill the processes at writes of the status, and at moments between them."""
    chance = random.Random(0)
    fleet.web_at_home(8)
    fleet.taint("member-1", TAINT_DRAIN)
    for _ in range(3):
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


def settled(fleet: MovingStage) -> bool:
    return fleet.placed("web") == {"member-2": 8} and fleet.moving("web").get("reason") == "Settled"
