"""Limits that clusters taught, on a real hub: written with the decision, kept, and forgotten."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from machinery.clock import timestamp
from tests.controller.live import World, deciding, placements

CPUS = {"member-1": 12, "member-2": 4, "member-3": 4}


def patient(folder: Path, seconds: int) -> Path:
    """A configuration in which units may have no node for so long."""
    config = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "stowage",
                "pluginConfig": [{"name": "Divided", "args": {"unschedulableSeconds": seconds}}],
            }
        ],
    }
    file = folder / "patient.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


async def reported(world: World, name: str, runs: dict[str, int]) -> None:
    """What the propagator would say of its present shares: so many run, the others have no node.

    Each unit that runs takes one of its cluster's cpus.
    """
    shares = placements(await world.get(name))
    entries = []
    for cluster, asked in shares.items():
        running = min(runs.get(cluster, asked), asked)
        entry: dict[str, Any] = {
            "name": cluster,
            "replicas": asked,
            "scheduled": running,
            "unschedulable": asked - running,
        }
        if running < asked:
            entry["unschedulableSince"] = timestamp(datetime.now(UTC))
        entries.append(entry)
        await world.report(cluster, cpu=str(CPUS[cluster] - running))
    await world.edit(name, {"status": {"clusters": entries}}, status=True)


@pytest.mark.long
@pytest.mark.proves("D3")
async def test_units_without_a_node_go_elsewhere_once_and_stay(
    world: World, tmp_path: Path
) -> None:
    await world.cluster("member-1", cpu="12")
    await world.cluster("member-2", cpu="4")
    file = patient(tmp_path, 1)
    async with deciding(world, config_file=file) as controller:
        await world.workload("demo", replicas=8, cpu="1", distribution="Divided")
        assert await world.placed("demo") == {"member-1": 6, "member-2": 2}
        await reported(world, "demo", {"member-1": 3})
        found = await world.until("demo", lambda s: s["limits"])
        assert placements(found) == {"member-1": 3, "member-2": 4}
        (limit,) = found["status"]["limits"]
        assert (limit["cluster"], limit["replicas"], limit["holdSeconds"]) == ("member-1", 3, 300)
        (said,) = [c for c in found["status"]["conditions"] if c["type"] == "Scheduled"]
        assert said["reason"] == "InsufficientCapacity"
        assert "1 cluster was seen to run no more" in said["message"]
        await reported(world, "demo", {})
        await world.settle()
        written = (await world.get("demo"))["metadata"]["resourceVersion"]
        assert controller.leading
    async with deciding(world, config_file=file, identity="two"):
        await world.workload("other")  # decided after what it found
        await world.placed("other")
        await world.settle()
        assert (await world.get("demo"))["metadata"]["resourceVersion"] == written
        await world.cluster("member-3", cpu="4")
        assert await world.placed("demo") == {"member-1": 3, "member-2": 4, "member-3": 1}

        pod = {"nodeSelector": {"disk": "any"}}
        spec = {"targetDeployment": {"spec": {"template": {"spec": pod}}}}
        await world.edit("demo", {"spec": spec})
        found = await world.until("demo", lambda s: not s["limits"])
        assert placements(found) == {"member-1": 3, "member-2": 4, "member-3": 1}
