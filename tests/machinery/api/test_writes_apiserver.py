"""What a real API server does with writes, where that is not what one would guess."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from machinery.api.client import ApiClient
from machinery.api.resources import CONFIG_MAPS, Resource
from machinery.errors import NotFound, ServerError, TooLarge
from stowage.playground.controlplanes import Cluster
from tests.definitions import definition
from tests.machinery.certificates import Authority, server_context

WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    namespaced=False,
)
DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
HELD = "held-by-admission"


@pytest.fixture
async def client(apiserver: Cluster) -> AsyncIterator[ApiClient]:
    async with ApiClient(apiserver.connection(), timeout=60.0) as client:
        yield client


@asynccontextmanager
async def admission(client: ApiClient, directory: Path) -> AsyncIterator[asyncio.Queue[Any]]:
    """Holds each ConfigMap with the name HELD until `set` is called on the event in the queue."""
    arrived: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    authority = Authority()

    async def review(request: web.Request) -> web.Response:
        asked = await request.json()
        answer = asyncio.Event()
        await arrived.put(answer)
        await answer.wait()
        response = {"uid": asked["request"]["uid"], "allowed": True}
        return web.json_response({**asked, "response": response})

    app = web.Application()
    app.router.add_post("/", review)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = server_context(authority.pair("webhook", "127.0.0.1"), directory)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    hook = {
        "name": "held.example.com",
        "clientConfig": {
            "url": f"https://127.0.0.1:{runner.addresses[0][1]}/",
            "caBundle": base64.b64encode(authority.pem).decode(),
        },
        "rules": [{**rule, "operations": ["CREATE"]}],
        "matchConditions": [{"name": "held", "expression": f"object.metadata.name == '{HELD}'"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        "failurePolicy": "Fail",
    }
    try:
        await client.create(WEBHOOKS, {"metadata": {"name": "held"}, "webhooks": [hook]})
        yield arrived
    finally:
        await client.delete(WEBHOOKS, "held")
        await runner.cleanup()


@pytest.mark.proves("RB24", "SC7")
async def test_a_write_ends_on_the_server_with_the_right_to_make_it(
    apiserver: Cluster, client: ApiClient, tmp_path: Path
) -> None:
    """Also where its client is not heard any more: here it would have waited for a minute."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": HELD}}
    async with (
        admission(client, tmp_path) as arrived,
        ApiClient(apiserver.connection(), timeout=60.0, before_write=lambda: 2.0) as ours,
    ):
        writing = asyncio.create_task(ours.apply(CONFIG_MAPS, body, name=HELD, namespace="default"))
        held = asyncio.create_task(arrived.get())
        # A webhook that is not known to the server yet lets the write through.
        await asyncio.wait([writing, held], return_when=asyncio.FIRST_COMPLETED)
        while writing.done():
            writing.result()
            await client.delete(CONFIG_MAPS, HELD, namespace="default")
            writing = asyncio.create_task(
                ours.apply(CONFIG_MAPS, body, name=HELD, namespace="default")
            )
            await asyncio.wait([writing, held], return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(ServerError) as ended:
            await writing
        assert ended.value.code == 504
        (await held).set()
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, HELD, namespace="default")


@pytest.mark.proves("RB6")
@pytest.mark.parametrize("mebibytes", [1.7, 2.5, 3.5], ids=["etcd", "its client", "the server"])
async def test_what_is_too_large_to_be_stored_is_told_from_a_fault_of_the_store(
    client: ApiClient, mebibytes: float
) -> None:
    """A CRD is a kind without a limit of its own that every server has."""
    schema = {"type": "object", "description": "x" * int(mebibytes * 2**20)}
    body = definition(
        Resource("example.com", "v1", "larges", "Large", namespaced=False), schema=schema
    )
    body["spec"]["versions"][0]["served"] = False
    with pytest.raises(TooLarge):
        await client.apply(DEFINITIONS, body, name="larges.example.com")
