"""Informers against real API servers: cut, killed, frozen, compacted, and busy."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, SECRETS
from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types.metadata import Object
from stowage.playground.controlplanes import Cluster
from tests.patience import until
from tests.relay import Relay


class Secret(Object, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class Client(ApiClient):
    """Counts lists and watches apart."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.lists = 0
        self.watches = 0

    def pages(self, *args: Any, **how: Any) -> Any:
        self.lists += 1
        return super().pages(*args, **how)

    def watch(self, *args: Any, **how: Any) -> Any:
        self.watches += 1
        return super().watch(*args, **how)


class Story:
    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, old: Object | None, new: Object | None) -> None:
        sign = "-" if new is None else "~" if old else "+"
        self.told.append(f"{sign}{(new or old).metadata.name}")

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told


@asynccontextmanager
async def running(*informers: Informer[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        yield
    finally:
        assert not any(task.done() for task in tasks)
        await end(tasks)


async def restart(cluster: Cluster) -> None:
    """Kill and start from this thread: what is started dies with the thread that started it."""
    cluster.restart(wait=False)
    await until(lambda: asyncio.to_thread(cluster.ready), every=0.1)


def secret(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": data,
    }


@pytest.fixture
async def direct(apiserver) -> AsyncIterator[ApiClient]:
    async with ApiClient(apiserver.connection(), name="direct") as client:
        yield client


@pytest.fixture
async def namespace(direct, request) -> str:
    return await new_namespace(direct)


async def new_namespace(client: ApiClient) -> str:
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "informer-"}})
    return str(made["metadata"]["name"])


async def test_a_watch_cut_after_every_event(apiserver, direct, namespace):
    story, cuts = Story(), 3
    async with (
        Relay(apiserver.port) as relay,
        Client(relay.through(apiserver.connection()), name="informer") as client,
    ):
        informer = Informer(client, SECRETS, Object, namespace=namespace)
        informer.add_handler(story)
        async with running(informer):
            await informer.wait_synced()
            for number in range(cuts):
                await direct.create(SECRETS, secret(f"s{number}"), namespace=namespace)
                await until(lambda known=number + 1: len(informer) == known)
                relay.cut()
            assert client.watches <= cuts
            await until(lambda: len(informer) == cuts)
        assert sorted(story.take()) == sorted(f"+s{number}" for number in range(cuts))
        assert client.lists == 1


@pytest.mark.long
async def test_killed_restarted_and_compacted(apiserver, control_planes, monkeypatch):
    """The server has forgotten where we stood: deletions meanwhile are told all the same."""
    monkeypatch.setattr("machinery.runtime.informer.MOST_DELAY_FAILED", 0.5)
    story = Story()
    async with (
        ApiClient(apiserver.connection(), name="direct") as direct,
        Relay(apiserver.port) as relay,
        Client(relay.through(apiserver.connection()), name="informer") as client,
    ):
        namespace = await new_namespace(direct)
        for name in "abc":
            await direct.create(SECRETS, secret(name), namespace=namespace)
        informer = Informer(client, SECRETS, Object, namespace=namespace)
        informer.add_handler(story)
        async with running(informer):
            await informer.wait_synced()
            relay.refusing = True
            relay.cut()
            await direct.delete(SECRETS, "a", namespace=namespace)
            await direct.delete(SECRETS, "b", namespace=namespace)
            await direct.create(SECRETS, secret("b", new="yes"), namespace=namespace)
            made = await direct.create(SECRETS, secret("d"), namespace=namespace)
            apiserver.kill()
            compact(control_planes, int(made["metadata"]["resourceVersion"]))
            await restart(apiserver)
            relay.refusing = False
            await until(lambda: informer.get((namespace, "d")))
            await until(lambda: informer.last_error is None)
        told = story.take()
        assert sorted(told[:3]) == ["+a", "+b", "+c"]
        assert sorted(told[3:]) == ["+b", "+d", "-a", "-b"]
        assert told.index("-b") < len(told) - 1 - told[::-1].index("+b")
        assert client.lists == 2


def compact(planes, revision: int) -> None:
    body = json.dumps({"revision": revision, "physical": True}).encode()
    url, context = f"{planes.endpoint}/v3/kv/compaction", planes.etcd_client()
    with urllib.request.urlopen(url, body, timeout=10, context=context) as answer:
        assert answer.status == 200


async def test_metadata_alone(apiserver, direct, namespace):
    await direct.create(SECRETS, secret("a", password="hidden"), namespace=namespace)
    async with ApiClient(apiserver.connection(), name="informer") as client:
        informer = Informer(client, SECRETS, Secret, namespace=namespace, metadata_only=True)
        async with running(informer):
            await informer.wait_synced()
            await direct.create(SECRETS, secret("b", password="hidden"), namespace=namespace)
            await until(lambda: len(informer) == 2)
        assert [obj.data for obj in informer.values()] == [{}, {}]


async def test_selectors_choose_and_unchoose(apiserver, direct, namespace):
    story = Story()
    async with ApiClient(apiserver.connection(), name="informer") as client:
        informer = Informer(client, SECRETS, Object, namespace=namespace, label_selector="x=y")
        informer.add_handler(story)
        async with running(informer):
            await informer.wait_synced()
            await direct.create(SECRETS, secret("a"), namespace=namespace)
            for value in ("y", "z"):
                patch = {"metadata": {"labels": {"x": value}}}
                await direct.merge_patch(SECRETS, "a", patch, namespace=namespace)
            await until(lambda: len(story.told) == 2)
    assert story.take() == ["+a", "-a"]
