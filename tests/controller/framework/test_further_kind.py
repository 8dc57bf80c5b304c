"""A further kind is a folder and a few lines: it is read, has a say, tells its status, is listed.

The folder is `licencepool`. The fixture has the lines beside it: one of the catalogue and one of the
command line's table. On a hub a definition of the kind and a ClusterRole come along, as the tests of
the licence pool on a real server have them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controller import catalogue
from stowage.cli import cli
from stowage.report import features
from tests.controller.licencepool.feature import POOL_LABEL, POOLS, LicencePools
from tests.controller.licencepool.findings import FINDINGS
from tests.controller.live import deployment
from tests.controller.memory import Stage
from tests.stowage.plain_hub import serving

POOL = {
    "apiVersion": POOLS.api_version,
    "kind": POOLS.kind,
    "metadata": {"name": "cad", "namespace": "shop"},
    "spec": {"seats": 3},
}
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
    stage = Stage()
    stage.cluster("a")
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
