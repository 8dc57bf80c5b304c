"""Fields that are the member's own, and values that are told of it, on real API servers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.errors import Invalid, NotFound
from tests.definitions import definition
from tests.propagator.stage import (
    DEPLOYMENTS,
    Stage,
    changes,
    configmap,
    deployment,
    settled,
)
from tests.propagator.waits import until

RAY = Resource("ray.example.com", "v1", "rayclusters", "RayCluster")
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = definition(RAY)
SCALER = "horizontal-autoscaler"


async def write(stage: Stage, kind: Resource, name: str, spec: dict[str, Any], **how: str) -> None:
    """As another manager on m1."""
    await stage.members["m1"].request(
        "PATCH",
        kind.path(stage.namespace, name, *how.values()),
        params={"fieldManager": SCALER},
        body={"spec": spec},
        content_type="application/merge-patch+json",
    )


async def defined(member: ApiClient, namespace: str) -> None:
    definitions = await member.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    await member.create(definitions, DEFINITION)

    async def served() -> bool:
        with suppress(NotFound):
            await member.list(RAY, namespace=namespace)
            return True
        return False

    await until(served)


def ray(image: str, *, size: int = 1) -> dict[str, Any]:
    workers = {"groupName": "gpu", "replicas": size, "image": image}
    return {
        "apiVersion": "ray.example.com/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {"workers": [{"groupName": "cpu", "image": image}, workers]},
    }


def scaled(image: str, replicas: int) -> dict[str, Any]:
    return deployment("idle", image=image, replicas=replicas)


@pytest.mark.long
@pytest.mark.proves("KD56", "KD57", "KD69", "KD85")
async def test_what_others_on_a_member_wrote_stays_and_its_status_is_told(stage: Stage):
    m1 = stage.members["m1"]
    await defined(m1, stage.namespace)
    spec = {
        "ignoreFields": [
            {"paths": ["spec.workers[*].replicas", "spec.paused"]},
            {"target": {"kind": "Deployment", "name": "idle"}, "paths": ["spec.replicas"]},
        ],
        "statusFields": [
            {"name": "phase", "path": "status.phase"},
            {
                "name": "idle",
                "target": {"kind": "Deployment", "name": "idle"},
                "path": "status.replicas",
            },
        ],
    }
    await stage.bring("ray", {"m1": 1}, template=ray("a"), manifests=[scaled("a", 2)], **spec)

    # An atomic list is written as a whole.
    workers = [
        {"groupName": "cpu", "image": "a", "replicas": 4},
        {"groupName": "gpu", "image": "a", "replicas": 7},
    ]
    await write(stage, RAY, "ray", {"workers": workers, "paused": True})
    await write(stage, DEPLOYMENTS, "idle", {"replicas": 0}, subresource="scale")
    await m1.merge_patch(
        RAY, "ray", {"status": {"phase": "x" * 300}}, namespace=stage.namespace,
        subresource="status",
    )  # fmt: skip

    async def told() -> bool:
        fields = (await stage.share("ray", "m1")).get("fields", {})
        return bool(fields == {"phase": "x" * 255 + "…"})

    await until(told, what=lambda: None)
    await settled(stage)
    before = await changes(m1)
    await stage.restarted()
    await settled(stage)
    assert (await changes(m1)) - before == {}, "nothing is fought over"

    async def stands(image: str, cpu: int, gpu: int, idle: int) -> None:
        async def there() -> bool:
            found = await stage.on("m1", "ray", kind=RAY)
            other = await stage.on("m1", "idle")
            assert found is not None
            assert other is not None
            return bool(
                found["spec"]["workers"]
                == [
                    {"groupName": "cpu", "image": image, "replicas": cpu},
                    {"groupName": "gpu", "image": image, "replicas": gpu},
                ]
                and found["spec"]["paused"]
                and other["spec"]["replicas"] == idle
            )

        await until(there)

    await stands("a", 4, 7, 0)
    for image in ("b", "c"):  # the second one is written over what the first one sent back
        edit = {"template": ray(image), "manifests": [scaled(image, 2)]}
        await stage.patch("ray", {"spec": edit})
        await stands(image, 4, 7, 0)
    await stage.propagated("ray")
    assert not (await stage.status("ray")).get("drift")
    await stage.patch("ray", {"spec": {"manifests": [scaled("c", 3)]}})
    await stands("c", 4, 7, 3)
    await write(stage, DEPLOYMENTS, "idle", {"replicas": 0}, subresource="scale")
    await settled(stage)
    await stands("c", 4, 7, 0)

    # What drifts beside it is mended, and wakes nothing.
    drifted = deployment("idle", image="other")["spec"]["template"]
    await write(stage, DEPLOYMENTS, "idle", {"template": drifted})
    wanted = scaled("c", 3)["spec"]["template"]["spec"]["containers"][0]["image"]

    async def mended() -> bool:
        found = await stage.on("m1", "idle")
        assert found is not None
        return bool(found["spec"]["template"]["spec"]["containers"][0]["image"] == wanted)

    await until(mended)
    await stands("c", 4, 7, 0)
    await stage.end("ray")
    definitions = await m1.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    await m1.delete(definitions, "rayclusters.ray.example.com")


@pytest.mark.proves("KD58")
async def test_what_is_ours_is_ignored_nowhere(stage: Stage):
    for path, words in (
        ("spec.replicas", "number of units is Stowage's"),
        ("spec.selector.matchLabels", "the selector"),
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
