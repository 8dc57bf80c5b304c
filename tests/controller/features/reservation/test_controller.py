"""Reservations with a whole controller on a hub in memory: time, bursts, faults, very many of them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.http.server import cluster_view
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, WORKLOADS
from machinery.errors import Unreachable
from tests.controller.features.reservation.reserving import inside, owner, pods, ready, reservation
from tests.controller.features.workloadquota.quota import LABEL, arranged
from tests.controller.live import condition, deployment, placements
from tests.controller.make import REQUIRED, beside
from tests.controller.memory import Stage

TEAM = [{"labelSelector": {"matchLabels": {"team": "x"}}}]


@pytest.fixture
def stage() -> Stage:
    return Stage("a", cpu="4")


def put(stage: Stage, name: str = "room", *, created: str = "", **how: Any) -> None:
    body = reservation(name, **how)
    if created:
        body["metadata"]["creationTimestamp"] = created
    stage.hub.put(RESERVATIONS, body)


def status(stage: Stage, name: str = "room") -> dict[str, Any]:
    found: dict[str, Any] = stage.hub.read(RESERVATIONS, name).get("status", {})
    return found


def phase(stage: Stage, name: str = "room") -> str:
    return str(status(stage, name).get("phase", ""))


async def reserved(stage: Stage, **how: Any) -> None:
    """A Reservation that holds its room."""
    put(stage, **how)
    await stage.until(lambda: phase(stage) == "Available")


def within(stage: Stage, name: str = "demo") -> int:
    return sum(inside(stage.hub.read(WORKLOADS, name)).values())


def told(stage: Stage) -> list[int]:
    """Units of each owner inside, as the reservation tells."""
    return [each["replicas"] for each in status(stage).get("currentOwners", [])]


@pytest.mark.proves("E29")
async def test_what_expires_while_nobody_leads_ends_at_the_next_start(stage: Stage) -> None:
    async with stage.leading():
        await reserved(stage, ttl="60s")
        stage.workload("stranger", replicas=1)
        await stage.until(lambda: stage.says("stranger")[0] == "False")
    await stage.clock.advance(90)
    async with stage.leading(identity="two"):
        await stage.until(lambda: phase(stage) == "Failed", seconds=2)
        await stage.until(lambda: stage.placed("stranger") == {"a": 1}, seconds=10)
        assert ready(status(stage)) == ("False", "Expired")
        await stage.calm(30)
        assert phase(stage) == "Failed"
    assert len(stage.hub.events("Expired")) == 1


async def test_a_burst_of_owners_costs_few_writes(stage: Stage) -> None:
    stage.cluster("big", cpu="100")
    async with stage.leading():
        put(
            stage,
            replicas=50,
            requests={"cpu": "1"},
            allocateOnce=False,
            owners=TEAM,
            targetCluster={"name": "big"},
        )
        await stage.until(lambda: phase(stage) == "Available")
        await stage.calm(2)
        before = len(stage.hub.writes("/reservations/"))
        for n in range(50):
            stage.workload(f"w{n}", replicas=1, labels={"team": "x"})
        await stage.until(lambda: status(stage).get("owners") == 50)
        await stage.calm(5)
        assert len(stage.hub.writes("/reservations/")) - before <= 4
        assert status(stage)["allocated"] == {"cpu": "50"}
        assert len(stage.hub.events("Allocated")) == 1


@pytest.mark.parametrize("answered", [False, True])
async def test_a_leader_that_dies_at_the_write_leaves_nothing_doubled(
    stage: Stage, answered: bool
) -> None:
    """It dies before the write or after it; who follows finds the room used once, or not at all."""
    dead = False

    async def dies(method: str, path: str, _body: Any) -> None:
        nonlocal dead
        if method == "PATCH" and path.endswith("/workloads/demo/status"):
            dead = True
        if dead and method in ("PATCH", "POST", "PUT"):
            raise Unreachable("the process is gone")

    (stage.hub.after if answered else stage.hub.faults).append(dies)
    async with stage.leading():
        await reserved(stage, replicas=4, requests={"cpu": "1"}, allocateOnce=False, owners=TEAM)
        stage.workload("demo", replicas=3, labels={"team": "x"})
        await stage.until(lambda: dead)
    stage.hub.faults.clear()
    stage.hub.after.clear()
    assert within(stage) == (3 if answered else 0)
    async with stage.leading(identity="two"):
        stage.workload("late", replicas=3, labels={"team": "x"})
        await stage.until(lambda: status(stage).get("owners") == 1, seconds=60)
        await stage.until(lambda: within(stage) == 3 or within(stage, "late") == 3)
        stage.workload("stranger", replicas=1)
        await stage.until(lambda: stage.says("stranger")[0] == "False")
        await stage.calm(5)
        assert within(stage) + within(stage, "late") == 3
        assert status(stage)["allocated"]["cpu"] == "3"


@pytest.mark.proves("E26", "E28")
async def test_an_owner_on_a_decision_that_was_lost_is_inside_as_far_as_the_next_one_goes(
    stage: Stage,
) -> None:
    """The leader dies after the owner's write and before that of the reservation."""
    dead = False

    async def dies(method: str, path: str, _body: Any) -> None:
        nonlocal dead
        if method == "PATCH" and path.endswith("/reservations/room/status"):
            raise Unreachable("the hub is away for this one")
        if dead and method in ("PATCH", "POST", "PUT"):
            raise Unreachable("the process is gone")

    async def landed(method: str, path: str, _body: Any) -> None:
        nonlocal dead
        dead = dead or (method == "PATCH" and path.endswith("/workloads/demo/status"))

    stage.hub.faults.append(dies)
    stage.hub.after.append(landed)
    async with stage.leading():
        put(
            stage,
            created="2025-12-31T23:00:00Z",  # whoever follows decides it first, too
            replicas=3,
            requests={"cpu": "1"},
            allocateOnce=False,
        )
        await stage.calm(1)
        stage.workload("demo", replicas=3)
        await stage.until(lambda: dead)
    stage.hub.faults.clear()
    stage.hub.after.clear()
    assert (within(stage), phase(stage)) == (3, ""), "the owner stands on what is not stored"
    stage.cluster("b", cpu="2")
    async with stage.leading(identity="two"):
        await stage.until(lambda: told(stage) == [1])
        assert placements(stage.hub.read(RESERVATIONS, "room")) == {"a": 1, "b": 2}
        await stage.until(lambda: within(stage) == 1)
        await stage.until(lambda: told(stage) == [1])
        assert stage.placed("demo") == {"a": 3}
        await stage.calm(5)
        assert within(stage) == 1


@pytest.mark.proves("E26")
async def test_who_says_to_be_inside_beyond_what_is_held_is_corrected(stage: Stage) -> None:
    """A late write of who led before, after the reservation's own."""
    async with stage.leading():
        await reserved(stage, replicas=1, requests={"cpu": "1"}, allocateOnce=False)
        stage.workload("demo", replicas=2)
        await stage.until(lambda: within(stage) == 1)
        late = stage.hub.read(WORKLOADS, "demo")["status"]["reservations"]
        late[0]["replicas"] = 2
        stage.hub.edit(WORKLOADS, "demo", {"status": {"reservations": late}}, status=True)
        assert within(stage) == 2
        await stage.until(lambda: within(stage) == 1)
        await stage.until(lambda: told(stage) == [1])
        writes = len(stage.hub.writes("/workloads/"))
        await stage.calm(5)
        assert len(stage.hub.writes("/workloads/")) == writes


@pytest.mark.proves("E28")
async def test_an_owner_that_cannot_be_read_any_more_stays_inside() -> None:
    stage = Stage("a", cpu="16")
    async with stage.leading():
        await reserved(stage, allocateOnce=False, owners=[owner(), owner("other")])
        stage.workload("demo", replicas=1, cpu="4")
        await stage.until(lambda: within(stage) == 1)
        wrong = deployment("demo", cpu="4x")
        stage.hub.edit(WORKLOADS, "demo", {"spec": {"targetDeployment": wrong}})
        await stage.until(lambda: stage.says("demo")[1] == "InvalidWorkload")
        stage.workload("other", replicas=1, cpu="4")
        await stage.until(lambda: stage.placed("other"))
        await stage.calm(5)
        assert (within(stage), within(stage, "other")) == (1, 0)
        assert told(stage) == [1]


async def test_room_of_one_that_ends_is_free_once(stage: Stage) -> None:
    async with stage.leading() as controller:
        await reserved(stage, replicas=4, requests={"cpu": "1"})
        stage.workload("demo", replicas=1)
        await stage.until(lambda: phase(stage) == "Succeeded")
        stage.hub.remove(RESERVATIONS, "room")
        await stage.until(lambda: not within(stage))
        assert cluster_view(controller.cache, "a")["remaining"]["cpu"] == "3"
        stage.hub.remove(WORKLOADS, "demo")
        await stage.calm(1)
        assert cluster_view(controller.cache, "a")["remaining"]["cpu"] == "4"
        await reserved(stage)
        assert cluster_view(controller.cache, "a")["remaining"]["cpu"] == "0"


async def test_one_that_is_made_anew_knows_nothing_of_the_old_one(stage: Stage) -> None:
    async with stage.leading():
        await reserved(stage, replicas=2, requests={"cpu": "1"}, allocateOnce=False, owners=TEAM)
        stage.workload("demo", replicas=2, labels={"team": "x"})
        await stage.until(lambda: within(stage) == 2)
        stage.hub.remove(RESERVATIONS, "room")
        await reserved(stage, replicas=2, requests={"cpu": "1"}, allocateOnce=False, owners=TEAM)
        await stage.until(lambda: not within(stage))
        assert status(stage)["owners"] == 0
        assert stage.placed("demo") == {"a": 2}


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "many"}}}]}}},
        {"owners": []},
    ],
)
async def test_one_that_makes_no_sense_holds_nothing_and_says_why(stage: Stage, spec: Any) -> None:
    body = reservation("odd")
    stage.hub.put(RESERVATIONS, {**body, "spec": body["spec"] | spec})
    async with stage.leading():
        await stage.until(lambda: phase(stage, "odd") == "Pending")
        scheduled = condition(status(stage, "odd"), "Scheduled")
        assert scheduled["reason"] == "InvalidWorkload"
        assert f"spec.{next(iter(spec))}" in scheduled["message"]
        assert not placements({"status": status(stage, "odd")})
        await reserved(stage, requests={"cpu": "4"})
        stage.workload("demo", replicas=1, cpu="4")
        await stage.until(lambda: within(stage) == 1)


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 2**31 - 1},
        {"replicas": 2**31 - 1, "requests": {"memory": "9Ei"}},
        {"requests": {"cpu": "1000000000"}},
    ],
)
async def test_one_that_asks_for_very_much_gets_what_there_is(stage: Stage, spec: Any) -> None:
    async with stage.leading():
        put(stage, "huge", **{"requests": {"cpu": "1"}, **spec})
        await stage.until(lambda: phase(stage, "huge"))
        fits = "requests" not in spec
        assert placements({"status": status(stage, "huge")}) == ({"a": 4} if fits else {})
        stage.workload("stranger", replicas=1)
        await stage.until(lambda: stage.says("stranger")[0] == ("False" if fits else "True"))
        stage.hub.remove(RESERVATIONS, "huge")
        await stage.until(lambda: stage.placed("stranger") == {"a": 1})


@pytest.mark.proves("N13")
async def test_nothing_ends_for_good_while_the_clocks_differ(stage: Stage) -> None:
    async with stage.leading():
        await reserved(stage, ttl="60s")
        stage.set_clock(3600)
        await stage.until(lambda: ready(status(stage))[1] == "ClocksDiffer", seconds=90)
        assert phase(stage) == "Available"
        assert placements({"status": status(stage)}) == {"a": 1}
        (event,) = stage.hub.events("ClocksDiffer")
        assert "the controller's clock is more than 30 s ahead of the hub's" in event["note"]
        stage.set_clock(0)
        await stage.until(lambda: phase(stage) == "Failed", seconds=60)
        assert ready(status(stage)) == ("False", "Expired")


@pytest.mark.proves("E26")
async def test_a_cluster_that_is_used_up_by_others_is_told(stage: Stage) -> None:
    async with stage.leading():
        await reserved(stage)
        free(stage, "1")
        await stage.until(lambda: ready(status(stage)) == ("False", "Short"))
        (event,) = stage.hub.events("Short")
        assert event["note"] == "a has 1 cpu free where 4 is held"
        free(stage, "4")
        await stage.until(lambda: ready(status(stage)) == ("True", "Available"))


def free(stage: Stage, cpu: str) -> None:
    room = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    body = {"nodeGroups": [{"count": 1, "free": room}], "capacity": {"allocatable": room}}
    stage.hub.edit(MEMBER_CLUSTERS, "a", {"status": body}, status=True)


async def test_who_waits_is_looked_at_when_a_reservation_comes(stage: Stage) -> None:
    async with stage.leading():
        stage.workload("db", replicas=1)
        await stage.until(lambda: stage.placed("db"))
        apart = {"workloadAntiAffinity": {REQUIRED: [beside("db")]}}
        stage.workload("demo", replicas=1, **apart)
        await stage.until(lambda: stage.says("demo")[1] == "FailedToSchedule")
        await reserved(stage, requests={"cpu": "1"}, owners=[owner("other")])
        stage.hub.edit(RESERVATIONS, "room", {"spec": {"owners": [owner()]}})
        await stage.until(lambda: within(stage) == 1)


async def test_a_policy_counts_what_is_reserved() -> None:
    stage = arranged(host=3)
    bound = {LABEL: "demo"}
    async with stage.leading():
        put(stage, replicas=5, template={**pods(cpu="1"), "metadata": {"labels": bound}})
        await stage.until(lambda: status(stage).get("assigned") == 3)
        assert phase(stage) == "Available"
        assert condition(status(stage), "Scheduled")["reason"] == "ReplicasReached"


@pytest.mark.proves("E26", "N3")
async def test_an_owner_is_inside_by_the_present_name_of_its_cluster() -> None:
    """A scheduler of another name, which rewrites the owner's shares, is down."""
    stage = Stage("a", cpu="16")
    async with stage.leading():
        await reserved(stage, allocateOnce=False)
        stage.workload("demo", replicas=1, cpu="4")
        await stage.until(lambda: told(stage) == [1])
        stage.hub.edit(WORKLOADS, "demo", {"spec": {"schedulerName": "another"}})
        stage.cluster("new", cpu="16")
        stage.hub.edit(MEMBER_CLUSTERS, "new", {"spec": {"formerNames": ["a"]}})
        await stage.calm(3)
        stage.hub.remove(MEMBER_CLUSTERS, "a")
        await stage.until(lambda: placements(stage.hub.read(RESERVATIONS, "room")) == {"new": 1})
        await stage.calm(5)
        assert stage.placed("demo") == {"a": 1}
        assert (told(stage), status(stage)["allocated"]) == ([1], {"cpu": "4"})
