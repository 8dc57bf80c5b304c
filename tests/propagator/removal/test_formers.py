"""Another name or kind of the main object: the one that runs stays until it is replaced."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from machinery.api.resources import Resource
from machinery.types.metadata import Meta
from propagator.members import inventory
from propagator.members.objects import ManagedObject
from propagator.members.session import MemberSession
from propagator.members.watches import Found
from propagator.types.workload import Workload
from tests.propagator.stage import DEPLOYMENTS, KINDS, MakeStage, Stage, deployment, settled
from tests.propagator.waits import until


async def ready(stage: Stage, name: str, count: int, kind: Any = DEPLOYMENTS) -> None:
    found = await stage.appears("m1", name, kind=kind)
    counts = {"replicas": count, "readyReplicas": count, "updatedReplicas": count}
    counts["observedGeneration"] = found["metadata"]["generation"]
    how = {"namespace": stage.namespace, "subresource": "status"}
    await stage.members["m1"].merge_patch(kind, name, {"status": counts}, **how)


async def asked(stage: Stage, name: str) -> int | None:
    found = await stage.on("m1", name)
    return None if found is None else int(found["spec"]["replicas"])


@pytest.mark.proves("A5", "KD44")
async def test_what_runs_stays_under_its_old_name_until_the_new_one_is_ready(
    stage: Stage,
) -> None:
    await stage.run("demo", {"m1": 3}, targetDeployment=deployment("web"))
    await ready(stage, "web", 3)
    await stage.propagated("demo")
    await stage.patch("demo", {"spec": {"targetDeployment": deployment("web-v2")}})
    await stage.appears("m1", "web-v2")

    async def told() -> bool:
        message = (await stage.condition("demo", "Propagated"))["message"]
        return "m1: Deployment web stays until Deployment web-v2 is ready" in message

    await until(told)
    await stage.restarted()
    await settled(stage)
    assert await asked(stage, "web") == 3
    await ready(stage, "web-v2", 2)
    await stage.becomes("m1", "web", 1, "replicas")
    await ready(stage, "web", 1)
    await ready(stage, "web-v2", 3)
    await stage.goes("m1", "web")
    await stage.propagated("demo")


@pytest.mark.proves("A5", "KD45")
async def test_what_runs_at_most_once_is_gone_before_it_is_made_under_another_name(
    stage_on: MakeStage,
) -> None:
    sets = KINDS["StatefulSet"]
    async with stage_on() as stage:
        old = {**deployment("db", serviceName="db"), "kind": "StatefulSet"}
        await stage.run("demo", {"m1": 2}, template=old)
        await ready(stage, "db", 2, kind=sets)
        await stage.propagated("demo")
        both = False

        async def look() -> None:
            nonlocal both
            while True:
                listed = await stage.members["m1"].list(sets, namespace=stage.namespace)
                both = both or len(listed["items"]) > 1
                await asyncio.sleep(0.02)

        looking = asyncio.create_task(look())
        new = {**deployment("db-v2", serviceName="db"), "kind": "StatefulSet"}
        await stage.patch("demo", {"spec": {"template": new}})
        await stage.appears("m1", "db-v2", kind=sets)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        assert not both
        assert await stage.on("m1", "db", kind=sets) is None


def _found(resource: Resource, namespace: str, name: str) -> Found:
    meta = Meta(namespace=namespace, name=name)
    return resource, ManagedObject(
        metadata=meta, kind=resource.kind, api_version=resource.api_version
    )


@pytest.mark.proves("A5", "S1")
def test_a_former_is_told_by_group_kind_and_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec of a cluster-scoped object has the Workload's namespace, its object has none."""
    held = {"apiVersion": "gate.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    main = {**deployment("web"), "kind": "StatefulSet"}
    spec = {"template": main, "manifests": [held]}
    meta = {"name": "demo", "namespace": "shop", "uid": "u"}
    workload = msgspec.json.decode(json.dumps({"metadata": meta, "spec": spec}), type=Workload)
    widgets = Resource("gate.dev", "v1", "widgets", "Widget", namespaced=False)
    kruise = Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet")
    there = [
        _found(widgets, "", "w"),
        _found(widgets, "", "w-old"),
        _found(KINDS["StatefulSet"], "shop", "web"),
        _found(KINDS["StatefulSet"], "other", "web"),
        _found(kruise, "shop", "web"),
    ]
    monkeypatch.setattr(inventory, "owned", lambda session, uid: there)
    assert inventory.formers(Mock(MemberSession), workload) == [there[1], there[3], there[4]]
