"""A tenant's Secret goes along, and its value is nowhere but in the Secret; what commands say of it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from click.testing import CliRunner

from machinery.api.resources import CONFIG_MAPS, EVENTS, MEMBER_CLUSTERS, SECRETS, WORKLOADS
from stowage.cli import cli
from stowage.playground.controlplanes import Cluster
from tests.propagator.dependencies.test_following import (
    asking,
    data_on,
    encoded,
    follow,
    make,
    mounting,
    pods,
)
from tests.propagator.stage import MakeStage, Stage, settled

CANARY = "canary-3f9a1c-of-a-tenant"
CODED = encoded(CANARY)


async def command(hub: Cluster, stage: Stage, *words: str) -> str:
    """What a command prints, on both channels."""
    where = ("--kubeconfig", str(hub.kubeconfig), "-n", stage.namespace)
    result = await asyncio.to_thread(CliRunner().invoke, cli, [*words, *where])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.long
@pytest.mark.proves("DP18")
async def test_no_value_of_a_secret_is_seen_anywhere(
    stage_on: MakeStage, hub: Cluster, caplog: pytest.LogCaptureFixture, tmp_path: Any
):
    caplog.set_level(logging.DEBUG)
    async with stage_on() as stage:
        await make(stage, SECRETS, "db", data={"password": CODED})
        await make(stage, CONFIG_MAPS, "settings", data={"word": CANARY})
        await follow(stage, "demo", pods(**asking("db", "gone"), **mounting("settings")))
        await stage.place("demo", m1=1)
        await stage.propagated("demo")
        # Refusals, mends and edits are told of as well.
        odd = pods("odd", **asking("db"))
        odd["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        await follow(stage, "odd", odd)
        await stage.place("odd", m1=1)
        await stage.refused("odd", "Rejected")
        refused = await stage.workload("odd")
        await stage.end("odd")
        other = {"data": {"password": encoded("red")}}
        await stage.members["m1"].merge_patch(SECRETS, "db", other, namespace=stage.namespace)
        await data_on(stage, "m1", "db", {"password": CODED}, SECRETS)
        immutable = {"immutable": True}
        await stage.hub.merge_patch(SECRETS, "db", immutable, namespace=stage.namespace)
        await stage.hub.delete(SECRETS, "db", namespace=stage.namespace)
        await make(stage, SECRETS, "db", data={"password": CODED, "more": CODED})
        await data_on(stage, "m1", "db", {"password": CODED, "more": CODED}, SECRETS)
        await settled(stage, told=True)

        file = tmp_path / "demo.yaml"
        body = await stage.workload("demo") or {}
        file.write_text(json.dumps({key: body[key] for key in ("apiVersion", "kind", "spec")} | {
            "metadata": {"name": "demo", "namespace": stage.namespace}
        }))  # fmt: skip
        printed = [
            await command(hub, stage, "plan", "-f", str(file)),
            await command(hub, stage, "plan", "-f", str(file), "--diff"),
            await command(hub, stage, "explain", "wl/demo"),
            await command(hub, stage, "explain", "wl/demo", "-o", "json"),
            await command(hub, stage, "explain", "wl/demo", "--cluster", "m1", "--rendered"),
        ]
        places = {
            "logs": caplog.text + "".join(str(vars(each)) for each in caplog.records),
            "events": json.dumps(await stage.hub.list(EVENTS)),
            "Workloads": json.dumps([refused, await stage.hub.list(WORKLOADS)]),
            "MemberClusters": json.dumps(await stage.hub.list(MEMBER_CLUSTERS)),
            "commands": "\n".join(printed),
            "metrics": await _metrics(stage),
        }
        for where, text in places.items():
            assert text, where
            assert CANARY not in text, where
            assert CODED not in text, where
        listed = await stage.members["m1"].list(SECRETS, namespace=stage.namespace)
        assert CODED in json.dumps(listed), "and it would have been found"


async def _metrics(stage: Stage) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.process.port)
    writer.write(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
    await writer.drain()
    text = (await reader.read()).decode()
    writer.close()
    assert "stowage_" in text
    return text
