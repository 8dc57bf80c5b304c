"""Plan and explain against a real hub: they only read, and what they say is what happens.

The controller runs in this process; MemberClusters are written by hand, nothing is propagated.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    WORKLOAD_POLICIES,
    WORKLOAD_SPREADS,
    WORKLOADS,
)
from stowage.cli import cli
from stowage.simulation import explain
from tests.controller.live import World, deciding, placements, world_on
from tests.controller.make import beside
from tests.patience import until
from tests.stowage import accounts

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def world(hub: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(explain, "CONTROLLER_SECONDS", 60.0)
    async with world_on(hub, "shop") as world:
        for number, cpu in enumerate(("4", "2", "8")):
            await world.cluster(f"m{number}", cpu=cpu, labels={ZONE: f"z{number % 2}"})
        yield world


@dataclass
class Recorder:
    """Every request of a command, as METHOD PATH: it runs in a thread, the controller does not."""

    sent: list[str] = field(default_factory=list)

    def methods(self) -> set[str]:
        return {line.split()[0] for line in self.sent}


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found, real, plain = Recorder(), ApiClient.request, HTTPConnection.request

    def noted(method: str, path: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            found.sent.append(f"{method} {path}")

    async def request(self: ApiClient, method: str, path: str, **how: Any) -> bytes:
        noted(method, path)
        return await real(self, method, path, **how)

    def simple(self: HTTPConnection, method: str, url: str, **how: Any) -> None:
        noted(method, url)
        plain(self, method, url, **how)

    monkeypatch.setattr(ApiClient, "request", request)
    monkeypatch.setattr(HTTPConnection, "request", simple)
    return found


async def run(world: World, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    hub = ("--kubeconfig", str(world.hub.kubeconfig))
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


async def told(world: World, *args: str) -> dict[str, Any]:
    result = await run(world, *args, "-o", "json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def shares(record: dict[str, Any]) -> dict[str, int]:
    return {each["cluster"]: each["replicas"] for each in record["placements"]}


async def versions(world: World) -> dict[str, str]:
    listed = [await world.client.list(kind) for kind in (WORKLOADS, MEMBER_CLUSTERS)]
    metas = [item["metadata"] for kind in listed for item in kind["items"]]
    return {meta["uid"]: meta["resourceVersion"] for meta in metas}


def several(world: World) -> list[dict[str, Any]]:
    """Workloads that get in each other's way, wait for each other, and find no place."""
    terms = "requiredDuringSchedulingIgnoredDuringExecution"
    return [
        world.manifest("front", replicas=2, workloadAffinity={terms: [beside("back")]}),
        world.manifest("wide", replicas=9, cpu="1", distribution="Divided"),
        world.manifest("everywhere", replicas=1, distribution="Duplicated"),
        world.manifest("huge", replicas=3, cpu="6"),
        policy("shares", z0=1, z1=2),
        world.manifest("shares", replicas=5, labels={"stowage.dev/workload-policy": "shares"}),
        world.manifest("nowhere", clusterSelector={"no": "such"}),
        world.manifest("back", replicas=2, clusterSelector={ZONE: "z1"}),
        world.manifest("ping", workloadAffinity={terms: [beside("pong")]}),
        world.manifest("pong", workloadAffinity={terms: [beside("ping")]}),
    ]


def policy(name: str, **domains: int) -> dict[str, Any]:
    listed = [{"name": domain, "replicas": n} for domain, n in domains.items()]
    return {
        "apiVersion": WORKLOAD_POLICIES.api_version,
        "kind": "WorkloadPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "topologyKey": ZONE,
            "labelSelector": {"matchLabels": {"app": name}},
            "allocationPolicy": listed,
            "allocationType": "Required",
        },
    }


def spread(name: str, **subsets: int) -> dict[str, Any]:
    """Zones in their order, each with its cap, for the Workload of that name."""
    target = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "name": name}
    listed = [
        {
            "name": zone,
            "requiredNodeSelectorTerm": {"matchLabels": {ZONE: zone}},
            "maxReplicas": most,
        }
        for zone, most in subsets.items()
    ]
    return {
        "apiVersion": WORKLOAD_SPREADS.api_version,
        "kind": "WorkloadSpread",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"targetRef": target, "subsets": listed},
    }


@pytest.mark.long
@pytest.mark.proves("E30", "C6", "C16", "K26")
async def test_what_is_planned_is_what_happens(
    world: World, recorder: Recorder, tmp_path: Path
) -> None:
    manifests = several(world)
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    before = await versions(world)
    recorder.sent.clear()
    planned = (await told(world, "plan", "-f", str(file)))["workloads"]
    assert recorder.methods() == {"GET"}
    assert await versions(world) == before
    async with deciding(world):
        for manifest in manifests:
            kind = WORKLOADS if manifest["kind"] == "Workload" else WORKLOAD_POLICIES
            await world.client.create(kind, manifest)
        for each in planned:
            await world.until(each["name"], as_planned(each))
        await world.settle()
    for each in planned:
        found = await world.get(each["name"])
        status = found["status"]
        assert (each["name"], shares(each)) == (each["name"], placements(found))
        assert (each["desired"], each["pending"]) == (status["desired"], status["pending"])
        said = {c["type"]: c for c in status["conditions"]}["Scheduled"]
        assert each["reason"] == said["reason"]
        # One that holds some of its units may have been looked at again, and counts anew.
        assert each["message"] == said["message"] or (each["pending"] and each["placements"])
    assert {each["name"] for each in planned if each["pending"]} == {"huge", "nowhere", "shares"}


def as_planned(record: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Whether a status has come to it: one that waits for others is decided more than once."""
    return lambda status: (
        bool(status["conditions"]) and placements({"status": status}) == shares(record)
    )


@pytest.mark.long
@pytest.mark.proves("E30", "W4")
async def test_a_picture_of_the_hub_in_a_file_gives_the_same_plan(
    world: World, tmp_path: Path
) -> None:
    await world.workload("there", replicas=3, cpu="1", distribution="Divided")
    await world.client.create(WORKLOAD_POLICIES, policy("shares", z0=1, z1=2))
    async with deciding(world):
        await world.placed("there")
    await world.client.create(WORKLOAD_SPREADS, spread("ordered", z1=1, z0=2))
    kubectl = "get memberclusters,workloads,workloadpolicies,workloadspreads -A -o"
    bound = world.manifest("shares", replicas=5, labels={"stowage.dev/workload-policy": "shares"})
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump_all([bound, world.manifest("ordered", replicas=4)]))
    online = await told(world, "plan", "-f", str(file))
    divided, ordered = online["workloads"]
    assert divided["pending"] == 2
    assert (ordered["pending"], sum(shares(ordered).values())) == (1, 3)
    assert shares(ordered)["m1"] == 1
    for form in ("yaml", "json"):
        picture = tmp_path / f"picture.{form}"
        picture.write_text(await asyncio.to_thread(world.hub.kubectl, *kubectl.split(), form))
        offline = await told(world, "plan", "-f", str(file), "--fleet", str(picture))
        assert timeless(offline) == timeless(online)
    why = await run(world, "explain", "wl/there", "-n", "shop", "--fleet", str(picture))
    assert why.stdout.startswith("shop/there: 3 of 3 replicas placed (Scheduled)\n\nCLUSTER")


def timeless(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**each, "time": ""} for each in plan["workloads"]]


@pytest.mark.proves("E30", "C25")
async def test_explain_asks_the_controller(world: World, recorder: Recorder) -> None:
    await world.workload("demo", replicas=2)
    await world.workload("lost", clusterSelector={"no": "such"})
    async with deciding(world) as controller:
        await world.placed("demo")
        await world.refused("lost", "FailedToSchedule")
        url = ("--controller", f"http://127.0.0.1:{controller.port}", "-n", "shop")
        before = await versions(world)
        recorder.sent.clear()
        good = await run(world, "explain", "wl/demo", *url)
        lost = await run(world, "explain", "wl/lost", *url)
        record = await told(world, "explain", "wl", "lost", *url)
        assert recorder.methods() == {"GET"}
        assert "GET /apis/v1/diagnosis/shop/demo" in recorder.sent
        assert await versions(world) == before
        status = (await world.get("lost"))["status"]
    assert good.stdout.startswith("shop/demo: 2 of 2 replicas placed (Scheduled)\n\nCLUSTER")
    assert (good.stderr, good.exit_code) == ("", 0)
    assert "3 clusters: didn't match clusterSelector" in lost.stdout
    assert "that alone keeps it from m0, m1 or m2, with room for" in lost.stdout
    assert record["message"] == status["conditions"][0]["message"]
    assert record["hash"] == status["decision"]["hash"]
    assert record["remarks"] == []


@pytest.mark.long
@pytest.mark.proves("E30")
async def test_explain_shows_a_token_where_one_is_asked_for(world: World, tmp_path: Path) -> None:
    await world.workload("demo")
    for command in (
        "create serviceaccount reader -n shop",
        "create clusterrole reader --verb=get --non-resource-url=/stowage/apis/v1/diagnosis/*",
        "create clusterrolebinding reader --clusterrole=reader --serviceaccount=shop:reader",
    ):
        await asyncio.to_thread(world.hub.kubectl, *command.split())
    reader, path = "system:serviceaccount:shop:reader", "/stowage/apis/v1/diagnosis/shop/demo"
    connection = world.hub.connection()
    await until(lambda: accounts.other_may(connection, reader, f"get {path}"))
    kubectl = "create token reader -n shop"
    token = tmp_path / "token"
    token.write_text(await asyncio.to_thread(world.hub.kubectl, *kubectl.split()))
    async with deciding(world, http_host="0.0.0.0") as controller:
        await world.placed("demo")
        asked = ("wl/demo", "-n", "shop", "--controller", f"http://127.0.0.1:{controller.port}")
        without = await run(world, "explain", *asked)
        with_it = await run(world, "explain", *asked, "--token-file", str(token))
    assert "a bearer token is needed" in without.stderr
    said = f"note: http://127.0.0.1:{controller.port} gets the credential without TLS\n"
    assert (with_it.stderr, with_it.exit_code) == (said, 0)
    assert with_it.stdout == without.stdout
