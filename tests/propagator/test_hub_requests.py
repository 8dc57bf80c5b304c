"""The requests that one Workload costs the hub, counted by its API server."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from propagator.status.controller import Reporter
from stowage.playground.controlplanes import Cluster
from tests.controller.live import World, deciding
from tests.propagator.stage import MakeStage, Stage, deployment, settled
from tests.propagator.waits import until

_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\d+)$", re.MULTILINE)
_LABELS = re.compile(r'(\w+)="([^"]*)"')
Requests = Counter[tuple[str, str]]


async def changes(client: ApiClient) -> Requests:
    """The writes of Workloads so far: (verb, subresource)."""
    text = (await client.request("GET", "/metrics", timeout=60)).decode()
    asked: Requests = Counter()
    for labels, number in _REQUESTS.findall(text):
        of = dict(_LABELS.findall(labels))
        if of["dry_run"]:
            continue
        if of["resource"] == "workloads" and of["verb"] not in ("GET", "LIST", "WATCH"):
            asked[of["verb"], of["subresource"]] += int(number)
    return asked


async def run_quickly(stage: Stage, name: str) -> None:
    """One Workload from its POST until it runs, as quickly as a kubelet could start it."""
    await stage.hub.create(
        WORKLOADS,
        {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": stage.namespace},
            "spec": {
                "replicas": 1,
                "targetCluster": {"name": "m1"},
                "targetDeployment": deployment(name),
            },
        },
    )
    await stage.make_ready("m1", name)

    async def running() -> bool:
        return (await stage.status(name)).get("state") == "Running"

    await until(running)


@pytest.mark.long
@pytest.mark.proves("C22")
async def test_a_workload_costs_one_post_and_two_status_writes_until_it_runs(
    stage_on: MakeStage, hub: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """One of the controller, one of the propagator; Events apart.

    However long the rollout takes here, what may be gathered is gathered: what is counted is the
    writes that say something which cannot wait.
    """
    patience = Reporter._patience
    monkeypatch.setattr(Reporter, "_patience", lambda *about: 600.0 * (patience(*about) > 0))
    async with stage_on() as stage:
        await stage.hub.merge_patch(MEMBER_CLUSTERS, "m1", {"spec": {"virtual": True}})
        async with deciding(World(stage.hub, hub, stage.namespace)):
            await run_quickly(stage, "warm")
            await settled(stage)
            before = await changes(stage.hub)
            for number in range(5):
                await run_quickly(stage, f"web-{number}")
            await settled(stage)  # nothing is held back, and nothing follows
            spent = await changes(stage.hub) - before
        assert spent == {("POST", ""): 5, ("PATCH", "status"): 10}


@pytest.mark.long
@pytest.mark.proves("C22")
async def test_of_a_workload_that_is_placed_nowhere_nothing_is_written(stage: Stage):
    await stage.create("demo")
    hub = stage.process.term.workloads._workloads.informer
    await until(lambda: hub.get((stage.namespace, "demo")))
    before = await stage.workload("demo")
    await settled(stage)
    assert await stage.workload("demo") == before
    await stage.end("demo")
