"""The plugin Reservation tells what it changed for an owner, what would help, and what is held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.explain.pending import remedies
from controller.explain.record import hooks
from machinery.api.resources import WORKLOADS
from tests.controller.features.reservation.reserving import inside
from tests.controller.features.reservation.test_controller import phase, put, reserved
from tests.controller.framework.test_services import ask
from tests.controller.live import configured
from tests.controller.make import REQUIRED
from tests.controller.memory import Stage

APART = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "stowage.dev/cluster"}
ANTI = {"workloadAntiAffinity": {REQUIRED: [APART]}}


@pytest.fixture
def stage() -> Stage:
    return Stage("a", cpu="4")


async def decision(controller: Any, name: str = "demo") -> Any:
    return await controller._scheduler.diagnosis(("shop", name))


async def get(controller: Any, path: str) -> tuple[int, Any]:
    return await ask(controller, f"/apis/v1/plugins/Reservation{path}")


@pytest.mark.proves("E27")
async def test_hooks_say_what_they_took_away_and_gave_back(stage: Stage, tmp_path: Path) -> None:
    async with stage.configured(configured(tmp_path)) as controller:
        stage.workload("db", replicas=0, labels={"app": "db"})
        await reserved(stage, replicas=2, requests={"cpu": "2"}, allocateOnce=False)
        controller.cache.stop()  # so that it is diagnosed and not decided
        stage.workload("demo", replicas=2, cpu="2", **ANTI)
        await stage.calm(0.5)
        found = await decision(controller)
        assert found.placements == {"a": 2}
        assert [(each["phase"], each["text"]) for each in hooks(found)] == [
            (
                "PreFilter",
                "took workloadAntiAffinity away: all 2 new replicas fit inside reservation room",
            ),
            ("Filter", "gave back 4 cpu on a"),
        ]


async def test_what_would_help_an_owner(stage: Stage, tmp_path: Path) -> None:
    async with stage.configured(configured(tmp_path)) as controller:
        put(stage, "small", requests={"cpu": "3"})
        put(stage, "nowhere", requests={"cpu": "64"})
        put(stage, "over", requests={"cpu": "1"}, expires="2020-01-01T00:00:00Z")
        await stage.until(lambda: phase(stage, "small") == "Available")
        await stage.until(lambda: phase(stage, "over") == "Failed")
        stage.workload("demo", replicas=1, cpu="5")
        await stage.until(lambda: stage.says("demo")[0] == "False")
        texts = [note.text for note in remedies(await decision(controller))]
        assert (
            "a larger Reservation small: what it has left on a is 2 cpu less than a replica asks for"
            in texts
        )
        assert "a cluster for its Reservation nowhere, which has none yet" in texts
        assert "another Reservation like over, which has ended" in texts


@pytest.mark.proves("E5", "E26")
async def test_endpoints_tell_what_is_held(stage: Stage, tmp_path: Path) -> None:
    async with stage.configured(configured(tmp_path)) as controller:
        await reserved(stage, replicas=2, requests={"cpu": "2"}, allocateOnce=False)
        stage.workload("demo", replicas=1, cpu="1")
        await stage.until(lambda: inside(stage.hub.read(WORKLOADS, "demo")))
        status, body = await get(controller, "/reservations/shop/room")
        assert status == 200
        assert body["phase"] == "Available"
        (there,) = body["clusters"]
        assert (there["name"], there["replicas"]) == ("a", 2)
        assert (there["reserved"]["cpu"], there["unused"]["cpu"]) == ("4", "3")
        assert there["allocated"]["cpu"] == "1"
        assert body["currentOwners"] == [
            {"namespace": "shop", "name": "demo", "clusters": {"a": 1}}
        ]
        assert (await get(controller, "/reservations"))[1]["reservations"] == [body]
        status, body = await get(controller, "/reservations/shop/none")
        assert (status, body) == (404, {"message": "cannot find reservation shop/none"})


@pytest.mark.proves("N4c")
@pytest.mark.parametrize(
    ("distribution", "cpu", "said"),
    [
        ("Single", "1", "Reservations hold 3 of 4 cpu that 4 replicas ask for"),
        ("Divided", "1", "Reservations hold 3 of 3 cpu that 3 replicas ask for"),
        ("Single", "2", ""),
    ],
)
async def test_a_refusal_says_how_much_reservations_hold(
    stage: Stage, tmp_path: Path, distribution: str, cpu: str, said: str
) -> None:
    async with stage.configured(configured(tmp_path)) as controller:
        await reserved(stage, requests={"cpu": "3"}, owners=[{"object": {"name": "another"}}])
        stage.workload("demo", replicas=4, cpu=cpu, distribution=distribution)
        await stage.until(lambda: stage.says("demo")[0] == "False")
        message = (await decision(controller)).message
        assert message.endswith(said) if said else "Reservations" not in message, message
