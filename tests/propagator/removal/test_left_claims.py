"""The claims of a share that moved stand in status.kept, from before it goes until they are gone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from machinery.tasks import end
from propagator.removal import left_claims
from propagator.removal.left_claims import CLAIMS, LOOK_SECONDS, LeftClaims
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context
from tests.propagator.stage import KINDS, MakeStage, deployment
from tests.propagator.waits import until

SETS = KINDS["StatefulSet"]
SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}


@pytest.mark.proves("A7", "KD47")
async def test_a_new_process_goes_on_with_what_the_status_names_until_it_is_gone() -> None:
    clock = FakeClock()
    member = MemoryHub(clock=clock, admission=False)
    for number in (0, 1):
        meta = {"namespace": "shop", "name": f"data-db-{number}"}
        await member.create(CLAIMS, {"metadata": meta, "spec": SPEC})
    kept = [
        {"cluster": "m1", "kind": CLAIMS.kind, "namespace": "shop", "name": f"data-db-{number}"}
        for number in (0, 1)
    ]
    meta = {"namespace": "shop", "name": "db", "uid": "u"}
    spec = {"template": {"apiVersion": "apps/v1", "kind": "StatefulSet"}}
    placed = {"placements": [{"cluster": "m2", "replicas": 2}], "kept": kept}
    workload = workload_of({"metadata": meta, "spec": spec, "status": placed})
    session = SimpleNamespace(ready=False, client_for=lambda _: member)
    context = Context(clock=clock, registry={"m1": session})
    asked: list[Any] = []
    claims = LeftClaims(
        cast("Any", context),
        workloads=cast("Any", SimpleNamespace(by_uid=lambda _: workload)),
        changed=asked.append,
    )

    def left() -> list[str]:
        return sorted(each["name"] for each in claims.standing(workload, kept))

    assert left() == ["data-db-0", "data-db-1"]
    running = asyncio.create_task(claims.run())
    await member.delete(CLAIMS, "data-db-0", namespace="shop")
    await clock.advance(2 * LOOK_SECONDS)
    assert len(left()) == 2, "a member that is away has lost nothing"
    session.ready = True
    await clock.advance(LOOK_SECONDS)
    assert asked == [("shop", "db")]
    assert left() == ["data-db-1"], "though the status names it still"
    await end([running])


@pytest.mark.long
@pytest.mark.proves("A7", "KD47")
async def test_what_a_share_leaves_is_named_until_it_is_gone(
    stage_on: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_claims, "LOOK_SECONDS", 0.2)
    async with stage_on() as stage:
        claims = [{"metadata": {"name": "data"}, "spec": SPEC}]
        template = deployment("db", serviceName="db", volumeClaimTemplates=claims)
        await stage.run("demo", {"m1": 2}, template={**template, "kind": "StatefulSet"})
        await stage.appears("m1", "db", kind=SETS)
        for number in (0, 1):  # what its member's controllers would make
            made = {"metadata": {"name": f"data-db-{number}", "namespace": stage.namespace}}
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": SPEC, **made}
            await stage.members["m1"].create(CLAIMS, body)
        await stage.propagated("demo")
        leaves = {"cluster": "m1", "replicas": 2, "cause": "Drained"}
        status = {
            "placements": [{"cluster": "m2", "replicas": 2}],
            "leaving": [{**leaves, "since": "2026-11-26T03:00:00Z"}],
        }
        await stage.patch("demo", {"status": status}, subresource="status")

        async def kept() -> list[Any]:
            return [(e["cluster"], e["name"]) for e in (await stage.status("demo")).get("kept", [])]

        await stage.goes("m1", "db", kind=SETS)
        left = [("m1", "data-db-0"), ("m1", "data-db-1")]
        assert await kept() == left, "it stood there before the object went"
        await stage.restarted()
        patch = {"metadata": {"finalizers": None}}
        how = {"namespace": stage.namespace}
        await stage.members["m1"].merge_patch(CLAIMS, "data-db-0", patch, **how)
        await stage.members["m1"].delete(CLAIMS, "data-db-0", **how)

        async def one_left() -> bool:
            return await kept() == left[1:]

        await until(one_left)
