"""The claims of a share that moved stand in status.kept, from before it goes until they are gone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from machinery.api.resources import USUAL
from machinery.tasks import end
from propagator.removal import left_claims
from propagator.removal.left_claims import CLAIMS, LOOK_SECONDS, LeftClaims
from propagator.types.workload import workload_of
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context

STATEFUL_SETS = next(each for each in USUAL if each.kind == "StatefulSet")
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
    registry = {"m1": session}
    context = Context(clock=clock, registry=registry)
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
    registry["paris"] = registry.pop("m1")
    told = [{**each, "cluster": "paris"} for each in kept[1:]]
    (found,) = claims.standing(workload, told)
    assert found["cluster"] == "paris", "under the name that the cluster has now, and once"
    registry.clear()
    assert not claims.standing(workload, told), "whoever looks there now may have seen it go"
    await end([running])


@pytest.mark.proves("A7", "KD47")
async def test_a_share_that_was_lowered_before_it_left_leaves_the_claims_of_all_its_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    member = MemoryHub(clock=clock, admission=False)
    for name in ("data-db-7", "data-db-8", "data-db-9", "data-db-11", "data-other-10"):
        await member.create(CLAIMS, {"metadata": {"namespace": "shop", "name": name}, "spec": SPEC})
    template: Any = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    template["spec"] = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    workload = workload_of(
        {
            "metadata": {"namespace": "shop", "name": "db", "uid": "u"},
            "spec": {"template": template},
            "status": {"placements": [{"cluster": "m2", "replicas": 3}]},
        }
    )
    # A drain moves one replica after the other.
    meta = {"namespace": "shop", "name": "db"}
    await member.create(STATEFUL_SETS, {"metadata": meta, "spec": template["spec"]})
    last = SimpleNamespace(start=7, replicas=1, metadata=SimpleNamespace(key=("shop", "db")))
    monkeypatch.setattr(left_claims, "owned", lambda *_: [(STATEFUL_SETS, last)])
    monkeypatch.setattr(left_claims, "main_object", lambda *_: last)
    session = cast("Any", SimpleNamespace(name="m1", client_for=lambda _: member))
    claims = LeftClaims(
        cast("Any", Context(clock=clock, registry={"m1": session})),
        workloads=cast("Any", None),
        changed=lambda _: None,
    )
    assert not await claims.note(session, workload, ()), "the status is to say it first"
    kept = claims.standing(workload, ())
    assert sorted(each["name"] for each in kept) == ["data-db-7", "data-db-8", "data-db-9"]
