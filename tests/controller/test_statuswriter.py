"""The status writer: one write under way for an object, whatever comes of it told to its book."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest

from controller.framework.statuswriter import StatusWriter
from machinery.errors import ApiError, Conflict, Invalid, LeaseLost, NotFound, TransportError
from machinery.runtime.store import Cache
from machinery.types.metadata import Key, Meta, Object
from tests.fakeclock import FakeClock, settle

from .licences import POOLS

KEY = ("shop", "cad")


class Counter(Object, frozen=True):
    """A kind whose status is a number and a text."""

    status: dict[str, Any] = msgspec.field(default_factory=dict)


def no(kind: type[ApiError], text: str, code: int = 422) -> ApiError:
    """What an API server refuses with."""
    return kind(code=code, reason="No", message=text)


class Hub:
    """Answers by a script: an error, or "held" until `release`, before it takes a write."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.store = Cache[Counter]()
        self.version = 5
        self.bodies: list[Mapping[str, Any]] = []
        self.reads = 0
        self.release = asyncio.Event()
        self.store.upsert = self.store.observe  # type: ignore[attr-defined]
        self.store.observe(Counter(metadata=Meta(name="cad", namespace="shop")))

    async def request(self, method: str, _path: str, *, body: Any = None, **_how: Any) -> bytes:
        self.version += 1
        if method == "GET":
            self.reads += 1
            return self._stored({"number": 7})
        self.bodies.append(body)
        answer = self.script.pop(0) if self.script else None
        if answer == "held":
            await self.release.wait()
        elif answer is not None:
            raise answer
        return self._stored(body["status"])

    def _stored(self, status: Mapping[str, Any]) -> bytes:
        meta = Meta(name="cad", namespace="shop", resource_version=str(self.version))
        return msgspec.json.encode(Counter(metadata=meta, status=dict(status)))


class Book:
    """Writes `wanted` with a text that it gives up where the hub does not take it."""

    def __init__(self, wanted: int = 1) -> None:
        self.wanted = wanted
        self.text = "long"
        self.said: list[Any] = []

    async def prepare(self, stored: Counter) -> None:
        """Nothing else is written."""

    def draft(self, stored: Counter) -> Mapping[str, Any] | None:
        status = {"number": self.wanted, "text": self.text}
        return None if stored.status == status else status

    def landed(self, key: Key) -> float | None:
        self.said.append("landed")
        return None

    def missed(self, key: Key) -> None:
        self.said.append("missed")
        self.wanted = 8

    def shorter(self, key: Key, error: TransportError) -> bool:
        self.said.append("shorter")
        able, self.text = bool(self.text), ""
        return able

    def given_up(self, key: Key, error: TransportError | None) -> None:
        self.said.append(("over", type(error)))


def writer(hub: Hub, book: Book, *, check: Any = lambda: None) -> StatusWriter[Counter]:
    store = cast("Any", hub.store)
    client, clock = cast("Any", hub), FakeClock()
    return StatusWriter(client, POOLS, Counter, book, store=store, clock=clock, check=check)


OVER = ("over", type(None))


async def test_a_status_is_written_on_the_version_that_was_read_and_only_where_it_differs() -> None:
    hub, book = Hub(), Book()
    made = writer(hub, book)
    await made.sync(KEY)
    await made.sync(KEY)
    (body,) = hub.bodies
    assert body == {"metadata": {"resourceVersion": ""}, "status": {"number": 1, "text": "long"}}
    assert book.said == ["landed", OVER] * 2


async def test_on_a_conflict_the_newer_one_is_read_and_the_next_draft_made_on_it() -> None:
    hub, book = Hub(no(Conflict, "newer", 409)), Book()
    made = writer(hub, book)
    running = asyncio.create_task(made.run())
    made.add(KEY)
    await settle()
    assert hub.reads == 1
    assert [body["status"]["number"] for body in hub.bodies] == [1, 8]
    assert hub.bodies[1]["metadata"]["resourceVersion"] == "7", "the one that was read"
    assert book.said == ["missed", OVER, "landed", OVER]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    "error", [no(Invalid, "schema"), no(ApiError, "etcdserver: request is too large", 500)]
)
async def test_what_the_hub_takes_in_no_form_becomes_shorter_at_once(error: Exception) -> None:
    hub, book = Hub(error), Book()
    await writer(hub, book).sync(KEY)
    assert [body["status"]["text"] for body in hub.bodies] == ["long", ""]
    assert book.said == ["shorter", "landed", OVER]


async def test_one_that_cannot_be_shorter_is_left() -> None:
    hub, book = Hub(no(Invalid, "long"), no(Invalid, "short")), Book()
    assert await writer(hub, book).sync(KEY) is None
    assert book.said == ["shorter", "shorter", OVER]


@pytest.mark.parametrize("error", [TransportError("gone dark"), no(NotFound, "deleted", 404)])
async def test_other_errors_are_the_queues_and_the_book_hears_of_them(error: Exception) -> None:
    hub, book = Hub(error), Book()
    if isinstance(error, NotFound):
        await writer(hub, book).sync(KEY)
        assert book.said == [OVER]
    else:
        with pytest.raises(TransportError):
            await writer(hub, book).sync(KEY)
        assert book.said == [("over", TransportError)]


async def test_nothing_is_written_without_the_lease_and_the_book_hears_of_it() -> None:
    def lost() -> None:
        raise LeaseLost("another leads")

    hub, book = Hub(), Book()
    with pytest.raises(LeaseLost):
        await writer(hub, book, check=lost).sync(KEY)
    assert hub.bodies == []
    assert book.said == [OVER]


@pytest.mark.proves("L17")
async def test_one_that_is_cancelled_in_its_write_leaves_nobody_waiting() -> None:
    hub, book = Hub("held"), Book()
    turn = asyncio.create_task(writer(hub, book).sync(KEY))
    await settle()
    assert len(hub.bodies) == 1
    turn.cancel()
    with suppress(asyncio.CancelledError):
        await turn
    assert book.said == [OVER]


async def test_what_comes_up_in_a_write_goes_into_the_next_one_together() -> None:
    hub, book = Hub("held"), Book()
    made = writer(hub, book)
    running = asyncio.create_task(made.run())
    made.add(KEY)
    await settle()
    for number in range(2, 7):
        book.wanted = number
        made.add(KEY)
        await settle()
    assert len(hub.bodies) == 1
    hub.release.set()
    await settle()
    assert [body["status"]["number"] for body in hub.bodies] == [1, 6]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
