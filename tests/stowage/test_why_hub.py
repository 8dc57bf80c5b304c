"""A why that lasts, on a real API server: kept over restarts, told without a controller."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from machinery.api.resources import WORKLOAD_POLICIES
from stowage.cli import cli
from stowage.hub import plain_connection
from tests.controller.live import World, deciding, world_on

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def world(controller_hub: Any) -> AsyncIterator[World]:
    async with world_on(controller_hub, "shop") as world:
        for number in range(2):
            await world.cluster(f"m{number}", labels={ZONE: f"z{number}"})
        yield world


async def run(world: World, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    hub = ("--kubeconfig", str(world.hub.kubeconfig))
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


@pytest.mark.proves("U1")
async def test_history_names_a_quota_that_grew(world: World) -> None:
    quota = {
        "apiVersion": WORKLOAD_POLICIES.api_version,
        "kind": "WorkloadPolicy",
        "metadata": {"name": "quota", "namespace": "shop"},
        "spec": {
            "topologyKey": ZONE,
            "labelSelector": {"matchLabels": {"app": "demo"}},
            "allocationType": "Required",
            "allocationPolicy": [{"name": "z0", "replicas": 2}],
        },
    }
    await world.client.create(WORKLOAD_POLICIES, quota)
    await world.workload("demo", replicas=5, labels={"stowage.dev/workload-policy": "quota"})
    async with deciding(world):
        await world.until("demo", lambda s: s.get("assigned") == 2)
        more = {"spec": {"allocationPolicy": [{"name": "z0", "replicas": 4}]}}
        await world.client.merge_patch(WORKLOAD_POLICIES, "quota", more, namespace="shop")
        await world.until("demo", lambda s: s["assigned"] == 4)
    told = (await run(world, "history", "wl/demo", "-n", "shop")).stdout.splitlines()
    assert told[0] == "shop/demo: the last 2 changes of placement, the newest last"
    assert told[1].endswith("placed: 2 of 5 replicas have a cluster")
    assert told[3].endswith("the quota let more in: 4 of 5 replicas have a cluster")
    assert told[4].split("   ")[-1] == "domain z0 is at its quota of 4"
    why = (await run(world, "explain", "wl/demo", "-n", "shop")).stdout
    assert "2 more at " in why
    assert "Decided now, every replica would stay where it is:" in why


async def test_what_is_not_there_or_not_recorded(world: World) -> None:
    await world.workload("demo")
    nothing = (await run(world, "history", "wl/demo", "-n", "shop")).stdout
    assert nothing.startswith("shop/demo: no change of placement is recorded")
    assert (await run(world, "explain", "wl/demo", "-n", "shop")).stdout.startswith(
        "shop/demo: not decided yet"
    )
    missing = await run(world, "history", "wl/nobody", "-n", "shop")
    assert str(missing.exception).startswith("there is no Workload shop/nobody; http")


async def test_the_quick_reader_believes_no_other_server(world: World, tmp_path: Path) -> None:
    file = tmp_path / "hub.kubeconfig"
    shutil.copy(world.hub.kubeconfig, file)
    document = yaml.safe_load(file.read_text())
    document["clusters"][0]["cluster"]["tls-server-name"] = "another.example"
    file.write_text(yaml.safe_dump(document))
    hub = ("--kubeconfig", str(file))
    result = await asyncio.to_thread(CliRunner().invoke, cli, ["status", *hub])
    assert result.exit_code == 2
    assert "certificate is not valid for 'another.example'" in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"user": {"exec": {"command": "login"}}},
        {"user": {"tokenFile": "/nowhere"}},
        {"user": {"as": "somebody"}},
        {"cluster": {"insecure-skip-tls-verify": True, "server": "https://a"}},
        {"cluster": {"proxy-url": "http://p", "server": "https://a"}},
        {"cluster": {}},
    ],
    ids=str,
)
def test_what_is_not_plain_is_left_to_the_library(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    parts = {"user": {"token": "t"}, "cluster": {"server": "https://a"}, **change}
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "x", "user": "y"}}],
        "clusters": [{"name": "x", "cluster": parts["cluster"]}],
        "users": [{"name": "y", "user": parts["user"]}],
    }
    file.write_text(yaml.safe_dump(document))
    assert plain_connection(kubeconfig=str(file), context=None) is None
    document["clusters"][0]["cluster"] = {"server": "https://a"}
    document["users"][0]["user"] = {"token": "t"}
    file.write_text(yaml.safe_dump(document))
    found = plain_connection(kubeconfig=str(file), context=None)
    assert found is not None
    assert (found.server, found.token) == ("https://a", "t")
    assert plain_connection(kubeconfig=str(file), context="other") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://p")
    assert plain_connection(kubeconfig=str(file), context=None) is None
