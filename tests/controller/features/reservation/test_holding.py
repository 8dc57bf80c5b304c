"""`hold: Member`: the Workload whose pods keep the room, beside a whole controller in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from controller.eventhandlers import known
from controller.features.reservation.holding import Placeholders, label_of
from controller.features.reservation.ledger import ReservationLedger
from controller.framework.runtime.feature import Term
from controller.model.objects import Workload
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, WORKLOADS
from machinery.errors import Invalid, Unreachable
from machinery.runtime.store import Cache
from tests.controller.features.reservation.reserving import owner, ready, reservation
from tests.controller.live import placements
from tests.controller.memory import Stage

HOLD = "room-hold"
PORT = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080}]}


@pytest.fixture
def stage() -> Stage:
    return Stage("a", "b", cpu="4")


def put(stage: Stage, name: str = "room", *, template: Any = None, **how: Any) -> None:
    spec: dict[str, Any] = {"hold": "Member", "replicas": 2, "requests": {"cpu": "3"}, **how}
    body = reservation(name, **spec)
    if template is not None:
        body["spec"]["template"] = template
    stage.hub.put(RESERVATIONS, body)


def hold(stage: Stage, name: str = HOLD) -> dict[str, Any] | None:
    try:
        return stage.hub.read(WORKLOADS, name)
    except KeyError:
        return None


def holds(stage: Stage, **shares: int) -> Callable[[], bool]:
    def so() -> bool:
        found = hold(stage)
        return found is not None and placements(found) == shares

    return so


def writes(stage: Stage) -> list[str]:
    return [path for method, path, _ in stage.hub.requests if method != "GET" and HOLD in path]


async def test_pods_are_where_the_room_is_and_ask_for_what_a_unit_asks_for(stage: Stage) -> None:
    pod = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"x": 1}, "podAntiAffinity": {"y": 1}},
        "containers": [
            PORT | {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            {"name": "side", "resources": {"requests": {"cpu": "500m"}}},
        ],
    }
    async with stage.leading():
        put(stage, template={"spec": pod})
        await stage.until(holds(stage, a=1, b=1))
        await stage.calm(20)
        assert placements(stage.hub.read(WORKLOADS, HOLD)) == {"a": 1, "b": 1}
    found = stage.hub.read(WORKLOADS, HOLD)
    reserved = stage.hub.read(RESERVATIONS, "room")
    (reference,) = found["metadata"]["ownerReferences"]
    assert (reference["name"], reference["uid"]) == ("room", reserved["metadata"]["uid"])
    assert found["metadata"]["labels"] == {"stowage.dev/reservation": "room"}
    assert found["spec"]["schedulerName"] == "reservation.stowage.dev"
    spec = found["spec"]["targetDeployment"]["spec"]["template"]["spec"]
    assert spec["priorityClassName"] == "stowage-placeholder"
    assert spec["terminationGracePeriodSeconds"] == 0
    assert (spec["nodeSelector"], spec["tolerations"]) == (pod["nodeSelector"], pod["tolerations"])
    assert spec["affinity"] == {"nodeAffinity": {"x": 1}}
    (container,) = spec["containers"]
    assert container["resources"] == {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    assert container["ports"] == [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]
    assert ready(reserved["status"]) == ("True", "Available")


async def test_what_is_no_plain_resource_is_limited_too(stage: Stage) -> None:
    stage.cluster("c")
    free = {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/gpu": "1"}
    stage.hub.edit(
        MEMBER_CLUSTERS, "c", {"status": {"nodeGroups": [{"count": 1, "free": free}]}}, status=True
    )
    async with stage.leading():
        put(stage, replicas=1, requests={"example.com/gpu": "1"})
        await stage.until(holds(stage, c=1))
    body = stage.hub.read(WORKLOADS, HOLD)["spec"]["targetDeployment"]
    (container,) = body["spec"]["template"]["spec"]["containers"]
    gpu = {"example.com/gpu": "1"}
    assert container["resources"] == {"requests": gpu, "limits": gpu}


async def test_as_owners_come_pods_go_and_as_they_go_pods_come_back(stage: Stage) -> None:
    async with stage.leading():
        put(stage, allocateOnce=False)
        await stage.until(holds(stage, a=1, b=1))
        stage.workload("demo", replicas=1, cpu="3")
        await stage.until(lambda: stage.placed("demo"))
        (inside,) = stage.placed("demo")
        (other,) = {"a", "b"} - {inside}
        await stage.until(holds(stage, **{other: 1}))
        assert len(writes(stage)) == 2, "its first shares, and the others"
        stage.hub.remove(WORKLOADS, "demo")
        await stage.until(holds(stage, a=1, b=1))


async def test_one_that_serves_once_keeps_nothing_after_its_owner(stage: Stage) -> None:
    async with stage.leading():
        put(stage)
        await stage.until(holds(stage, a=1, b=1))
        stage.workload("demo", replicas=1, cpu="3")
        await stage.until(lambda: hold(stage) is None)
        await stage.calm(20)
        assert hold(stage) is None


async def test_it_goes_with_the_reservation_also_when_nobody_leads(stage: Stage) -> None:
    async with stage.leading():
        put(stage)
        put(stage, "other", requests={"cpu": "1"}, replicas=1)
        await stage.until(lambda: hold(stage) and hold(stage, "other-hold"))
        stage.hub.remove(RESERVATIONS, "other")
        await stage.until(lambda: hold(stage, "other-hold") is None)
    stage.hub.remove(RESERVATIONS, "room")
    async with stage.leading(identity="two"):
        await stage.until(lambda: hold(stage) is None)


async def test_it_goes_where_pods_shall_keep_the_room_no_more(stage: Stage) -> None:
    async with stage.leading():
        put(stage)
        await stage.until(lambda: hold(stage))
        stage.hub.edit(RESERVATIONS, "room", {"spec": {"hold": "Books"}})
        await stage.until(lambda: hold(stage) is None)


async def test_one_that_only_holds_books_has_none(stage: Stage) -> None:
    async with stage.leading():
        put(stage, hold="Books")
        await stage.until(lambda: stage.hub.read(RESERVATIONS, "room").get("status"))
        await stage.calm(10)
    assert hold(stage) is None


async def test_a_restart_writes_nothing(stage: Stage) -> None:
    async with stage.leading():
        put(stage)
        await stage.until(holds(stage, a=1, b=1))
        await stage.calm(20)
    before = stage.hub.read(WORKLOADS, HOLD)["metadata"]["resourceVersion"]
    done = len(stage.hub.requests)
    async with stage.leading(identity="two"):
        await stage.calm(20)
    assert stage.hub.read(WORKLOADS, HOLD)["metadata"]["resourceVersion"] == before
    assert not [p for m, p, _ in stage.hub.requests[done:] if m != "GET" and "workloads" in p]


async def test_a_workload_of_that_name_is_never_touched(stage: Stage) -> None:
    stage.workload(HOLD, replicas=1, cpu="100m")
    async with stage.leading():
        await stage.until(lambda: stage.placed(HOLD))
        before = stage.hub.read(WORKLOADS, HOLD)
        put(stage)

        def says() -> bool:
            status = stage.hub.read(RESERVATIONS, "room").get("status", {})
            return bool(status.get("conditions")) and ready(status) == ("False", "NotHeld")

        await stage.until(says)
        assert stage.hub.read(WORKLOADS, HOLD) == before
        (event,) = stage.hub.events("NotHeld")
        assert event["note"] == "no pods keep it: the Workload room-hold is somebody else's"
        stage.hub.remove(WORKLOADS, HOLD)
        await stage.until(holds(stage, a=1, b=1))
        await stage.until(lambda: not says())
    assert ready(stage.hub.read(RESERVATIONS, "room")["status"]) == ("True", "Available")


@pytest.mark.parametrize("change", ["scheduler", "label", "kind", "loose"])
async def test_who_claims_to_be_one_is_none(stage: Stage, change: str) -> None:
    put(stage)
    uid = stage.hub.read(RESERVATIONS, "room")["metadata"]["uid"]
    body = {
        "metadata": {
            "name": HOLD,
            "namespace": "shop",
            "labels": {} if change == "label" else {"stowage.dev/reservation": "room"},
            "ownerReferences": [
                {
                    "apiVersion": "stowage.dev/v1alpha1",
                    "kind": "Secret" if change == "kind" else "Reservation",
                    "name": "room",
                    "uid": uid,
                    "controller": change != "loose",
                }
            ],
        },
        "spec": {
            "schedulerName": "mine" if change == "scheduler" else "reservation.stowage.dev",
            "replicas": 1,
        },
    }
    stage.hub.put(WORKLOADS, body)
    async with stage.leading():
        await stage.until(lambda: stage.hub.events("NotHeld"))
        await stage.calm(5)
    assert "placements" not in stage.hub.read(WORKLOADS, HOLD).get("status", {})
    assert not writes(stage)


async def test_one_made_anew_under_the_same_name_gets_its_own(stage: Stage) -> None:
    async with stage.leading():
        put(stage)
        await stage.until(holds(stage, a=1, b=1))
    first = stage.hub.read(WORKLOADS, HOLD)["metadata"]["uid"]
    stage.hub.remove(RESERVATIONS, "room")
    put(stage, requests={"cpu": "1"}, replicas=1)
    async with stage.leading(identity="two"):
        await stage.until(lambda: (found := hold(stage)) and found["metadata"]["uid"] != first)
        await stage.until(lambda: sum(placements(stage.hub.read(WORKLOADS, HOLD)).values()) == 1)
    body = stage.hub.read(WORKLOADS, HOLD)["spec"]["targetDeployment"]["spec"]["template"]
    assert body["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


async def test_nothing_is_kept_where_members_take_nothing(stage: Stage) -> None:
    async with stage.leading():
        put(stage, namespace="stowage-system", owners=[owner(namespace="shop")])

        def says() -> bool:
            found = stage.hub.read(RESERVATIONS, "room", "stowage-system").get("status", {})
            return bool(found.get("conditions")) and ready(found) == ("False", "NotHeld")

        await stage.until(says)
    assert not stage.hub.all(WORKLOADS)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_doubles_nothing(stage: Stage, when: str) -> None:
    lost: list[str] = []

    async def loses(method: str, path: str, _body: Any) -> None:
        about = path.endswith("/workloads") or HOLD in path
        if method != "GET" and about and lost.count(f"{method} {path}") < 2:
            lost.append(f"{method} {path}")
            raise Unreachable("the answer is lost")

    (stage.hub.faults if when == "before" else stage.hub.after).append(loses)
    async with stage.leading():
        put(stage)
        await stage.until(holds(stage, a=1, b=1), seconds=120)
        await stage.calm(30)
    assert len({each.split()[0] for each in lost}) == 2, "both writes were lost"
    assert [w["metadata"]["name"] for w in stage.hub.all(WORKLOADS)] == [HOLD]
    assert placements(stage.hub.read(WORKLOADS, HOLD)) == {"a": 1, "b": 1}


async def test_a_hub_that_refuses_it_is_quoted(stage: Stage) -> None:
    async def refuses(method: str, path: str, _body: Any) -> None:
        if method == "POST" and path.endswith("/workloads"):
            raise Invalid(code=422, reason="Invalid", message="a quota of yours")

    stage.hub.faults.append(refuses)
    async with stage.leading():
        put(stage)
        await stage.until(lambda: stage.hub.events("NotHeld"))
        (event,) = stage.hub.events("NotHeld")
        assert "the hub refuses the Workload room-hold: " in event["note"]
        assert "a quota of yours" in event["note"]
        stage.hub.faults.clear()
        await stage.until(holds(stage, a=1, b=1), seconds=120)


async def test_a_view_that_lacks_the_reservation_costs_nobody_his_room(stage: Stage) -> None:
    async with stage.leading():
        put(stage)
        await stage.until(holds(stage, a=1, b=1))
    held = msgspec.convert(stage.hub.read(WORKLOADS, HOLD), Workload)
    views: dict[Any, Any] = {RESERVATIONS: Cache(), WORKLOADS: Cache()}
    views[WORKLOADS].observe(known(held))
    nobody = cast("Any", None)
    hub = cast("Any", stage.hub)
    term = Term(hub, stage.clock, lambda: None, views.__getitem__, nobody)
    blind = Placeholders(term, ReservationLedger())
    await blind.sync(("shop", "room"))
    assert hold(stage) is not None
    stage.hub.remove(RESERVATIONS, "room")
    await blind.sync(("shop", "room"))
    assert hold(stage) is None


def test_long_names_stay_apart_as_labels() -> None:
    one, other = ("r" * 80 + end for end in "xy")
    assert label_of("room") == "room"
    assert len(label_of(one)) == 63
    assert label_of(one) != label_of(other)


@pytest.mark.proves("E28")
async def test_a_port_that_is_reserved_is_the_owners_alone() -> None:
    stage = Stage("a", cpu="8")
    pods = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [PORT]}}

    def ported(name: str) -> None:
        template = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": pods}}
        stage.workload(name, replicas=1, targetDeployment=None, template=template)

    async with stage.leading():
        put(stage, hold="Books", replicas=1, template={"spec": pods["spec"]})
        await stage.until(
            lambda: (
                stage.hub.read(RESERVATIONS, "room").get("status", {}).get("phase") == "Available"
            )
        )
        ported("stranger")
        await stage.until(lambda: stage.says("stranger")[0] == "False")
        assert "no free host port 8080/TCP" in stage.says("stranger")[2]
        ported("demo")
        await stage.until(lambda: stage.placed("demo") == {"a": 1})
        await stage.calm(10)
        assert stage.placed("stranger") == {}
        stage.hub.remove(WORKLOADS, "demo")
        await stage.until(lambda: stage.placed("stranger") == {"a": 1})
