"""A further kind is a folder and a few lines: it is read, has a say, tells its status, is listed.

The folder is `licencepool`. The fixture has the lines beside it: one of the catalogue and one of the
command line's table. On a hub a definition of the kind and a ClusterRole come along.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from controller import catalogue
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.record import record
from controller.planner.webster import MAX_REPLICAS
from controller.scheduling.cycle import decide
from machinery.api.resources import WORKLOADS
from stowage.cli import cli
from stowage.report import features
from tests.controller.licencepool.feature import (
    NAME,
    PARTNER_LABEL,
    POOL_LABEL,
    POOLS,
    LicencePool,
    LicencePools,
    LicenceSeats,
    Seats,
)
from tests.controller.licencepool.findings import FINDINGS
from tests.controller.live import deployment
from tests.controller.make import NOW, cluster, info, snapshot
from tests.controller.memory import Stage
from tests.stowage.plain_hub import serving

POOL = {
    "apiVersion": POOLS.api_version,
    "kind": POOLS.kind,
    "metadata": {"name": "cad", "namespace": "shop"},
    "spec": {"seats": 3},
}
OF_POOL = {POOL_LABEL: "cad"}
FLEET = {
    "apiVersion": "stowage.dev/v1alpha1",
    "kind": "MemberCluster",
    "metadata": {"name": "a"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeGroups": [{"count": 1, "free": {"cpu": "16", "memory": "64Gi", "pods": "110"}}],
    },
}


@pytest.fixture(autouse=True)
def further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "FEATURES", (*catalogue.FEATURES, LicencePools))
    monkeypatch.setattr(features, "LISTED", (*features.LISTED, (POOLS, FINDINGS)))


def workload(name: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "shop", "labels": {POOL_LABEL: "cad"}},
        "spec": {"replicas": replicas, "targetDeployment": deployment(name, "1")},
    }


def plan(folder: Path, *objects: Any) -> Result:
    snapshot, files = folder / "fleet.yaml", folder / "objects.yaml"
    snapshot.write_text(yaml.safe_dump(FLEET))
    files.write_text(yaml.safe_dump_all(objects))
    where = ("-f", str(files), "--fleet", str(snapshot), "-n", "shop")
    return CliRunner().invoke(cli, ["plan", *where])


def test_a_plan_of_files_reads_it_and_decides_by_it(tmp_path: Path) -> None:
    fits = plan(tmp_path, POOL, workload("demo", 3))
    assert fits.exit_code == 0, fits.output
    assert "a=3" in fits.output
    assert "ignored" not in fits.output
    refused = plan(tmp_path, POOL, workload("demo", 4))
    assert "3 seats free in licence pool cad" in refused.output


async def test_a_controller_decides_by_it_and_writes_its_status(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n")
    stage = Stage("a")
    stage.hub.put(POOLS, POOL)
    async with stage.configured(file):
        stage.workload("demo", replicas=2, labels={POOL_LABEL: "cad"})
        stage.workload("late", replicas=2, labels={POOL_LABEL: "cad"}, created=1)
        await stage.until(lambda: stage.hub.read(POOLS, "cad").get("status", {}).get("taken") == 2)
        assert stage.placed("demo") == {"a": 2}
        status = stage.hub.read(POOLS, "cad")["status"]
        assert status["clusters"] == [{"name": "a", "seats": 2}]
        await stage.until(lambda: stage.says("late")[1] == "ReplicasReached")
        assert "1 seats free in licence pool cad" in stage.says("late")[2]


def test_the_command_line_lists_it(tmp_path: Path) -> None:
    full = {**POOL, "status": {"taken": 3}}
    spare = {**POOL, "metadata": {"name": "spare", "namespace": "shop"}}

    def answer(path: str, _query: Any) -> tuple[int, dict[str, Any]]:
        items = [full, spare] if path == POOLS.path(None) else []
        return 200, {"items": items, "metadata": {}}

    with serving(answer, tmp_path) as file:
        told = CliRunner().invoke(cli, ["status", "--kubeconfig", str(file)]).output
        asked = ["status", "--kubeconfig", str(file), "-o", "json"]
        found = json.loads(CliRunner().invoke(cli, asked).stdout)
    assert "LicencePools: 1 Available, 1 Full" in told
    assert "Licence pools without a free seat:" in told
    assert "3 of 3 seats are taken" in told
    assert found["licencePools"] == {"Full": 1, "Available": 1}
    assert [each["name"] for each in found["pools"]] == ["shop/cad"]


def pool(stage: Stage, seats: int, **spec: int) -> None:
    """The pool, with another number of seats."""
    stage.hub.edit(POOLS, "cad", {"spec": {"seats": seats, **spec}})


async def test_partners_wait_for_each_other_and_for_seats() -> None:
    stage = Stage("a")
    async with stage.leading(features=catalogue.features()) as controller:
        stage.workload("left", replicas=1, labels={**OF_POOL, PARTNER_LABEL: "right"})
        await stage.until(lambda: "licence pool cad does not exist" in stage.says("left")[2])
        stage.hub.put(POOLS, POOL)  # the news wakes it
        await stage.until(lambda: stage.says("left")[1] == "WaitingOnPermit")
        assert "right has no seat yet" in stage.says("left")[2]
        stage.workload("right", replicas=2, labels={**OF_POOL, PARTNER_LABEL: "left"})
        await stage.until(lambda: stage.placed("left") and stage.placed("right"))
        stage.workload("late", replicas=1, labels=OF_POOL, created=1)
        await stage.until(lambda: stage.says("late")[1] == "ReplicasReached")
        told = await controller.diagnosis(("shop", "late"))
        assert told is not None
        assert "more seats in spec.seats of LicencePool cad" in str(told["remedies"])
        pool(stage, 4)
        await stage.until(lambda: stage.placed("late"))
        await stage.until(lambda: stage.hub.read(POOLS, "cad")["status"]["taken"] == 4)
    stage.hub.edit(POOLS, "cad", {"status": {"taken": 9, "clusters": []}}, status=True)
    async with stage.leading(features=catalogue.features(), identity="two"):
        await stage.until(lambda: stage.hub.read(POOLS, "cad")["status"]["taken"] == 4)


@pytest.mark.proves("E1", "E13")
async def test_what_it_tells_of_a_workload_stands_there_and_is_explained() -> None:
    stage = Stage("a", "b")
    stage.hub.put(POOLS, {**POOL, "spec": {"seats": 9, "each": 1}})
    status = lambda: stage.hub.read(WORKLOADS, "wide")["status"]  # noqa: E731 - asked again
    async with stage.leading(features=catalogue.features()) as controller:
        stage.workload("wide", replicas=4, labels=OF_POOL, distribution="Divided")
        await stage.until(lambda: stage.says("wide")[0] == "False")
        assert status()["plugins"] == {NAME: {"pool": "cad", "seats": 2}}
        assert stage.says("wide")[2].endswith("2 clusters have no seat left of licence pool cad")
        told = await controller.diagnosis(("shop", "wide"))
        assert told is not None
        (stop,), (note,) = told["pendingReasons"], told["remedies"]
        assert (stop["name"], stop["text"]) == (
            NAME, "2 clusters: all seats of licence pool cad there are taken",
        )  # fmt: skip
        assert (note["kind"], note["number"], note["name"]) == ("Quota", 2, "cad")
        assert note["text"] == "2 more in spec.each of LicencePool cad"
        pool(stage, 9, each=2)
        await stage.until(lambda: stage.says("wide")[0] == "True")
        assert status()["plugins"] == {NAME: {"pool": "cad", "seats": 4}}
        assert status()["history"][-1]["cause"] == "SeatsFound"


def test_only_more_seats_are_a_hint() -> None:
    (changed, _) = LicenceSeats().events_to_register()
    few, many = (msgspec.convert({"spec": {"seats": n}}, LicencePool) for n in (1, 2))
    wanting = info("late", labels=OF_POOL)
    assert changed.about(wanting) == ("shop", "cad")
    assert changed.hint(wanting, few, many)
    assert changed.hint(wanting, None, few)
    assert not changed.hint(wanting, many, few)


def test_a_set_that_is_tried_elsewhere_sits_in_the_overlay_alone() -> None:
    seats = Seats()
    seats.seats["shop", "cad"], seats.each["shop", "cad"] = 2, MAX_REPLICAS
    world = PlacementIndex([seats])
    first, late = (
        info("first", replicas=2, labels=OF_POOL),
        info("late", replicas=1, labels=OF_POOL),
    )
    over = world.overlay({first.key: (first, {"a": 2})})
    profile = default_profile(catalogue.registry(catalogue.features()))
    found = snapshot(cluster("a"))
    assert decide(found, late, world, profile, NOW).scheduled
    refused = decide(found, late, over, profile, NOW)
    assert not refused.scheduled
    first_of = record(refused)["remedies"][0]
    assert first_of["text"] == "more seats in spec.seats of LicencePool cad"
    assert seats.on(("shop", "cad")).total() == 0
