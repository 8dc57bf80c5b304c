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

from stowage.cli import cli
from stowage.hub import plain_connection
from tests.controller.live import World, world_on

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def world(hub: Any) -> AsyncIterator[World]:
    async with world_on(hub, "shop") as world:
        for number in range(2):
            await world.cluster(f"m{number}", labels={ZONE: f"z{number}"})
        yield world


async def run(world: World, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    hub = ("--kubeconfig", str(world.hub.kubeconfig))
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


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
