"""A tenant whose objects hang on a member, beside one whose objects do not."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from machinery.api.resources import NAMESPACES, Resource
from tests.propagator.stage import CONFIGMAPS, MakeStage, Stage, configmap
from tests.propagator.waits import until

WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration", namespaced=False,
)  # fmt: skip
NOISY = "tenant-noisy"
LOUD, WIDE = 12, 16
"""Workloads that hang, more than half the workers, and manifests of each: more than all connections."""


async def pushed(stage: Stage, name: str) -> None:
    """Place a Workload, and wait until its object is on the member."""
    await stage.run(
        name, {"m1": 1}, manifests=[configmap(f"of-{name}", k="v")], adoption="IfUnowned"
    )
    await stage.appears("m1", f"of-{name}", kind=CONFIGMAPS)


@pytest.mark.long
@pytest.mark.proves("S2", "S3")
async def test_manifests_that_hang_hold_up_nobody_else(stage_on: MakeStage) -> None:
    """The member asks a webhook about each ConfigMap of the noisy tenant, which never answers."""
    over = asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1")
    port = silent.sockets[0].getsockname()[1]
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hangs"},
        "webhooks": [
            {
                "name": "hangs.example.com",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                     "operations": ["CREATE", "UPDATE"]}
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NOISY}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }  # fmt: skip
    async with stage_on() as stage:
        noisy = replace(stage, namespace=NOISY)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NOISY}}
        await stage.hub.create(NAMESPACES, body)
        await noisy.space_on("m1")
        await stage.members["m1"].create(WEBHOOKS, hook)
        try:
            for number in range(LOUD):
                manifests = [configmap(f"hangs-{number}-{n}", k="v") for n in range(WIDE)]
                await noisy.create(f"hangs-{number}", manifests=manifests)
                await noisy.place(f"hangs-{number}", m1=1)
            assert stage.process.term is not None
            session = stage.process.term.registry.get("m1")
            assert session is not None
            queue = session.queue

            def at_work() -> int:
                return sum(key[0] == NOISY for key in queue._in_work)

            await until(lambda: at_work() >= 4)
            for number in range(3):
                await pushed(stage, f"beside-{number}")
            assert at_work() <= queue._ready._seats // 2, "it hangs on half the workers"
        finally:
            await stage.members["m1"].delete(WEBHOOKS, "hangs")
            over.set()
            silent.close()
            await silent.wait_closed()
            for number in range(LOUD):
                await noisy.delete(f"hangs-{number}")
            for number in range(LOUD):
                await noisy.gone(f"hangs-{number}")
