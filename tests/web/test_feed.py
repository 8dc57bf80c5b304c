"""What open pages are told: names alone, seldom, and never more than they can take."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from machinery.api.resources import LEASES, MEMBER_CLUSTERS, WORKLOADS
from stowage.web import live
from stowage.web.live import LiveFeed, Look
from stowage.web.narrowing import EVERYTHING, NarrowedSnapshot
from stowage.web.snapshot import HubSnapshot, StoredObject
from tests.fakeclock import FakeClock

pytestmark = pytest.mark.proves("V8")


def change(snapshot: HubSnapshot, name: str, namespace: str = "shop", res: Any = WORKLOADS) -> None:
    metadata = {"name": name, "namespace": namespace if res.namespaced else ""}
    snapshot.put(res, {"metadata": metadata, "spec": {"secret": "of an object"}})


def told(piece: bytes) -> tuple[str, str, dict[str, Any]]:
    found = re.fullmatch(rb"event: (\w+)\nid: (\S+)\ndata: (.*)\n\n", piece)
    assert found, piece
    return found[1].decode(), found[2].decode(), msgspec.json.decode(found[3])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def snapshot() -> HubSnapshot:
    return HubSnapshot()


@pytest.fixture
def feed(snapshot: HubSnapshot, clock: FakeClock) -> LiveFeed:
    return LiveFeed(snapshot, clock=clock)


async def opened(
    feed: LiveFeed, last: str = "", session: str = "s", look: Look | None = None
) -> AsyncGenerator[bytes]:
    async def everything() -> NarrowedSnapshot:
        return NarrowedSnapshot(feed._snapshot, EVERYTHING)

    stream = feed.stream(session, last, look or everything)
    assert await anext(stream) == b"retry: 1000\n\n"
    return stream


async def test_many_and_long_names_are_told_as_many(feed: LiveFeed, snapshot: HubSnapshot) -> None:
    stream = await opened(feed)
    for n in range(live.MOST_KEYS + 1):
        change(snapshot, f"web-{n}")
    change(snapshot, "m1", res=MEMBER_CLUSTERS)
    _, _, data = told(await anext(stream))
    assert data["kinds"] == {"clusters": ["m1"], "workloads": "many"}
    other = LiveFeed(snapshot)
    stream = await opened(other)
    for n in range(60):
        change(snapshot, f"{n}-" + "x" * 240)
    piece = await anext(stream)
    assert told(piece)[2]["kinds"] == {"workloads": "many"}
    await stream.aclose()


async def test_who_comes_back_is_told_what_was_missed(
    feed: LiveFeed, snapshot: HubSnapshot
) -> None:
    stream = await opened(feed)
    change(snapshot, "a")
    _, last, _ = told(await anext(stream))
    await stream.aclose()
    change(snapshot, "b")
    change(snapshot, "c")
    again = await opened(feed, last)
    assert told(await anext(again))[2]["kinds"] == {"workloads": ["shop/b", "shop/c"]}
    await again.aclose()
    elsewhere = await opened(feed, "0badf00d-3")
    assert told(await anext(elsewhere))[0] == "reset"
    await elsewhere.aclose()
    for n in range(live.REMEMBERED + 1):
        change(snapshot, f"d{n}")
    late = await opened(feed, last)
    assert told(await anext(late))[0] == "reset"
    await late.aclose()


async def test_leases_are_no_news_and_ends_are(feed: LiveFeed, snapshot: HubSnapshot) -> None:
    change(snapshot, "stowage-controller", res=LEASES)
    assert snapshot.revision == 0
    change(snapshot, "a")
    stream = await opened(feed)
    snapshot.change(WORKLOADS, snapshot_of(snapshot, "a"), None)
    assert told(await anext(stream))[2]["kinds"] == {"workloads": ["shop/a"]}
    assert not list(snapshot.each(WORKLOADS, StoredObject))
    await stream.aclose()


def snapshot_of(snapshot: HubSnapshot, name: str) -> StoredObject:
    return snapshot.read(WORKLOADS, name, "shop", StoredObject)


async def test_a_session_has_a_few_streams_and_the_oldest_ends(feed: LiveFeed) -> None:
    streams = [await opened(feed) for _ in range(live.STREAMS_OF_SESSION)]
    waiting = asyncio.create_task(anext(streams[0], None))
    await asyncio.sleep(0)
    last = await opened(feed)
    assert await asyncio.wait_for(waiting, 5) is None
    other = await opened(feed, session="t")
    feed.close()
    for each in (*streams[1:], last, other):
        assert await asyncio.wait_for(anext(each, None), 5) is None
    assert feed.makes_room("t")


@pytest.mark.proves("A26")
async def test_who_has_most_streams_makes_room_for_others(
    feed: LiveFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 4)
    many = [await opened(feed, session="many") for _ in range(3)]
    assert feed.makes_room("one")
    first = await opened(feed, session="one")
    assert not feed.makes_room("many"), "who has most gets no more"
    assert feed.makes_room("two")
    assert await asyncio.wait_for(anext(many[0], None), 5) is None, "the oldest of them ended"
    second = await opened(feed, session="two")
    assert feed.makes_room("three")
    third = await opened(feed, session="three")
    assert not feed.makes_room("four"), "each has one"
    for each in (*many, first, second, third):
        await each.aclose()
