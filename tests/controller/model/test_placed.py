"""Objects of a placed kind among Workloads: writes that meet others, quotas, what others hear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller import catalogue
from controller.framework.runtime.feature import Feature, placed_kinds
from controller.http.server import cluster_view
from machinery.api.resources import WORKLOAD_POLICIES, WORKLOADS
from machinery.errors import ConfigurationError, Unreachable
from tests.controller.berths import BERTHS, Berths, berth
from tests.controller.live import condition
from tests.controller.make import policy_spec
from tests.controller.memory import Stage


def features() -> list[Feature]:
    return [*catalogue.features(), Berths()]


def said(stage: Stage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.hub.read(BERTHS, name).get("status", {})
    return found


def patches(stage: Stage, name: str) -> int:
    return len(stage.hub.writes(f"/berths/{name}/status"))


@pytest.mark.proves("L3")
async def test_a_conflict_costs_one_look_and_one_more_write() -> None:
    stage = Stage("a", cpu="4")
    release: list[Callable[[], None]] = []

    async def faster(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/north/status"):
            stage.hub.faults.remove(faster)
            release.append(stage.hub.hold(BERTHS))
            stage.hub.edit(BERTHS, "north", {"metadata": {"annotations": {"x": "y"}}})

    async with stage.leading(features=features()):
        stage.hub.faults.append(faster)
        stage.hub.put(BERTHS, berth("north"))
        await stage.until(lambda: said(stage, "north").get("quay") == "a")
        assert patches(stage, "north") == 2
        gets = [path for how, path, _ in stage.hub.requests if how == "GET"]
        assert gets.count(BERTHS.path("shop", "north")) == 1
        release[0]()
        await stage.calm(5)
        assert patches(stage, "north") == 2


@pytest.mark.proves("L3")
async def test_a_write_that_nobody_answers_holds_its_room_until_it_is_known() -> None:
    stage = Stage("a", cpu="4")

    async def lost(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/north/status"):
            raise Unreachable("no answer")

    async with stage.leading(features=features()) as controller:
        stage.hub.faults.append(lost)
        stage.hub.put(BERTHS, berth("north", cpu="4"))
        await stage.until(lambda: patches(stage, "north"))
        stage.workload("demo", replicas=1)
        await stage.until(lambda: stage.says("demo")[1] == "InsufficientCapacity")
        told = cluster_view(controller.cache, "a")
        assert told is not None
        assert told["shares"] == {"shop/berths/north": 1}
        stage.hub.faults.clear()
        await stage.until(lambda: said(stage, "north").get("quay") == "a", seconds=90)


async def test_its_units_count_for_a_policy_and_its_claim_is_answered() -> None:
    stage = Stage("a", **{"topology.kubernetes.io/zone": "z1"})
    meta = {"name": "demo", "namespace": "shop"}
    policy = {"metadata": meta, "spec": policy_spec(method="Fill", z1=2)}
    stage.hub.put(WORKLOAD_POLICIES, policy)
    bound = berth("north", replicas=3)
    bound["metadata"]["labels"] = {"stowage.dev/workload-policy": "demo"}
    async with stage.leading(features=features()):
        stage.hub.put(BERTHS, bound)
        await stage.until(lambda: said(stage, "north").get("assigned") == 2)
        claimed = [
            body["status"].get("claims")
            for _, _, body in stage.hub.writes("/workloadpolicies/demo/status")
        ]
        assert any(claimed), "it was asked for before it was written"

        def status() -> dict[str, Any]:
            found: dict[str, Any] = stage.hub.read(WORKLOAD_POLICIES, "demo")["status"]
            return found

        await stage.until(lambda: not status().get("claims"))
        assert status()["allocated"][0]["replicas"] == 2
        stage.hub.remove(BERTHS, "north")
        await stage.until(lambda: status()["allocated"][0]["replicas"] == 0)


async def test_its_feature_hears_of_it_before_it_is_decided_and_of_no_other() -> None:
    stage = Stage("a")
    berths = Berths()
    decided: list[bool] = []
    async with stage.leading(features=[*catalogue.features(), berths]) as controller:
        world = controller.cache
        before = berths.changed

        def noted(old: Any, new: Any) -> None:
            decided.append(world.info(("shop", "berths/north")) is not None)
            before(old, new)

        informer = controller.placed._placed["berths"]._informer
        informer._handlers[0] = noted
        stage.workload("north")
        await stage.until(lambda: stage.placed("north"))
        assert not decided, "a Workload of that name is another object"
        stage.hub.put(BERTHS, berth("north"))
        await stage.until(lambda: said(stage, "north").get("quay"))
        assert decided[0] is False
        stage.give_up("a")
        stage.cluster("b")
        await stage.until(lambda: said(stage, "north").get("quay") == "b")
        assert stage.hub.read(WORKLOADS, "north")["status"]["placements"]


def test_a_kind_is_placed_by_one_feature() -> None:
    with pytest.raises(ConfigurationError, match="berths are placed by two features"):
        placed_kinds([Berths(), Berths()])


@pytest.mark.parametrize(
    ("flaw", "why"),
    [
        ("mute", "its status cannot be put together: RuntimeError: nobody knows what to say"),
        ("forgetful", "the hub refuses its status: a Berth does not keep its placements"),
    ],
)
async def test_one_whose_status_does_not_keep_it_is_not_decided_for_ever(
    caplog: pytest.LogCaptureFixture, flaw: str, why: str
) -> None:
    stage = Stage("one", cpu="4")
    async with stage.leading(features=features()):
        stage.hub.put(BERTHS, berth("north", flaw=flaw))
        await stage.until(lambda: why in caplog.text)
        await stage.calm(20)
        before = caplog.text.count(why)
        stage.hub.put(BERTHS, berth("south"))
        await stage.until(lambda: said(stage, "south").get("quay") == "one")
        stage.workload("demo", replicas=3)
        await stage.until(lambda: stage.placed("demo") == {"one": 3}, seconds=5)
        if flaw == "forgetful":
            assert condition(said(stage, "north"), "Scheduled")["message"] == why
        await stage.calm(60)
        assert caplog.text.count(why) <= before + 1, "nothing wakes it but an edit"
