"""`stowage drain` and `rebalance` on a real hub with a controller in this process.

No propagator runs: what it would report, that all units are ready where they are placed, a task of
the test writes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from crds.names import ANNOTATION_DRAINED, TAINT_DRAIN
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.errors import Conflict, NotFound
from stowage.cli import cli
from stowage.setup import taint
from stowage.simulation import drain
from tests.controller.live import World, condition, deciding, placements, world_on
from tests.patience import until


@pytest.fixture
async def world(hub: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(drain, "PATIENCE_SECONDS", 3.0)
    async with world_on(hub, "shop") as world:
        for name in ("m1", "m2", "m3"):
            await world.cluster(name, cpu="40")
        yield world


async def run(world: World, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    hub = ("--kubeconfig", str(world.hub.kubeconfig))
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    """All units are ready where they are placed, and gone where they are placed no more."""

    async def report() -> None:
        while True:
            for each in (await world.client.list(WORKLOADS))["items"]:
                shares = placements(each)
                told = [
                    {"name": c, "replicas": n, "scheduled": n, "ready": n, "state": "Running"}
                    for c, n in shares.items()
                ]
                before = each.get("status", {}).get("clusters", [])
                if shares and told != [{k: s.get(k) for k in told[0]} for s in before]:
                    with suppress(Conflict, NotFound):
                        await world.edit(
                            each["metadata"]["name"], {"status": {"clusters": told}}, status=True
                        )
            await asyncio.sleep(0.2)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def cluster(world: World, name: str) -> dict[str, Any]:
    return await world.client.get(MEMBER_CLUSTERS, name)


async def versions(world: World) -> dict[str, str]:
    listed = [await world.client.list(kind) for kind in (WORKLOADS, MEMBER_CLUSTERS)]
    metas = [item["metadata"] for kind in listed for item in kind["items"]]
    return {meta["uid"]: meta["resourceVersion"] for meta in metas}


@pytest.mark.long
@pytest.mark.proves("M22", "M24", "M27", "M65")
async def test_a_drain_is_one_write_and_shows_its_end_and_the_undo_takes_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    patches: list[Any] = []
    real = ApiClient.merge_patch

    async def merge_patch(self: ApiClient, res: Any, name: str, patch: Any, **how: Any) -> Any:
        if res == MEMBER_CLUSTERS and "subresource" not in how:
            patches.append(patch)
        return await real(self, res, name, patch, **how)

    monkeypatch.setattr(ApiClient, "merge_patch", merge_patch)
    await world.workload("web", replicas=6, distribution="Divided")
    everything = [{"operator": "Exists"}]
    await world.workload("stays", replicas=3, distribution="Divided", tolerations=everything)
    async with deciding(world), running(world):
        for name in ("web", "stays"):
            assert set(await world.placed(name)) == {"m1", "m2", "m3"}
        await world.settle()
        before = await versions(world)
        told = await run(world, "drain", "m1", "--dry-run")
        assert told.exit_code == 0, told.output
        assert await versions(world) == before
        head, heads, *rows = told.stdout.splitlines()
        assert head == "m1: 1 Workload, 2 replicas leave; 1 replica stays (tolerated: 1 Workload)"
        assert heads.split() == ["WORKLOAD", "REPLICAS", "LEFT", "TO", "STATE"]
        assert [row.split() for row in rows] == [
            ["shop/stays", "1", "1", "-", "stay:", "tolerated"],
            ["shop/web", "2", "0", "m2=1,m3=1", "Settled"],
        ]
        done = await run(world, "drain", "m1")
        assert done.exit_code == 0, done.output
        (patch,) = patches
        assert patch["spec"]["unschedulable"] is True
        assert patch["spec"]["taints"] == [{"key": TAINT_DRAIN, "effect": "NoExecute"}]
        assert patch["metadata"]["resourceVersion"]
        assert done.stdout.splitlines()[-1] == "m1: drained"
        assert [row.split() for row in rows] == [
            row.split() for row in done.stdout.splitlines()[-3:-1]
        ]
        assert placements(await world.get("web")) == {"m2": 3, "m3": 3}
        assert "m1" in placements(await world.get("stays"))
        stored = await cluster(world, "m1")
        assert condition(stored["status"], "Evacuating")["reason"] == "Drained"
        undone = await run(world, "drain", "m1", "--undo")
        assert undone.exit_code == 0, undone.output
        assert undone.stdout == "m1: no drain any more\n"
        assert len(patches) == 2
        undone = await run(world, "drain", "m1", "--undo")
        assert undone.stdout == "m1: there was no drain to take back\n"
        stored = await cluster(world, "m1")
        assert not stored["spec"].get("unschedulable")
        assert not stored["spec"].get("taints")
        assert ANNOTATION_DRAINED not in stored["metadata"].get("annotations", {})
        await world.until("web", lambda status: placements({"status": status}).get("m1") == 2)


@pytest.mark.long
@pytest.mark.proves("Q21")
async def test_a_copy_that_goes_nowhere_else_is_not_told_as_settled(world: World) -> None:
    await world.workload("each", replicas=2, distribution="Duplicated")
    async with deciding(world), running(world):
        await world.until("each", lambda status: len(status["placements"]) == 3)
        await world.settle()
        told = await run(world, "drain", "m1", "--dry-run")
    (row,) = (line for line in told.stdout.splitlines() if line.startswith("shop/each"))
    assert row.split() == ["shop/each", "2", "0", "-", "no", "copy", "here", "any", "more"]


@pytest.mark.proves("Q27")
async def test_a_drain_lists_once_and_then_watches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    real = ApiClient.pages

    def pages(self: ApiClient, res: Any, **how: Any) -> Any:
        lists.append(res.plural)
        return real(self, res, **how)

    monkeypatch.setattr(drain, "LOOK_SECONDS", 0.05)
    await world.workload("web", replicas=3, distribution="Divided")
    monkeypatch.setattr(ApiClient, "pages", pages)
    late = await run(world, "drain", "m1", "--timeout", "3s")
    assert late.exit_code == 1, late.output
    assert {each: lists.count(each) for each in ("workloads", "memberclusters")} == {
        "workloads": 1,
        "memberclusters": 1,
    }


@pytest.mark.proves("M22", "M29", "Q3")
async def test_a_cordon_of_somebody_else_stays_and_a_drain_may_be_forced(world: World) -> None:
    await world.edit_cluster(
        "m1",
        {
            "spec": {
                "unschedulable": True,
                "taints": [{"key": "example.com/a", "effect": "NoSchedule"}],
            }
        },
    )
    forced = await run(world, "drain", "m1", "--force", "--timeout", "1s")
    assert forced.exit_code == 1, "no controller says that it is drained"
    assert "note: no propagator leads: nothing will move until one runs" in forced.stderr
    assert "not drained within 1 s" in forced.stdout
    spec = (await cluster(world, "m1"))["spec"]
    assert {"key": TAINT_DRAIN, "effect": "NoExecute", "value": "Force"} in spec["taints"]
    undone = await run(world, "drain", "m1", "--undo")
    assert undone.exit_code == 0, undone.output
    spec = (await cluster(world, "m1"))["spec"]
    assert spec["unschedulable"] is True
    assert spec["taints"] == [{"key": "example.com/a", "effect": "NoSchedule"}]
    for wrong in (["m9"], ["m9", "--dry-run"], ["m9", "--undo"]):
        refused = await run(world, "drain", *wrong)
        assert refused.exit_code == 1
        assert "m9" in str(refused.exception)
    for usage in (["--undo", "--force"], ["-o", "json"], ["--timeout", "soon"]):
        assert (await run(world, "drain", "m1", *usage)).exit_code == 2


@pytest.mark.proves("M60", "M59")
async def test_a_rebalance_tells_what_moves_and_then_moves_it(world: World) -> None:
    for name in ("m2", "m3"):
        await world.edit_cluster(name, {"spec": {"unschedulable": True}})
    await world.workload("web", replicas=6, distribution="Divided")
    await world.workload("rests", targetCluster={"name": "m1"})
    async with deciding(world), running(world):
        assert await world.placed("web") == {"m1": 6}
        await world.placed("rests")
        for name in ("m2", "m3"):
            await world.edit_cluster(name, {"spec": {"unschedulable": False}})
        await world.settle()
        before = await versions(world)
        told = await run(world, "rebalance", "--all", "--dry-run", "-n", "shop")
        assert told.exit_code == 0, told.output
        assert await versions(world) == before
        heads, row, last = told.stdout.splitlines()
        assert heads.split() == ["WORKLOAD", "REPLICAS", "MOVES", "NOW", "THEN", "WHY"]
        assert row.split()[:5] == ["shop/web", "6", "4", "m1=6", "m1=2,m2=2,m3=2"]
        assert last == "1 Workload would move 4 of 7 replicas; 1 is as the plan wants it"
        everywhere = await run(world, "rebalance", "--dry-run", "-A")
        assert row.split() in [line.split() for line in everywhere.stdout.splitlines()]
        assert await versions(world) == before
        done = await run(world, "rebalance", "wl/web", "-n", "shop")
        assert done.exit_code == 0, done.output
        wanted = {"m1": 2, "m2": 2, "m3": 2}
        await world.until("web", lambda status: placements({"status": status}) == wanted)
        assert "rebalanceAfter" not in (await world.get("rests"))["spec"].get("movement", {})
        asked = (await world.get("web"))["spec"]["movement"]["rebalanceAfter"]
        await world.until("web", lambda status: status["rebalanced"] == asked)
    missing = await run(world, "rebalance", "wl/none", "-n", "shop")
    assert "there is no Workload shop/none" in str(missing.exception)
    for usage in ([], ["wl/web", "-A"], ["wl/web", "--all"], ["--all", "-A"]):
        refused = await run(world, "rebalance", *usage)
        assert refused.exit_code == 2
        assert "say which Workloads: their names as wl/NAME" in refused.output


async def test_a_write_of_somebody_else_meanwhile_is_no_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = drain.drain_patch, []

    def late(stored: dict[str, Any], *, force: bool) -> dict[str, Any]:
        patch = real(stored, force=force)
        if not lost:
            lost.append(True)
            patch["metadata"]["resourceVersion"] = "1"
        return patch

    monkeypatch.setattr(drain, "drain_patch", late)
    done = await run(world, "drain", "m1", "--wait=false")
    assert done.exit_code == 0, done.output
    await until(lambda: bool(lost))
    assert (await cluster(world, "m1"))["spec"]["unschedulable"] is True


@pytest.mark.proves("J9")
async def test_taints_are_set_and_removed_beside_those_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taints() -> list[str]:
        stored = (await cluster(world, "m1"))["spec"].get("taints", [])
        return [f"{each['key']}={each.get('value', '')}:{each['effect']}" for each in stored]

    assert (await run(world, "drain", "m1", "--wait=false")).exit_code == 0
    real, meanwhile = ApiClient.merge_patch, ["example.com/b=2:NoSchedule"]

    async def merge_patch(self: ApiClient, res: Any, name: str, patch: Any, **how: Any) -> Any:
        if meanwhile:  # another person, between what this one has read and its write
            other = taint.TaintEdit.of(meanwhile.pop())
            await taint.taint(self, "m1", [other])
        return await real(self, res, name, patch, **how)

    monkeypatch.setattr(ApiClient, "merge_patch", merge_patch)
    done = await run(world, "taint", "m1", "example.com/a:NoExecute", "example.com/a:NoSchedule")
    assert done.exit_code == 0, done.output
    drained = "stowage.dev/drain=:NoExecute"
    both = ["example.com/a=:NoExecute", "example.com/a=:NoSchedule"]
    assert await taints() == [drained, "example.com/b=2:NoSchedule", *both]
    assert (await run(world, "taint", "m1", "example.com/a:NoExecute-")).exit_code == 0
    assert (await run(world, "taint", "m1", "example.com/b=3:NoSchedule")).exit_code == 0
    assert await taints() == [drained, both[1], "example.com/b=3:NoSchedule"]
    assert (await run(world, "drain", "m1", "--undo")).exit_code == 0
    assert (await run(world, "taint", "m1", "example.com/a-", "example.com/b-")).exit_code == 0
    assert await taints() == []
    missing = await run(world, "taint", "m1", "example.com/a-")
    assert "m1 has no taint example.com/a" in str(missing.exception)
    unknown = await run(world, "taint", "m9", "a:NoSchedule")
    assert "the hub knows no cluster m9" in str(unknown.exception)


@pytest.mark.proves("J9")
@pytest.mark.parametrize("text", ["a", "a=b", ":NoExecute", "a:Never", "a:noexecute-", "-", ""])
def test_what_is_no_taint_is_refused_with_the_form_of_one(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"write KEY\[=VALUE\]:EFFECT"):
        taint.TaintEdit.of(text)


@pytest.mark.proves("J9")
def test_no_document_tells_to_replace_all_taints() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*")]
    texts = {page: page.read_text() for page in pages if page.suffix in {".md", ".yaml"}}
    told = [page.name for page, text in texts.items() if re.search(r"patch .*\"?taints\"?:", text)]
    assert told == []
