"""An informer against a server in memory: what it tells its handlers, what it asks for, and when."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from machinery.api.resources import SECRETS
from machinery.api.verbs import ServerHistory
from machinery.errors import (
    Forbidden,
    Gone,
    ServerError,
    TooManyRequests,
    TransportError,
    Unreachable,
)
from machinery.pace import ServerBudget
from machinery.runtime.informer import (
    CROWD_PAGE,
    HEALTHY_SECONDS,
    LIST_PAGE,
    WATCH_SECONDS,
    Informer,
)
from machinery.tasks import end
from machinery.types.memory_budget import Book, BudgetShare
from machinery.types.metadata import Meta, Object
from tests.fakeclock import FakeClock, settle


class Spec(msgspec.Struct, frozen=True):
    size: int = 0


class Thing(Object, frozen=True):
    spec: Spec = Spec()


async def synced(informer: Informer[Any]) -> None:
    """Wait until it has listed, and has told of it."""
    await informer.wait_synced()
    await settle()


def thing(name: str, version: int, *, uid: str = "", size: int = 0, **labels: str) -> Thing:
    meta = Meta(
        name=name,
        namespace="ns",
        uid=uid or f"uid-{name}",
        resource_version=str(version),
        labels=labels,
    )
    return Thing(metadata=meta, spec=Spec(size=size))


class Server:
    """One resource in memory: objects, their history, and the faults that a test asks for."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.forgotten = 0  # watches from before are refused with 410
        self.page = 1000
        self.lists: list[dict[str, Any]] = []
        self.looks = 0  # how often it was asked for its version
        self.watches: list[dict[str, Any]] = []
        self.list_faults: list[Exception] = []
        self.watch_faults: list[Exception] = []
        self.between_pages: list[Any] = []  # called, or raised, between two pages
        self._streams: list[asyncio.Queue[Any]] = []
        self.pace = ServerBudget(FakeClock())
        self.holding = BudgetShare()
        self.history = ServerHistory()
        self.refused: list[str] = []

    def refuse(self, what: str) -> None:
        self.refused.append(what)

    def put(self, name: str, *, uid: str = "", size: Any = 0) -> dict[str, Any]:
        self.version += 1
        known = name in self.objects
        self.objects[name] = obj = {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": uid or f"uid-{name}",
                "resourceVersion": str(self.version),
            },
            "spec": {"size": size},
        }
        self.emit("MODIFIED" if known else "ADDED", obj)
        return obj

    def remove(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.emit("DELETED", gone)

    def bookmark(self) -> None:
        self.version += 10
        meta = {"resourceVersion": str(self.version)}
        self.emit("BOOKMARK", {"kind": "Secret", "metadata": meta})

    def emit(self, kind: str, obj: dict[str, Any]) -> None:
        event = json.loads(json.dumps({"type": kind, "object": obj}))
        self.events.append((self.version, event))
        self.say(event)

    def say(self, what: Any) -> None:
        """A line as it is, an exception to raise, or None to end the watches."""
        for stream in self._streams:
            stream.put_nowait(what)

    def compact(self) -> None:
        self.forgotten = self.version

    async def latest(self, resource, **selection) -> str:
        self.looks += 1
        return str(self.version)

    async def pages(self, resource, *, limit, **selection) -> AsyncIterator[bytes]:
        self.lists.append({"limit": limit, **selection})
        if self.list_faults:
            raise self.list_faults.pop(0)
        version, items = self.version, list(self.objects.values())
        size = self.page if limit else len(items) or 1
        for start in range(0, max(len(items), 1), size):
            if start and self.between_pages:
                action = self.between_pages.pop(0)
                if isinstance(action, Exception):
                    raise action
                action()
            yield msgspec.json.encode(
                {
                    "metadata": {"resourceVersion": str(version)},
                    "items": items[start : start + size],
                }
            )

    @asynccontextmanager
    async def watch(self, resource, *, resource_version, timeout_seconds, **selection):
        self.watches.append({"from": resource_version, "seconds": timeout_seconds, **selection})
        if self.watch_faults:
            raise self.watch_faults.pop(0)
        if int(resource_version) < self.forgotten:
            raise Gone(code=410, reason="Expired", message="too old resource version")
        stream: asyncio.Queue[Any] = asyncio.Queue()
        for version, event in self.events:
            if version > int(resource_version):
                stream.put_nowait(event)
        self._streams.append(stream)
        try:
            yield self._lines(stream)
        finally:
            self._streams.remove(stream)

    async def _lines(self, stream: asyncio.Queue[Any]) -> AsyncIterator[bytes]:
        while (event := await stream.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event if isinstance(event, bytes) else msgspec.json.encode(event)


class Story:
    """What a handler was told: `+a1` added at size 1, `~a2` changed, `-a` deleted."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, old: Thing | None, new: Thing | None) -> None:
        if new is None:
            assert old is not None
            self.told.append(f"-{old.metadata.name}")
        else:
            self.told.append(f"{'~' if old else '+'}{new.metadata.name}{new.spec.size}")

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def story() -> Story:
    return Story()


def informer_of(server: Server, clock: FakeClock, story: Story, **how: Any) -> Informer[Thing]:
    informer = Informer(server, SECRETS, Thing, clock=clock, jitter=lambda: 0.0, **how)
    informer.add_handler(story)
    return informer


class Waiting(Informer[Thing]):
    """Starts only when a test is ready for it: at `begin`, or when it is first waited for."""

    async def run(self) -> None:
        self.begun = asyncio.Event()
        await self.begun.wait()
        await super().run()

    def begin(self) -> None:
        self.begun.set()

    async def wait_synced(self) -> None:
        self.begin()
        await super().wait_synced()


@pytest.fixture
async def informer(server, clock, story):
    informer = Waiting(server, SECRETS, Thing, clock=clock, jitter=lambda: 0.0)
    informer.add_handler(story)
    running = asyncio.create_task(informer.run())
    await settle()
    yield informer
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def names(informer: Informer[Thing]) -> set[str]:
    return {obj.metadata.name for obj in informer.values()}


async def test_lists_then_follows(server, informer, story):
    server.put("a", size=1)
    assert not informer.synced
    assert informer
    await informer.wait_synced()
    server.put("b")
    server.put("a", size=2)
    server.remove("b")
    await settle()
    assert story.take() == ["+a1", "+b0", "~a2", "-b"]
    assert informer.get(("ns", "a")).spec.size == 2
    assert informer.get(("ns", "b")) is None
    assert len(informer) == 1
    assert len(server.lists) == 1


async def test_a_list_is_a_consistent_read_with_the_selection(server, clock, story):
    informer = informer_of(
        server,
        clock,
        story,
        namespace="ns",
        label_selector="a=b",
        field_selector="metadata.name=x",
        metadata_only=True,
    )
    running = asyncio.create_task(informer.run())
    await synced(informer)
    selection = {
        "namespace": "ns",
        "label_selector": "a=b",
        "field_selector": "metadata.name=x",
        "metadata_only": True,
    }
    assert server.lists == [{"limit": 200, **selection}]
    assert server.watches == [{"from": "100", "seconds": WATCH_SECONDS, **selection}]
    running.cancel()


async def test_an_object_that_is_as_large_as_before_needs_no_further_room(server, clock, story):
    book = Book(1 << 20)
    server.holding = BudgetShare(book)
    server.put("a", size=1)
    informer = informer_of(server, clock, story)
    running = asyncio.create_task(informer.run())
    await synced(informer)
    server.put("a", size=2)  # an event has another length than an item of a list
    await settle()
    book.most = book.total
    server.put("a", size=3)
    await settle()
    assert informer.get(("ns", "a")).spec.size == 3
    server.put("a", uid="uid-b", size=4)  # another one of that name
    await settle()
    assert informer.get(("ns", "a")).spec.size == 4
    assert len(server.watches) == 1
    assert book.total == book.most
    running.cancel()


async def test_resumes_after_a_cut_without_listing(server, informer, clock, story):
    server.put("a")
    await synced(informer)
    server.say(Unreachable("reset"))
    await settle()
    server.put("b")
    server.remove("a")
    await clock.advance(1)
    assert story.take() == ["+a0", "+b0", "-a"]
    assert len(server.lists) == 1
    assert [w["from"] for w in server.watches] == ["101", "101"]


async def test_bookmarks_move_the_moment_of_resumption(server, informer, clock):
    await synced(informer)
    server.bookmark()
    server.say(None)
    await clock.advance(1)
    assert [w["from"] for w in server.watches] == ["100", "110"]


async def test_forgotten_moment_lists_again_and_tells_what_went_away(
    server, informer, clock, story
):
    for name in "abcd":
        server.put(name)
    await synced(informer)
    story.take()
    server.say(Unreachable("reset"))
    await settle()
    server.remove("a")
    server.put("b", size=1)
    server.remove("c")
    server.put("c", uid="another", size=2)
    server.put("e")
    server.compact()
    await clock.advance(1)
    assert sorted(story.take()) == sorted(["-a", "~b1", "-c", "+c2", "+e0"])
    assert len(server.lists) == 2
    assert names(informer) == {"b", "c", "d", "e"}


async def test_expiry_as_an_event_lists_again(server, informer, clock):
    await synced(informer)
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    server.say({"type": "ERROR", "object": status})
    await clock.advance(1)
    assert len(server.lists) == 2


async def test_another_error_event_does_not_list_again(server, informer, clock):
    await synced(informer)
    status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "oh"}
    server.say({"type": "ERROR", "object": status})
    await settle()
    assert isinstance(informer.last_error, ServerError)
    await clock.advance(1)
    assert len(server.lists) == 1
    assert len(server.watches) == 2
    assert informer.last_error is None


async def test_same_name_other_uid_is_a_deletion_and_an_addition(server, informer, story):
    server.put("a")
    await synced(informer)
    story.take()
    server.put("a", uid="another", size=3)
    await settle()
    assert story.take() == ["-a", "+a3"]


async def test_a_relist_is_told_in_the_order_deletion_then_addition(server, informer, clock, story):
    server.put("a")
    await synced(informer)
    server.say(Unreachable("reset"))
    await settle()
    server.remove("a")
    server.put("a", uid="another", size=3)
    server.compact()
    story.take()
    await clock.advance(1)
    assert story.take() == ["-a", "+a3"]


async def test_a_list_half_way_forgotten_is_asked_for_in_one_piece(server, informer, clock, story):
    server.page = 2
    server.between_pages = [Gone(code=410, reason="Expired", message="continue token")]
    for name in "abcde":
        server.put(name)
    informer.begin()
    await settle()
    assert not informer.synced
    await clock.advance(1)
    assert informer.synced
    assert [x["limit"] for x in server.lists] == [200, 0]
    assert story.take() == ["+a0", "+b0", "+c0", "+d0", "+e0"]


async def test_a_list_that_fails_half_way_deletes_nothing(server, informer, clock, story):
    for name in "abcd":
        server.put(name)
    await synced(informer)
    story.take()
    server.page = 2
    server.between_pages = [Unreachable("reset")]
    server.say(Gone(code=410, reason="Expired", message="old"))
    await settle()
    server.remove("a")
    await clock.advance(0.15)
    assert len(server.lists) == 2
    assert story.take() == []
    await clock.advance(1)
    assert len(server.lists) == 3
    assert story.take() == ["-a"]


async def test_a_change_during_a_paged_list_is_not_undone(server, informer, story):
    server.page = 1
    server.put("a", size=1)
    server.put("b", size=1)
    informed = {}

    def meanwhile() -> None:
        answer = server.put("b", size=2)
        created = server.put("c", size=2)
        for obj in (answer, created):
            informer.upsert(msgspec.convert(obj, Thing))
        informed.update(story=story.take())

    server.between_pages = [meanwhile]
    await informer.wait_synced()
    assert informed["story"] == ["+a1", "+b2", "+c2"]
    sizes = {"a": 1, "b": 2, "c": 2}
    assert {obj.metadata.name: obj.spec.size for obj in informer.values()} == sizes
    await settle()
    assert story.take() == []


@pytest.mark.proves("N11")
@pytest.mark.parametrize("cut", [False, True])
async def test_etcd_restored_from_an_older_day(server, informer, clock, story, cut):
    for name in "abc":
        server.put(name, size=9)
    await synced(informer)
    story.take()
    if cut:
        server.say(Gone(code=410, reason="Expired", message="other history"))
        await settle()
    server.version = 50
    server.events.clear()
    server.objects.clear()
    server.put("a", size=1)
    server.put("d", size=1)
    await clock.advance(1)
    # The end of "a" comes before its new life: its generation may be that of another edit.
    told = story.take()
    assert sorted(told) == ["+a1", "+d1", "-a", "-b", "-c"]
    assert told.index("-a") < told.index("+a1")
    assert informer.version == "52"
    server.put("a", size=2)
    await settle()
    assert story.take() == ["~a2"]


@pytest.mark.proves("N11")
@pytest.mark.parametrize("fault", [Unreachable("reset"), None], ids=["reset", "ended politely"])
async def test_a_server_that_comes_back_restored_is_listed(server, informer, clock, story, fault):
    """It takes a watch from the moment that was seen, and shows nothing until that comes."""
    server.put("a", size=9)
    await synced(informer)
    story.take()
    server.say(fault)
    server.version = 50
    server.events.clear()
    server.objects.clear()
    server.put("d", size=1)
    await clock.advance(1)
    assert sorted(story.take()) == ["+d1", "-a"]
    assert server.watches[-1]["from"] == "51"


@pytest.mark.proves("N11")
async def test_a_restored_server_that_has_come_past_what_was_seen_is_listed(
    server, informer, clock, story
):
    """Its own version tells this reader nothing: a watch from there would never show "d"."""
    server.put("a", size=9)
    await synced(informer)
    story.take()
    server.say(Unreachable("reset"))
    server.version = 50
    server.events.clear()
    server.objects.clear()
    server.put("d", size=1)
    server.version = 100
    server.put("a", size=5)  # the very version that was seen, of another history
    server.put("e", size=1)
    server.history.end(0)  # another reader has seen it
    await clock.advance(1)
    assert sorted(story.take()) == ["+d1", "+e1"], "one of the same UID and version is the same"
    server.put("e", size=2)
    server.say(Unreachable("reset"))
    await clock.advance(1)
    assert story.take() == ["~e2"]
    assert (len(server.lists), server.history.number) == (2, 1)


@pytest.mark.proves("N11")
async def test_a_watch_that_lives_ends_with_its_next_line_when_the_history_has_ended(
    server, informer, clock, story
):
    server.put("a", size=9)
    await synced(informer)
    server.objects.pop("a")
    server.history.end(0)
    server.bookmark()
    await clock.advance(1)
    assert story.take()[-1] == "-a"


@pytest.mark.proves("N11")
async def test_a_server_is_asked_for_its_moment_after_a_time_without_run(server, clock):
    informer = Informer(server, SECRETS, Thing, clock=clock, jitter=lambda: 1.0)
    running = asyncio.create_task(informer.run())
    await clock.advance(1.5 * WATCH_SECONDS)
    server.say(None)  # the watch ends in time
    await settle()
    running.cancel()
    server.version = 50
    informer.mistrust()
    running = asyncio.create_task(informer.run())
    await clock.advance(1)
    assert (server.looks, server.history.number, informer.version) == (1, 1, "50")
    running.cancel()


async def test_a_server_is_asked_for_its_moment_only_after_a_cut(server, informer, clock):
    await informer.wait_synced()
    await clock.advance(WATCH_SECONDS)
    server.bookmark()
    server.say(None)
    await clock.advance(1)
    assert (len(server.watches), server.looks) == (2, 0)
    server.say(Unreachable("reset"))
    await clock.advance(1)
    assert (len(server.watches), server.looks) == (3, 1)


@pytest.mark.proves("RB9")
async def test_a_watch_that_ends_in_time_without_a_word_may_have_begun_before_a_restore(
    server, informer, clock
):
    """A server accepts a moment that has not come, and sends neither change nor fault until then."""
    server.put("a")
    await synced(informer)
    server.objects.clear()
    server.events.clear()
    server.version = 50
    await clock.advance(1.5 * WATCH_SECONDS)
    server.say(None)
    await clock.advance(1)
    assert (server.looks, server.history.number, informer.version) == (1, 1, "50")
    assert informer.get(("ns", "a")) is None


async def test_write_through_is_told_once_and_never_goes_back(server, informer, story):
    server.put("a", size=1)
    await synced(informer)
    story.take()
    old = informer.get(("ns", "a"))
    informer.upsert(thing("a", 150, size=5))
    assert story.take() == ["~a5"]
    informer.upsert(thing("a", 140, size=4))
    informer.upsert(thing("a", 150, size=5))
    informer.upsert(old)
    assert story.take() == []
    server.put("a", size=2)  # an event from before our write, which has yet to arrive
    await settle()
    assert story.take() == []
    server.version = 149
    server.put("a", size=5)  # the echo of our write
    await settle()
    assert story.take() == []
    server.put("a", size=6)
    await settle()
    assert story.take() == ["~a6"]


async def test_the_echo_of_a_write_is_not_read_again(server, clock, story):
    read: list[str] = []

    def noted(obj: Thing) -> Thing:
        read.append(obj.metadata.resource_version)
        return obj

    server.put("a", size=1)
    informer = informer_of(server, clock, story, transform=noted)
    running = asyncio.create_task(informer.run())
    await synced(informer)
    answers = [thing("a", 150, size=5), thing("a", 160, size=6)]
    for answer in answers:
        informer.upsert(answer)
    read.clear()
    server.version = 149
    server.put("a", size=5)
    server.version = 159
    server.put("a", size=6)
    await settle()
    assert (read, informer.version) == ([], "160")
    server.put("a", size=7)
    await settle()
    assert read == ["161"]
    assert informer.get(("ns", "a")).spec.size == 7
    running.cancel()


async def test_write_through_does_not_bring_the_dead_back(server, informer, story):
    answer = server.put("a")
    await synced(informer)
    answer = msgspec.convert(answer, Thing)
    server.remove("a")
    await settle()
    story.take()
    informer.upsert(answer)
    assert story.take() == []
    assert len(informer) == 0


async def test_a_late_deletion_does_not_hit_its_successor(server, informer, story):
    server.put("a")
    await synced(informer)
    informer.upsert(thing("a", 200, uid="another"))
    story.take()
    server.remove("a")
    await settle()
    assert story.take() == []
    assert informer.get(("ns", "a")).metadata.uid == "another"


async def test_versions_that_are_no_numbers_are_accepted(server, clock, story):
    informer = informer_of(server, clock, story)
    first, second = (
        Thing(metadata=Meta(name="a", namespace="ns", uid="u", resource_version=version))
        for version in ("x", "c")
    )
    informer.upsert(first)
    informer.upsert(first)
    informer.upsert(second)
    assert story.take() == ["+a0", "~a0"]
    informer.lose(first)
    assert story.take() == ["-a"]


async def test_transform_keeps_less_and_drops(server, clock, story):
    def big_ones(obj: Thing) -> Thing | None:
        return obj if obj.spec.size >= 10 else None

    server.put("small", size=1)
    server.put("big", size=10)
    informer = informer_of(server, clock, story, transform=big_ones)
    running = asyncio.create_task(informer.run())
    await informer.wait_synced()
    server.put("small", size=11)
    server.put("big", size=2)
    server.put("tiny", size=0)
    server.remove("tiny")
    await settle()
    assert story.take() == ["+big10", "+small11", "-big"]
    informer.upsert(thing("small", 500, size=3))
    assert story.take() == ["-small"]
    running.cancel()


async def test_a_relist_drops_what_transform_no_longer_wants(server, clock, story):
    wanted = {"a", "b"}
    server.put("a")
    server.put("b")
    informer = informer_of(
        server, clock, story, transform=lambda o: o if o.metadata.name in wanted else None
    )
    running = asyncio.create_task(informer.run())
    await synced(informer)
    wanted.remove("b")
    server.say(Gone(code=410, reason="Expired", message="old"))
    await clock.advance(1)
    assert story.take() == ["+a0", "+b0", "-b"]
    running.cancel()


async def test_an_object_that_cannot_be_read_stays_as_it_was(
    server, informer, clock, story, caplog
):
    server.put("a", size=1)
    server.put("b", size=1)
    await synced(informer)
    story.take()
    server.put("a", size="a word")
    await settle()
    assert story.take() == []
    server.say(Gone(code=410, reason="Expired", message="old"))
    await clock.advance(1)
    assert len(server.lists) == 2
    assert story.take() == []
    assert informer.get(("ns", "a")).spec.size == 1
    assert caplog.records[0].object == "ns/a"
    server.put("a", size=2)
    server.remove("a")
    await settle()
    assert story.take() == ["~a2", "-a"]


async def test_a_transform_that_fails_is_logged_and_loses_nothing(server, clock, story, caplog):
    def picky(obj: Thing) -> Thing:
        if obj.spec.size > 1:
            raise RuntimeError("too big")
        return obj

    server.put("a", size=1)
    informer = informer_of(server, clock, story, transform=picky)
    running = asyncio.create_task(informer.run())
    await informer.wait_synced()
    server.put("a", size=2)
    server.put("b", size=1)
    await settle()
    assert story.take() == ["+a1", "+b1"]
    assert "too big" in caplog.text
    running.cancel()


async def test_a_handler_that_fails_stops_neither_the_loop_nor_the_others(
    server, informer, story, caplog
):
    def broken(old: Any, new: Any) -> None:
        raise RuntimeError("broken handler")

    informer._handlers.insert(0, broken)
    server.put("a")
    await informer.wait_synced()
    server.put("b")
    await settle()
    assert story.take() == ["+a0", "+b0"]
    assert [record.object for record in caplog.records] == ["ns/a", "ns/b"]
    assert "broken handler" in caplog.text


async def test_a_late_handler_hears_of_everything(server, informer):
    server.put("a", size=3)
    await informer.wait_synced()
    late = Story()
    informer.add_handler(late)
    assert late.take() == ["+a3"]


@pytest.mark.parametrize(
    "line",
    [
        b"<html>",
        b'{"type":"ADDED"',
        b'{"type":"\xff","object":{}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}',
        b'{"type":"DELETED","object":{"metadata":{"name":"\xff"}}}',
        b'{"type":"ERROR","object":{"message":"\xff"}}',
        b'{"type":"ADDED","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"ADDED","object":{"metadata":[]}}',
    ],
    ids=["page", "half", "type", "added", "deleted", "error", "nested", "shape"],
)
async def test_a_line_that_cannot_be_read_ends_the_watch_and_a_list_follows(
    server, informer, clock, story, line
):
    server.put("a", size=1)
    await synced(informer)
    story.take()
    server.objects["b"] = server.objects.pop("a")  # what the line would have told, had it been one
    server.objects["b"]["metadata"]["name"] = "b"
    server.say(line)
    await settle()
    assert isinstance(informer.last_error, TransportError)
    assert story.take() == [], "nothing was learned from it, nothing lost"
    await clock.advance(1)
    assert (len(server.lists), len(server.watches)) == (2, 2)
    assert story.take() == ["+b1", "-a"]
    assert informer.last_error is None


async def test_a_server_that_is_never_understood_is_no_hot_loop(server, informer, clock):
    await informer.wait_synced()
    for _ in range(600):
        server.say(b'{"type":"\xff"}')
        await clock.advance(0.1)
    assert 10 <= len(server.lists) <= 30


async def test_staleness_counts_from_the_last_word(server, informer, clock):
    assert informer.staleness() == math.inf
    await informer.wait_synced()
    await clock.advance(20)
    assert informer.staleness() == 20
    server.bookmark()
    await settle()
    assert informer.staleness() == 0
    server.watch_faults = [Unreachable("down")] * 100
    server.say(Unreachable("reset"))
    await clock.advance(60)
    assert informer.staleness() == 60
    assert informer.synced
    assert isinstance(informer.last_error, Unreachable)


async def test_a_refused_list_backs_off_and_heals(server, informer, clock, caplog):
    refusal = Forbidden(code=403, reason="Forbidden", message="may not list secrets")
    server.list_faults = [refusal] * 12
    informer.begin()
    await clock.advance(60)
    assert 6 <= len(server.lists) <= 12
    assert isinstance(informer.last_error, Forbidden)
    assert caplog.text.count("may not list secrets") == 1  # said once, not at every attempt
    await clock.advance(300)
    assert informer.synced
    assert informer.last_error is None


async def test_retry_after_is_obeyed(server, informer, clock):
    server.list_faults = [
        TooManyRequests(code=429, reason="TooManyRequests", message="slow", retry_after=40)
    ]
    informer.begin()
    await clock.advance(39)
    assert len(server.lists) == 1
    await clock.advance(2)
    assert informer.synced


async def test_a_watch_that_dies_every_second_is_no_hot_loop(server, informer, clock, story):
    await synced(informer)
    for second in range(300):
        server.put("a", size=second)
        server.say(None)
        await clock.advance(1)
    assert len(server.lists) == 1
    assert len(server.watches) <= 120  # at least 2.5 s apart once the back-off has grown
    await clock.advance(6)
    assert story.take()[-1] == "~a299"


async def test_a_moment_always_forgotten_is_no_hot_loop(server, informer, clock):
    server.watch_faults = [Gone(code=410, reason="Expired", message="old")] * 1000
    informer.begin()
    await clock.advance(300)
    assert 20 <= len(server.lists) <= 130


async def test_a_healthy_time_forgives(server, informer, clock):
    await informer.wait_synced()
    server.watch_faults = [Unreachable("down")] * 10
    server.say(Unreachable("reset"))
    while server.watch_faults:
        await clock.advance(1)
    await clock.advance(30)
    assert informer.last_error is None
    await clock.advance(HEALTHY_SECONDS)
    before = len(server.watches)
    server.say(None)
    await clock.advance(0.2)
    assert len(server.watches) == before + 1


async def test_run_again_goes_on_where_it_stood(server, clock, story):
    server.put("a")
    informer = informer_of(server, clock, story)
    for _ in range(2):
        running = asyncio.create_task(informer.run())
        await synced(informer)
        running.cancel()
        await settle()
        server.put("b")
    assert len(server.lists) == 1
    assert story.take() == ["+a0", "+b0"]


async def test_one_step_is_one_list_and_one_watch(server, clock, story):
    informer = informer_of(server, clock, story)
    stepping = asyncio.create_task(informer.step())
    await settle()
    server.say(None)
    await clock.advance(1)
    assert stepping.done()
    assert (len(server.lists), len(server.watches)) == (1, 1)


# --- many watch the same --------------------------------------------------------------------------


@pytest.mark.proves("SC33")
@pytest.mark.parametrize("crowded", [True, False])
async def test_a_crowd_whose_watches_end_together_lists_one_after_the_other(
    server, clock, story, *, crowded: bool
):
    """As after a restart of an API server, or a change of a kind. A first list waits for nothing."""
    given, times, pages = random.Random(33), [], server.pages

    def noted(resource, **how):
        times.append(clock.monotonic())
        return pages(resource, **how)

    server.pages = noted
    crowd = [Informer(server, SECRETS, Thing, clock=clock, jitter=given.random) for _ in range(104)]
    for each in crowd:
        each.crowded = lambda: crowded
    running = [asyncio.create_task(each.run()) for each in crowd]
    await settle()
    assert all(each.synced for each in crowd)
    assert times == [clock.monotonic()] * len(crowd)
    times.clear()
    server.version += 1
    server.compact()
    server.say(Gone(code=410, reason="Expired", message="old"))
    for _ in range(80):
        await clock.advance(0.5)
    await end(running)
    assert len(times) == len(crowd), "each once"
    assert (max(times) - min(times) >= 20) is crowded
    assert {each["limit"] for each in server.lists} == {CROWD_PAGE if crowded else LIST_PAGE}


@pytest.mark.proves("SC33")
async def test_a_server_that_was_set_back_is_looked_at_at_once(server, clock, story):
    informer = Informer(server, SECRETS, Thing, clock=clock, jitter=lambda: 0.9)
    informer.crowded = lambda: True
    running = asyncio.create_task(informer.run())
    await settle()
    server.version -= 50
    server.bookmark()
    await clock.advance(3)
    await end([running])
    assert len(server.lists) == 2


# --- what is put aside ---------------------------------------------------------------------------


class Small:
    """Things below a size are put aside; the size may change."""

    def __init__(self) -> None:
        self.least = 10
        self.told: list[str] = []
        self._decoder = msgspec.json.Decoder(Thing)

    def __call__(self, raw: msgspec.Raw) -> Thing | None:
        found = self._decoder.decode(raw)
        return found if found.spec.size < self.least else None

    def see(self, uid: str, brief: Object | None) -> None:
        self.told.append(f"{uid}{'' if brief is not None else ' gone'}")


@asynccontextmanager
async def sifting(
    server: Server, clock: FakeClock, story: Story, small: Small
) -> AsyncIterator[Any]:
    informer: Informer[Thing] = Informer(server, SECRETS, Thing, clock=clock, aside=small)  # type: ignore[arg-type]
    informer.add_handler(story)
    informer.on_aside(small.see)
    task = asyncio.create_task(informer.run())
    await settle()
    try:
        yield informer
    finally:
        await end([task])


@pytest.mark.proves("SC25")
async def test_what_is_put_aside_is_known_and_comes_back_by_its_event(
    server: Server, clock: FakeClock, story: Story
) -> None:
    small = Small()
    server.put("a", size=1)
    server.put("b", size=20)
    async with sifting(server, clock, story, small) as informer:
        assert (story.take(), {*informer.put_aside}) == (["+b20"], {"uid-a"})
        server.put("a", size=30)
        server.put("b", size=2)
        await settle()
        assert (story.take(), {*informer.put_aside}) == (["+a30", "-b"], {"uid-b"})
        server.remove("b")
        await settle()
        assert (story.take(), {*informer.put_aside}) == ([], set())
        assert small.told == ["uid-a", "uid-b", "uid-b gone"]


@pytest.mark.proves("SC25")
async def test_what_goes_while_nobody_watches_is_no_more_known(
    server: Server, clock: FakeClock, story: Story
) -> None:
    small = Small()
    server.put("a", size=1)
    server.put("b", size=2)
    async with sifting(server, clock, story, small) as informer:
        server.say(None)
        server.objects.pop("a")
        server.put("b", uid="another", size=3)
        server.version += 1
        server.compact()
        await clock.advance(60)
        assert {*informer.put_aside} == {"another"}
        assert {"uid-a gone", "uid-b gone"} <= {*small.told}


@pytest.mark.proves("SC25")
async def test_sifting_takes_up_and_puts_aside_and_brings_nothing_back(
    server: Server, clock: FakeClock, story: Story
) -> None:
    small = Small()
    for name, size in (("a", 1), ("b", 5), ("c", 20), ("d", 5), ("e", 5)):
        server.put(name, size=size)
    server.page = 1
    async with sifting(server, clock, story, small) as informer:
        assert story.take() == ["+c20"]
        small.least = 3

        def meanwhile() -> None:
            """The watch is ahead of the list."""
            server.remove("b")
            server.put("d", size=2)
            server.put("e", size=7)

        server.between_pages.append(meanwhile)
        listing = informer._client.pages

        async def pages(*args: Any, **how: Any) -> AsyncIterator[bytes]:
            async for each in listing(*args, **how):
                await settle()
                yield each

        server.pages = pages  # type: ignore[method-assign]
        await informer.sift()
        server.pages = listing  # type: ignore[method-assign]
        assert {*informer.put_aside} == {"uid-a", "uid-d"}
        assert {(each.metadata.name, each.spec.size) for each in informer.values()} == {
            ("c", 20),
            ("e", 7),
        }
        small.least = 10
        await informer.sift()
        assert {*informer.put_aside} == {"uid-a", "uid-d", "uid-e"}
        assert story.take()[-1] == "-e"
        old = thing("a", 1, size=50)
        informer.take_up(old)
        assert "uid-a" in informer.put_aside, "it was seen in a later state"
        informer.take_up(thing("a", 101, size=50))
        assert informer.get(("ns", "a")) is not None
        informer.list_anew()
        assert not informer.synced
