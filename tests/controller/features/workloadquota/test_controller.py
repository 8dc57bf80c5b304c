"""WorkloadQuotas on a hub in memory: who waits, who is woken, and schedulers of two names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.features.workloadquota.plugin import WorkloadQuotaPlugin
from machinery.api.resources import RESERVATIONS, WORKLOAD_QUOTAS, WORKLOAD_SPREADS, WORKLOADS
from tests.controller.features.reservation.reserving import owner, reservation
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.features.workloadquota.quota import both, most_in, units
from tests.controller.features.workloadquota.quotas import body
from tests.controller.features.workloadspread.spreading import spread
from tests.controller.live import condition, deployment
from tests.controller.memory import Stage

pytestmark = pytest.mark.proves("N4")

EXCEEDED = "QuotaExceeded"


def arranged(**hard: Any) -> Stage:
    """A roomy cluster, and a quota of the namespace."""
    stage = Stage("a", cpu="64")
    stage.hub.put(WORKLOAD_QUOTAS, body(**hard))
    return stage


def status(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = stage.hub.read(WORKLOAD_QUOTAS, "team").get("status", {})
    return found


def waits(stage: Stage, name: str) -> bool:
    return stage.says(name)[1] == EXCEEDED


async def test_freed_quota_is_given_at_once_and_the_status_tells_what_is_used() -> None:
    stage = arranged(units=4, cpu=100)
    async with stage.leading():
        stage.workload("first", replicas=3)
        await stage.until(lambda: stage.placed("first"))
        stage.workload("next", replicas=3)
        await stage.until(lambda: waits(stage, "next"))
        assert stage.says("next")[2] == (
            "1/1 clusters: WorkloadQuota team: units 3 of 4 used, 3 replicas ask for 3"
        )
        assert stage.hub.read(WORKLOADS, "next")["status"]["state"] == "Pending"
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": 1}})
        await stage.until(lambda: stage.placed("next") == {"a": 3}, seconds=1)
        stage.workload("third", replicas=2)
        await stage.until(lambda: waits(stage, "third"))
        stage.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": "6"}}})
        await stage.until(lambda: stage.placed("third") == {"a": 2}, seconds=1)
        stage.workload("fourth", replicas=1)
        await stage.until(lambda: waits(stage, "fourth"))
        stage.hub.remove(WORKLOADS, "next")
        await stage.until(lambda: stage.placed("fourth") == {"a": 1}, seconds=1)
        await stage.until(lambda: status(stage).get("used") == {"units": "4", "requests.cpu": "4"})
        found = status(stage)
        assert found["hard"] == {"units": "6", "requests.cpu": "100"}
        assert found["observedGeneration"] == 2
        assert [(c["type"], c["status"], c["reason"]) for c in found["conditions"]] == [
            ("Ready", "True", "Valid")
        ]
        stage.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": "1"}}})
        await stage.until(lambda: status(stage).get("hard", {}).get("units") == "1")
        await stage.calm(3)
        assert units(stage) == 4, "nothing placed is taken away"
        stage.hub.remove(WORKLOAD_QUOTAS, "team")
        stage.workload("fifth", replicas=9)
        await stage.until(lambda: stage.placed("fifth") == {"a": 9})


async def test_what_runs_of_a_workload_that_cannot_be_read_any_more_frees_nothing() -> None:
    stage = arranged(units=100, cpu=4)
    async with stage.leading():
        stage.workload("first", replicas=4)
        await stage.until(lambda: stage.placed("first"))
        wrong = deployment("first", cpu="1x")
        stage.hub.edit(WORKLOADS, "first", {"spec": {"targetDeployment": wrong}})
        await stage.until(lambda: stage.says("first")[1] == "InvalidWorkload")
        assert stage.placed("first") == {"a": 4}, "it runs on as it is"
        stage.workload("next", replicas=1)
        await stage.until(lambda: waits(stage, "next"))
    async with stage.leading(identity="two"):
        stage.workload("third", replicas=1)
        await stage.until(lambda: waits(stage, "third"))
        assert stage.says("third")[2].endswith(
            "WorkloadQuota team: requests.cpu 0 of 4 used, a replica asks for 1, and what replicas "
            "of Workload first ask for cannot be read"
        )
        right = deployment("first", cpu="500m")
        stage.hub.edit(WORKLOADS, "first", {"spec": {"targetDeployment": right}})
        await stage.until(lambda: stage.placed("next") and stage.placed("third"), seconds=1)


async def test_the_patch_of_a_spread_counts_for_what_is_placed_already() -> None:
    stage = arranged(units=100, cpu=10)
    async with stage.leading():
        stage.workload("first", replicas=4)
        await stage.until(lambda: stage.placed("first"))
        requests = {"resources": {"requests": {"cpu": "2"}}}
        patch = {"spec": {"containers": [{"name": "main", **requests}]}}
        spread(stage, {"name": "all", "patch": patch}, target="first")
        await stage.until(lambda: stage.hub.read(WORKLOADS, "first")["status"].get("overrides"))
        await stage.until(lambda: status(stage).get("used", {}).get("requests.cpu") == "8")
        stage.workload("next", replicas=3)
        await stage.until(lambda: waits(stage, "next"))
        stage.hub.remove(WORKLOAD_SPREADS, "ws")
        await stage.until(lambda: stage.placed("next") == {"a": 3})


async def test_a_quota_that_is_deleted_holds_nobody() -> None:
    stage = arranged(units=0)
    async with stage.leading():
        stage.workload("demo", replicas=2)
        await stage.until(lambda: waits(stage, "demo"))
        stage.hub.remove(WORKLOAD_QUOTAS, "team")
        await stage.until(lambda: stage.placed("demo") == {"a": 2}, seconds=1)


async def test_a_new_leader_goes_on_where_the_last_one_was() -> None:
    stage = arranged(units=3)
    async with stage.leading():
        stage.workload("first", replicas=2)
        stage.workload("next", replicas=2)
        await stage.until(lambda: waits(stage, "first") or waits(stage, "next"))
    async with stage.leading(identity="two"):
        await stage.calm(3)
        assert units(stage) == 2


async def test_a_reservation_holds_no_more_than_its_namespace_may_take() -> None:
    stage = arranged(cpu=4, reservations=1)
    async with stage.leading():
        told = reservation(requests={"cpu": "10m"}, replicas=2_000_000_000, allocateOnce=False)
        stage.hub.put(RESERVATIONS, told | {"spec": told["spec"] | {"ttl": "0"}})

        def held() -> dict[str, Any]:
            found: dict[str, Any] = stage.hub.read(RESERVATIONS, "room").get("status", {})
            return found

        await stage.until(lambda: held().get("assigned"))
        assert held()["assigned"] <= 400
        said = condition(held(), "Scheduled")
        assert (said["reason"], held()["phase"]) == (EXCEEDED, "Available")
        stage.hub.put(RESERVATIONS, reservation("second", owners=[owner("other")]))
        await stage.until(
            lambda: "assigned" in stage.hub.read(RESERVATIONS, "second").get("status", {})
        )
        second = stage.hub.read(RESERVATIONS, "second")["status"]
        assert condition(second, "Scheduled")["reason"] == EXCEEDED
        assert second["phase"] == "Pending"
        stage.hub.remove(RESERVATIONS, "room")
        await stage.until(
            lambda: stage.hub.read(RESERVATIONS, "second")["status"]["phase"] == "Available",
            seconds=2,
        )


async def test_an_owner_comes_into_its_reservation_though_the_quota_is_full() -> None:
    stage = arranged(cpu=8)
    async with stage.leading():
        stage.hub.put(
            RESERVATIONS, reservation(requests={"cpu": "4"}, replicas=2, allocateOnce=False)
        )
        await stage.until(lambda: status(stage).get("used") == {"requests.cpu": "8"})
        stage.workload("other", replicas=1)
        await stage.until(lambda: waits(stage, "other"))
        stage.workload("demo", replicas=2, cpu="4")
        await stage.until(lambda: stage.placed("demo") == {"a": 2})
        await stage.calm(2)
        assert status(stage)["used"] == {"requests.cpu": "8"}
        stage.hub.remove(RESERVATIONS, "room")
        await stage.calm(2)
        assert waits(stage, "other"), "its owner goes on to count"
        stage.hub.edit(WORKLOADS, "demo", {"spec": {"replicas": 1}})
        await stage.until(lambda: stage.placed("other") == {"a": 1}, seconds=2)


async def test_a_gang_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    stage = led(tmp_path, units=5)
    stage.group(least=6)
    async with stage.led():
        for name in ("one", "two"):
            stage.member(name, replicas=3, cpu="1", distribution="Single")
        await stage.until(lambda: stage.says("two")[1] == "GroupDenied")
        said = {stage.says(name)[2] for name in ("one", "two")}
        assert any("WorkloadQuota team: units 3 of 5 used, 3 replicas ask for 3" in s for s in said)
        assert await most_in(stage, 8) == 0
        stage.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": "6"}}})
        await stage.until(lambda: units(stage) == 6, seconds=8)


async def test_one_workload_of_a_gang_comes_as_far_as_the_quota_lets(tmp_path: Path) -> None:
    """Its quorum is what is asked of it, be it in one Workload that goes to one cluster."""
    stage = led(tmp_path, units=5)
    stage.group(least=4)
    async with stage.led():
        stage.member("one", replicas=8, cpu="1", distribution="Single")
        await stage.until(lambda: stage.placed("one") == {"a": 5})


async def test_schedulers_of_two_names_hold_one_quota() -> None:
    """Both decide at the same moment, again and again; each claims before it writes."""
    stage = arranged(units=3)
    async with both(stage):
        for number in range(4):
            for scheduler in ("stowage", "second"):
                stage.workload(f"{scheduler}-{number}", replicas=2, schedulerName=scheduler)
        most = 0
        for _ in range(20):
            await stage.calm(0.5)
            most = max(most, taken(stage))
        assert most == 2
        names = [each["metadata"]["name"] for each in stage.hub.all(WORKLOADS)]
        stage.hub.remove(WORKLOADS, next(name for name in names if stage.placed(name)))
        await stage.until(lambda: taken(stage) == 2, seconds=30)


def taken(stage: Stage) -> int:
    """Units that have a cluster, of Workloads and Reservations."""
    found = [*stage.hub.all(WORKLOADS), *stage.hub.all(RESERVATIONS)]
    return sum(
        share["replicas"]
        for each in found
        for share in each.get("status", {}).get("placements", [])
    )


async def test_what_another_scheduler_has_claimed_for_a_workload_not_seen_yet_lets_nobody_in() -> (
    None
):
    stage = arranged(units=50)
    claim = {
        "workload": "shop/theirs",
        "uid": "uid-theirs",
        "holder": "another",
        "time": "2026-01-01T00:00:00.000000Z",
        "placements": [{"cluster": "a", "replicas": 1}],
    }
    stage.hub.edit(WORKLOAD_QUOTAS, "team", {"status": {"claims": [claim]}}, status=True)
    async with stage.leading():
        stage.workload("late")
        await stage.until(lambda: waits(stage, "late"))
        assert "another scheduler has claimed some" in stage.says("late")[2]
        await stage.until(lambda: stage.placed("late") == {"a": 2}, seconds=90)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The Workloads that were decided, each time."""
    found: list[tuple[str, str]] = []
    real = WorkloadQuotaPlugin.pre_filter

    def noted(self: WorkloadQuotaPlugin, state: Any, info: Any, snapshot: Any, bound: Any) -> Any:
        found.append(info.key)
        return real(self, state, info, snapshot, bound)

    monkeypatch.setattr(WorkloadQuotaPlugin, "pre_filter", noted)
    return found


def led(tmp_path: Path, **hard: Any) -> Gangs:
    """As `arranged`, with plugins that live in the process of the controller."""
    stage = Gangs(tmp_path)
    stage.cluster("a", cpu="64")
    stage.hub.put(WORKLOAD_QUOTAS, body(**hard))
    return stage


async def test_a_quota_that_gives_way_wakes_its_own_namespace_alone(
    tmp_path: Path, seen: list[tuple[str, str]]
) -> None:
    stage = led(tmp_path, units=0)
    other = body(units=0)
    stage.hub.put(WORKLOAD_QUOTAS, other | {"metadata": {"name": "team", "namespace": "other"}})
    async with stage.led():
        stage.workload("demo")
        apart = stage.hub.read(WORKLOADS, "demo")
        apart["metadata"] = {"name": "apart", "namespace": "other"}
        stage.hub.put(WORKLOADS, {k: apart[k] for k in ("metadata", "spec")})
        await stage.until(lambda: waits(stage, "demo") and ("other", "apart") in seen)
        await stage.calm(12)
        seen.clear()
        stage.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": "2"}}})
        await stage.until(lambda: stage.placed("demo"), seconds=1)
        assert set(seen) == {("shop", "demo")}


async def test_what_is_given_of_nothing_that_is_asked_for_wakes_nobody(
    tmp_path: Path, seen: list[tuple[str, str]]
) -> None:
    stage = led(tmp_path, units=9, cpu=2)
    async with stage.led():
        stage.workload("small", replicas=2)
        await stage.until(lambda: stage.placed("small"))
        stage.workload("demo", cpu="4")
        await stage.until(lambda: waits(stage, "demo"))
        await stage.calm(12)
        seen.clear()
        stage.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": "12"}}})
        await stage.calm(0.3)
        assert seen == []
