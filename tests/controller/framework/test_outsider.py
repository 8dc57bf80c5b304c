"""A plugin of somebody else's in a process of its own, named on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import aiohttp
import pytest

from tests.controller.live import World, process
from tests.patience import until

CONFIG = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: Spared}]}}
  pluginConfig: [{name: Spared, args: {clusters: [one]}}]
"""


@pytest.mark.long
@pytest.mark.proves("E1", "E5", "E6", "E13")
async def test_it_decides_answers_and_runs_beside(world: World, tmp_path: Path) -> None:
    file, log = tmp_path / "scheduler.yaml", tmp_path / "controller.log"
    file.write_text(CONFIG)
    for name in ("one", "two"):
        await world.cluster(name)
    options = (f"--config={file}", "--plugin=tests.controller.framework.outsider:Spared")
    with process(world, log, *options):
        await world.workload("demo", cpu="1")
        assert (await world.placed("demo")).keys() == {"two"}
        await until(lambda: "the controller Spared/watching runs" in log.read_text())
        found = re.search(r"listening on ([\d.]+:\d+)", log.read_text())
        assert found
        base = f"http://{found.group(1)}/apis/v1"
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"{base}/plugins/Spared/clusters")
            assert json.loads(await answer.read()) == {"spared": ["one"], "of": 2}
            listed = json.loads(await (await session.get(f"{base}/__services__")).read())
    assert "/apis/v1/plugins/Spared/clusters" in listed["GET"]


HANGING = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: Stuck}]}}
  pluginTimeoutMilliseconds: 500
"""


@pytest.mark.long
@pytest.mark.proves("L4")
async def test_one_that_hangs_harms_its_own_decision_alone(world: World, tmp_path: Path) -> None:
    file, log = tmp_path / "scheduler.yaml", tmp_path / "controller.log"
    file.write_text(HANGING)
    await world.cluster("one")
    options = (f"--config={file}", "--plugin=tests.controller.framework.outsider:Stuck")
    with process(world, log, *options):
        for name in ("spins", "sleeps", "reads"):
            await world.workload(name, cpu="1")
        for name in ("spins", "sleeps", "reads"):
            said = (await world.refused(name, "PluginError"))["message"]
            assert "plugin Stuck failed at Filter: no answer within 500 ms (outsider.py:" in said
        await world.workload("demo", cpu="1")
        assert (await world.placed("demo")).keys() == {"one"}
        found = re.search(r"listening on ([\d.]+:\d+)", log.read_text())
        assert found
        async with aiohttp.ClientSession() as session:
            answer = await session.get(f"http://{found.group(1)}/metrics")
            counted = re.search(
                r'stowage_plugin_errors_total{plugin="Stuck",point="Filter"} ([\d.]+)',
                await answer.text(),
            )
    assert counted
    assert float(counted.group(1)) >= 3
