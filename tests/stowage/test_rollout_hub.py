"""`stowage rollout` on a real hub: who may approve, and what a command leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machinery.api.resources import WORKLOADS
from stowage.cli import cli
from tests.controller.live import World, world_on
from tests.inforce import until_may
from tests.stowage import accounts
from tests.stowage.rollouts import revision, staged

USER = "system:serviceaccount:shop:editor"


@pytest.fixture
async def world(hub: Any) -> AsyncIterator[World]:
    async with world_on(hub, "shop") as world:
        body = staged("AwaitingApproval")
        await world.client.create(WORKLOADS, body, namespace="shop")
        await world.edit("web", {"status": body["status"]}, status=True)
        yield world


@pytest.fixture
def editor(world: World, tmp_path: Path) -> Path:
    """The kubeconfig of an account that may edit Workloads there, and approve none."""
    kubectl = world.hub.kubectl
    kubectl("-n", "shop", "create", "serviceaccount", "editor")
    allow(world, "get", "patch")
    token = kubectl("-n", "shop", "create", "token", "editor").strip()
    return accounts.written(world.hub, "editor", token, tmp_path)


def allow(world: World, *verbs: str) -> None:
    name = f"may-{verbs[0]}"
    given = [f"--verb={verb}" for verb in verbs]
    kubectl = world.hub.kubectl
    what = ("--resource=workloads.stowage.dev", "--resource-name=web")
    kubectl("-n", "shop", "create", "role", name, *given, *what)
    whom = (f"--role={name}", "--serviceaccount=shop:editor")
    kubectl("-n", "shop", "create", "rolebinding", name, *whom)
    until_may(world.hub, USER, f"{verbs[-1]} workloads.stowage.dev/web -n shop")


async def run(kubeconfig: Path, verb: str, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    command = ["rollout", verb, "wl/web", "--kubeconfig", str(kubeconfig), "-n", "shop", *args]
    return await asyncio.to_thread(CliRunner().invoke, cli, command)


@pytest.mark.proves("T30", "T31")
async def test_the_digest_of_what_the_hub_stores_is_that_of_the_file(world: World):
    kubeconfig = world.hub.kubeconfig
    shown = await run(kubeconfig, "status")
    assert shown.exit_code == 0, shown.output
    own = revision(staged())
    assert f"91ab → {own[:4]}  AwaitingApproval, wave 2 of 3" in shown.stdout
    aborted = await run(kubeconfig, "abort", "--wait", "--timeout", "0s")
    assert aborted.exit_code == 1
    assert "not complete within 0 s" in aborted.stdout
    assert (await world.get("web"))["spec"]["rollout"]["aborted"] == own
    retried = await run(kubeconfig, "retry")
    assert retried.exit_code == 0
    rollout = (await world.get("web"))["spec"]["rollout"]
    assert ("aborted" in rollout, "retryAfter" in rollout) == (False, True)
