"""A why that lasts, on a real API server: kept over restarts, told without a controller."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controller.model.objects import MemberCluster
from machinery.api.resources import WORKLOAD_POLICIES
from machinery.config.hub_config import hub_connection
from machinery.errors import NotFound
from stowage.cli import cli
from stowage.hub import Reader, plain_connection
from stowage.report.fleet import Lease
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


async def steps(world: World) -> dict[str, list[tuple[int, str]]]:
    """Units and cause of each step, by cluster, as explain tells them."""
    result = await run(world, "explain", "wl/demo", "-n", "shop", "-o", "json")
    told = json.loads(result.stdout)["recorded"]["placements"]
    return {each["cluster"]: [(s["units"], s["cause"]) for s in each["steps"]] for each in told}


@pytest.mark.proves("U1", "U3")
async def test_a_why_lasts_over_scaling_and_restarts(world: World) -> None:
    await world.workload("demo", replicas=4, distribution="Divided")
    async with deciding(world):
        await world.placed("demo")
        first = await steps(world)
        assert first == {"m0": [(2, "Placed")], "m1": [(2, "Placed")]}
        await world.edit("demo", {"spec": {"replicas": 6}})
        await world.until("demo", lambda s: s["assigned"] == 6)
    grown = {"m0": [(2, "Placed"), (1, "Scaled")], "m1": [(2, "Placed"), (1, "Scaled")]}
    assert await steps(world) == grown, "no controller runs"
    before = (await world.get("demo"))["status"]
    anything = {"spec": {"tolerations": [{"key": "nothing", "operator": "Exists"}]}}
    await world.edit("demo", anything)
    async with deciding(world):
        of = before["decision"]["hash"]
        await world.until("demo", lambda s: s["decision"]["hash"] != of)
    after = (await world.get("demo"))["status"]
    assert (after["reasons"], after["history"]) == (before["reasons"], before["history"])


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
    assert told[1].endswith("placed: 2 of 5 units have a cluster")
    assert told[3].endswith("the quota let more in: 4 of 5 units have a cluster")
    assert told[4].split("   ")[-1] == "domain z0 is at its quota of 4"
    why = (await run(world, "explain", "wl/demo", "-n", "shop")).stdout
    assert "2 more at " in why
    assert "Decided now, every unit would stay where it is:" in why


async def test_what_is_not_there_or_not_recorded(world: World) -> None:
    await world.workload("demo")
    nothing = (await run(world, "history", "wl/demo", "-n", "shop")).stdout
    assert nothing.startswith("shop/demo: no change of placement is recorded")
    assert (await run(world, "explain", "wl/demo", "-n", "shop")).stdout.startswith(
        "shop/demo: not decided yet"
    )
    missing = await run(world, "history", "wl/nobody", "-n", "shop")
    assert str(missing.exception) == "there is no Workload shop/nobody"


@pytest.mark.proves("U4")
async def test_status_of_a_dead_member_and_a_pending_workload(world: World) -> None:
    await world.report("m1", ready=False)
    await world.workload("demo", replicas=2)
    await world.workload("nowhere", clusterSelector={"no": "such"})
    async with deciding(world):
        await world.placed("demo")
        await world.refused("nowhere", "FailedToSchedule")
        result = await run(world, "status")
    assert result.exit_code == 1
    assert "1 of 2 clusters ready" in result.stdout
    assert "m1     Unreachable" in result.stdout
    assert "shop/nowhere   1 of 1   FailedToSchedule" in result.stdout
    controller = next(x for x in result.stdout.splitlines() if x.startswith("controller "))
    assert controller.split()[1] == "0.1.0"


async def test_the_quick_reader_reads_what_the_client_reads(world: World) -> None:
    plain = plain_connection(kubeconfig=str(world.hub.kubeconfig), context=None)
    assert plain is not None
    whole = hub_connection(kubeconfig=str(world.hub.kubeconfig))
    for field in ("ca", "client_cert", "client_key", "token", "namespace", "tls_server_name"):
        assert getattr(plain, field) == getattr(whole, field), field
    assert plain.server == whole.server.rstrip("/")

    def read() -> tuple[list[Any], str]:
        from machinery.api.resources import LEASES, MEMBER_CLUSTERS  # noqa: PLC0415

        with Reader(plain) as api:
            clusters = list(api.each(MEMBER_CLUSTERS, MemberCluster))
            with pytest.raises(NotFound) as missing:
                api.read(LEASES, "nobody", "shop", Lease)
        return clusters, missing.value.reason

    clusters, reason = await asyncio.to_thread(read)
    assert {each.metadata.name for each in clusters} == {"m0", "m1"}
    assert reason == "NotFound"


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
