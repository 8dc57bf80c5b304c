"""What a Workload takes over on real members, and only as it is: `adoption: IfNoDiff`."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import LABEL_MANAGED, LABEL_WORKLOAD_UID, OWNER_PREFIX
from machinery.api.resources import Resource

from .stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    SERVICES,
    Stage,
    configmap,
    counted,
    deployment,
    settled,
)
from .waits import until

NO_DIFF = "IfNoDiff"
JOBS = Resource("batch", "v1", "jobs", "Job")


def image(name: str) -> dict[str, Any]:
    """A Deployment with that image."""
    made = deployment(replicas=2)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = name
    return made


async def made(stage: Stage, kind: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """What somebody made on m1 by hand."""
    return await stage.members["m1"].create(kind, body, namespace=stage.namespace)


async def owned(stage: Stage, name: str, workload: str, **where: Any) -> dict[str, Any]:
    """Wait until the object is the Workload's; the object."""
    uid = (await stage.workload(workload))["metadata"]["uid"]

    async def there() -> bool:
        found = await stage.on("m1", name, **where)
        return OWNER_PREFIX + uid in found["metadata"].get("annotations", {})

    await until(there, seconds=60)
    return await stage.on("m1", name, **where)


@pytest.mark.long
@pytest.mark.proves("X6")
async def test_what_is_equal_but_for_defaults_is_taken_over_as_it_is(stage: Stage):
    await stage.space_on("m1")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "pause"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": {"spec": pods}},
    }
    before = {
        kind: await made(stage, kind, body)
        for kind, body in (
            (DEPLOYMENTS, image("nginx:1")),
            (SERVICES, service),
            (CONFIGMAPS, configmap("conf", k="v")),
            (JOBS, job),
        )
    }
    await stage.create(
        "demo",
        adoption=NO_DIFF,
        targetDeployment=image("nginx:1"),
        targetService=service,
        manifests=[configmap("conf", k="v"), job],
    )
    await stage.place("demo", m1=2)
    await stage.propagated("demo")
    await settled(stage)
    writes = await counted(stage.members["m1"])
    await stage.restarted()
    await settled(stage)
    assert not (await counted(stage.members["m1"]) - writes)["APPLY", "deployments"]
    for kind, was in before.items():
        now = await owned(stage, was["metadata"]["name"], "demo", kind=kind)
        assert now["metadata"]["uid"] == was["metadata"]["uid"]
        if kind != DEPLOYMENTS:  # whose generation grows with any annotation
            assert now["metadata"].get("generation") == was["metadata"].get("generation")
        assert (now.get("spec"), now.get("data")) == (was.get("spec"), was.get("data"))
        assert now["metadata"]["labels"][LABEL_MANAGED] == "true"

    # It is the Workload's from then on: an edit arrives, and still no label on its pods.
    await stage.patch("demo", {"spec": {"targetDeployment": image("nginx:2")}})

    async def edited() -> bool:
        found = (await stage.on("m1"))["spec"]["template"]
        return bool(found["spec"]["containers"][0]["image"] == "nginx:2")

    await until(edited)
    found = (await stage.on("m1"))["spec"]["template"]
    assert found["metadata"]["labels"] == {"app": "web"}
    await stage.place("demo", m2=2)
    await stage.make_ready("m2")
    await stage.goes("m1")
    moved = (await stage.on("m2"))["spec"]["template"]["metadata"]["labels"]
    assert LABEL_WORKLOAD_UID in moved


@pytest.mark.proves("X7", "IM21")
async def test_what_another_owns_is_never_taken_over(stage: Stage):
    await stage.bring("first", {"m1": 2}, targetDeployment=image("nginx:1"))
    body = image("nginx:1")
    theirs = {f"{OWNER_PREFIX}elsewhere": f"{stage.namespace}/its", "stowage.dev/hub": "x"}
    app = {"apiVersion": "x.dev/v1", "kind": "App", "name": "a", "uid": "1"}
    for name, meta in (
        ("theirs", {"labels": {LABEL_MANAGED: "true"}, "annotations": theirs}),
        ("marked", {"annotations": {"stowage.dev/hub": "another"}}),
        ("made", {"ownerReferences": [{**app, "controller": True}]}),
        ("held", {"ownerReferences": [app]}),
    ):
        await made(stage, DEPLOYMENTS, {**body, "metadata": {"name": name, **meta}})
    names = ("web", "theirs", "marked", "made", "held")
    found = {name: await stage.on("m1", name) for name in names}
    for name, words in (
        ("web", f"belongs to Workload {stage.namespace}/first"),
        ("theirs", "another hub"),
        ("marked", "another hub"),
        ("made", "App a owns it"),
        ("held", "App a owns it"),
    ):
        await stage.create(
            f"wants-{name}",
            adoption=NO_DIFF,
            targetDeployment={**body, "metadata": {"name": name}},
        )
        await stage.place(f"wants-{name}", m1=2)
        await stage.refused(f"wants-{name}", "AlreadyExists", words)
    for name, was in found.items():
        assert await stage.on("m1", name) == was
