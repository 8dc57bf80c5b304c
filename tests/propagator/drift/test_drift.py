"""What people change on a member: repaired or left, and told, on real API servers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from machinery.api.resources import EVENTS, Resource
from machinery.errors import Invalid, NotFound
from tests.definitions import definition
from tests.propagator.stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    KINDS,
    MakeStage,
    Stage,
    configmap,
)
from tests.propagator.waits import until


def template(image: str = "nginx:1", **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": image, **more}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container]},
            },
        },
    }


async def set_image(stage: Stage, image: str, manager: str = "kubectl-set") -> None:
    """As `kubectl set image` does on m1."""
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    await stage.members["m1"].request(
        "PATCH",
        DEPLOYMENTS.path(stage.namespace, "web"),
        params={"fieldManager": manager},
        body=patch,
        content_type="application/strategic-merge-patch+json",
    )


async def image_on(stage: Stage) -> str:
    found = await stage.on("m1")
    assert found is not None
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


async def drift(stage: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await stage.status("web")).get("drift", [])
    return found


async def tells(stage: Stage, state: str, *paths: str) -> dict[str, Any]:
    """Wait until one object is told of, in that state and with these paths; the entry."""
    seen: list[Any] = []

    async def told() -> bool:
        seen[:] = await drift(stage)
        found = [(each["state"], *(p["path"] for p in each["paths"])) for each in seen]
        return found == [(state, *paths)]

    await until(told, what=lambda: seen)
    return dict(seen[0])


async def pushed(stage: Stage, **spec: Any) -> None:
    await stage.bring("web", {"m1": 1}, **{"targetDeployment": template(), **spec})


IMAGE = "spec.template.spec.containers[main].image"


@pytest.mark.proves("X1", "X5")
async def test_a_change_is_repaired_and_told_and_a_fight_is_contended_with_its_path(stage: Stage):
    await pushed(stage)
    await set_image(stage, "nginx:2")
    told = await tells(stage, "Repaired", IMAGE)
    assert await image_on(stage) == "nginx:1"
    where = {"cluster": "m1", "kind": "Deployment", "name": "web"}
    assert {key: told[key] for key in where} == where
    assert told["paths"] == [
        {"path": IMAGE, "hub": "nginx:1", "member": "nginx:2", "manager": "kubectl-set"}
    ]
    assert await stage.condition("web", "Drifted") == {}
    number = 0

    async def contended() -> bool:
        nonlocal number
        if await image_on(stage) == "nginx:1":
            number += 1
            await set_image(stage, f"nginx:{number + 100}", "other-tool")
        return [each["state"] for each in await drift(stage)] == ["Contended"]

    await until(contended)
    message = await stage.refused("web", "Conflict", IMAGE, "other-tool")
    assert message.startswith("m1: Deployment")
    drifted = await stage.condition("web", "Drifted")
    assert (drifted["status"], drifted["reason"]) == ("True", "Contended")


async def scaled(stage: Stage, kind: Resource, name: str, way: str, to: int) -> None:
    """Set the number on m1 as a person or KEDA does."""
    path, body = kind.path(stage.namespace, name), {"spec": {"replicas": to}}
    if way == "PUT":
        found = await stage.on("m1", name, kind=kind)
        assert found is not None
        body = {**found, "spec": {**found["spec"], "replicas": to}}
    await stage.members["m1"].request(
        "PUT" if way == "PUT" else "PATCH",
        f"{path}/scale" if way == "scale" else path,
        params={"fieldManager": "somebody"},
        body=body,
        content_type="application/json" if way == "PUT" else "application/merge-patch+json",
    )


@pytest.mark.proves("RB14", "RB27")
async def test_a_number_that_is_left_to_others_stays_at_0_and_until_it_is_edited(
    stage_on: MakeStage,
):
    sets = KINDS["StatefulSet"]
    cases = [(kind, way) for kind in (DEPLOYMENTS, sets) for way in ("scale", "PATCH", "PUT")]
    named = {f"{kind.plural}-{way}".lower(): (kind, way) for kind, way in cases}

    def body(kind: Resource, name: str, edit: int) -> dict[str, Any]:
        found = {**template(args=[str(edit)]), "kind": kind.kind, "metadata": {"name": name}}
        return {
            **found,
            "spec": {**found["spec"], **({"serviceName": name} if kind is sets else {})},
        }

    async def edited(edit: int) -> None:
        for name, (kind, _) in named.items():
            await stage.patch(name, {"spec": {"template": body(kind, name, edit)}})

    async def all_have(replicas: int, edit: int) -> None:
        seen: dict[str, Any] = {}

        async def there() -> bool:
            for name, (kind, _) in named.items():
                spec = (await stage.on("m1", name, kind=kind) or {}).get("spec", {})
                args = spec and spec["template"]["spec"]["containers"][0]["args"]
                seen[name] = (spec.get("replicas"), args)
            return set(map(str, seen.values())) == {str((replicas, [str(edit)]))}

        await until(there, what=lambda: seen)

    async def scale(to: int) -> None:
        for name, (kind, way) in named.items():
            await scaled(stage, kind, name, way, to)

    async def tell(to: int) -> None:
        told: dict[str, Any] = {}
        by: dict[str, str] = {}

        async def said() -> bool:
            for name, (_, way) in named.items():
                paths = [p for e in (await stage.status(name)).get("drift", []) for p in e["paths"]]
                told[name] = [(p["path"], p["member"], p["manager"]) for p in paths]
                # A 0 of the scale subresource is in no entry, nor is what follows it (1.36.3).
                by[name] = "" if way == "scale" else "somebody"
            return all(told[name] == [("spec.replicas", str(to), by[name])] for name in named)

        await until(said, what=lambda: told)

    async with stage_on() as stage:
        for name, (kind, _) in named.items():
            await stage.run(name, {"m1": 3}, template=body(kind, name, 0), drift="Report")
        await all_have(3, 0)
        # As `kubectl scale` to the present number does, which takes nothing: it stays the Workload's.
        await scale(3)
        await edited(1)
        await all_have(3, 1)
        await scale(0)
        await tell(0)
        await edited(2)
        await all_have(0, 2)
        await scale(2)  # an autoscaler wakes it
        await tell(2)
        await edited(3)
        await all_have(2, 3)
        for name in named:
            await stage.place(name, m1=4)
        await all_have(4, 3)

        await stage.stop()  # nobody sees it, and the next process comes to an edit
        await scale(0)
        await edited(4)
        stage.start()
        await stage.ready()
        await all_have(0, 4)
        await tell(0)
        for name in named:
            await stage.patch(name, {"spec": {"drift": "Repair"}})
        await all_have(4, 4)


@pytest.mark.proves("X12")
@pytest.mark.parametrize("mode", ["Repair", "Report"])
async def test_a_deleted_object_is_made_again_and_is_no_drift(stage: Stage, mode: str):
    await pushed(stage, drift=mode, manifests=[configmap("settings", a="b")])
    first = await stage.appears("m1", "settings", kind=CONFIGMAPS)
    await stage.members["m1"].delete(CONFIGMAPS, "settings", namespace=stage.namespace)

    async def again() -> bool:
        found = await stage.on("m1", "settings", kind=CONFIGMAPS)
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until(again)
    assert await drift(stage) == []


GAUGES = Resource("mending.dev", "v1", "gauges", "Gauge")


def gauges(*versions: str) -> dict[str, Any]:
    return definition(GAUGES, versions=versions, status=False)


@pytest.mark.proves("RB5")
async def test_an_apply_that_fails_for_a_version_that_is_gone_is_mended_and_told(
    stage: Stage,
):
    """Each apply to such an object is answered with 500, until its managers are written anew."""
    member = stage.members["m1"]
    definitions = await member.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    await member.create(definitions, gauges("v1", "v1alpha1"))
    new = GAUGES
    old = replace(new, version="v1alpha1")

    async def served(resource: Resource) -> bool:
        with suppress(NotFound):
            await member.list(resource, namespace=stage.namespace)
            return True
        return False

    await until(lambda: served(old))
    body = {"apiVersion": "mending.dev/v1", "kind": "Gauge", "metadata": {"name": "web"}}
    await stage.run("web", {"m1": 1}, template={**body, "spec": {"size": 1}})
    await stage.appears("m1", "web", kind=new)
    for manager, resource in (("early", old), ("late", new)):
        await member.request(
            "PATCH",
            resource.path(stage.namespace, "web"),
            params={"fieldManager": manager},
            body={"metadata": {"labels": {manager: "yes"}}},
            content_type="application/merge-patch+json",
        )
    versions = {"spec": {"versions": gauges("v1")["spec"]["versions"]}}
    await member.merge_patch(definitions, "gauges.mending.dev", versions)

    async def gone() -> bool:
        return not await served(old)

    await until(gone)
    await stage.patch("web", {"spec": {"template": {**body, "spec": {"size": 2}}}})

    async def written() -> bool:
        found = await stage.on("m1", "web", kind=new)
        return found is not None and found["spec"] == {"size": 2}

    await until(written)
    found = await stage.on("m1", "web", kind=new)
    assert found is not None
    managers = {each["manager"] for each in found["metadata"]["managedFields"]}
    assert "late" in managers, "who wrote it in a version that is served keeps its fields"
    assert "early" not in managers
    assert {"early", "late"} <= found["metadata"]["labels"].keys()

    async def told() -> bool:
        events = await stage.hub.list(EVENTS, namespace=stage.namespace)
        return any(each["reason"] == "ManagedFieldsMended" for each in events["items"])

    await until(told)


@pytest.mark.proves("KD58")
async def test_what_is_ours_is_ignored_nowhere(stage: Stage):
    for path, words in (
        ("spec.replicas", "Stowage's to set: spec.replicas"),
        ("spec.selector.matchLabels", "spec.selector, and labels"),
        ("metadata.name", "spec.ignoreFields[0].paths[0]"),
        ('metadata.annotations["stowage.dev/hub"]', "labels and annotations of stowage.dev"),
        ("status.phase", "spec.ignoreFields[0].paths[0]"),
    ):
        with pytest.raises(Invalid) as refusal:
            await stage.create("web", ignoreFields=[{"paths": [path]}])
        assert words in str(refusal.value)
    other = {"target": {"kind": "ConfigMap", "name": "none"}, "paths": ["spec.a"]}
    with pytest.raises(Invalid, match="target must name"):
        await stage.create("web", manifests=[configmap("one")], ignoreFields=[other])
    secret = {"target": {"kind": "Secret", "name": "s"}, "name": "a", "path": "status.a"}
    with pytest.raises(Invalid, match="Secret"):
        await stage.create("web", statusFields=[secret])
