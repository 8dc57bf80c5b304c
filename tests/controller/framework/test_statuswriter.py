"""The status writer: one write under way for an object, and its controller told of the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest

from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import LEAST_WAIT, Result, StatusEvent, StatusWriter
from machinery.errors import (
    ApiError,
    Conflict,
    Invalid,
    LeaseLost,
    NotFound,
    TooLarge,
    TransportError,
)
from machinery.runtime.event_recorder import ObjectRef
from machinery.runtime.store import Cache
from machinery.types.metadata import Key, Meta, Object
from tests.controller.licencepool.feature import POOLS
from tests.fakeclock import FakeClock, settle

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


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[ObjectRef, Mapping[str, Any]]] = []

    def event(self, about: ObjectRef, **said: Any) -> None:
        self.events.append((about, said))


class Controller(StatusWriter[Counter]):
    """Writes `wanted` with a text that it gives up where the hub does not take it."""

    action = "Counting"

    def __init__(self, hub: Hub, *, check: Any = lambda: None) -> None:
        self.recorder, self.clock = Recorder(), FakeClock()
        recorder, client, store = cast("Any", (self.recorder, hub, hub.store))
        super().__init__(Term(client, self.clock, check, lambda _: store, recorder), POOLS, Counter)
        self.wanted = 1
        self.text = "long"
        self.said: list[Any] = []
        self.after: float | None = None

    def draft(self, stored: Counter) -> Result:
        event = StatusEvent("Counted", f"to {self.wanted}", warning=True)
        return Result(
            fields={"number": self.wanted, "text": self.text},
            events=[event],
            requeue_after=self.after,
        )

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        self.said.append("written" if written else "there")

    def conflicted(self, key: Key, result: Result) -> None:
        self.said.append("conflicted")
        self.wanted = 8

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        self.said.append("shorter")
        able, self.text = bool(self.text), ""
        return able

    def failed(self, key: Key, result: Result | None, error: TransportError | None) -> None:
        self.said.append(("failed", type(error)))


FAILED = ("failed", type(None))


async def test_a_status_is_written_on_the_version_that_was_read_and_only_where_it_differs() -> None:
    hub = Hub()
    made = Controller(hub)
    await made.sync(KEY)
    await made.sync(KEY)
    (body,) = hub.bodies
    assert body == {"metadata": {"resourceVersion": ""}, "status": {"number": 1, "text": "long"}}
    assert made.said == ["written", "there"]


async def test_on_a_conflict_the_newer_one_is_read_and_the_next_draft_made_on_it() -> None:
    hub = Hub(no(Conflict, "newer", 409))
    made = Controller(hub)
    running = asyncio.create_task(made.run())
    await settle()
    assert hub.reads == 1
    assert [body["status"]["number"] for body in hub.bodies] == [1, 8]
    assert hub.bodies[1]["metadata"]["resourceVersion"] == "7", "the one that was read"
    assert made.said == ["conflicted", "written"]
    assert [said["note"] for _, said in made.recorder.events] == ["to 8"]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    "error", [no(Invalid, "schema"), no(TooLarge, "etcdserver: request is too large", 500)]
)
async def test_what_the_hub_takes_in_no_form_becomes_shorter_at_once(error: Exception) -> None:
    hub = Hub(error)
    made = Controller(hub)
    await made.sync(KEY)
    assert [body["status"]["text"] for body in hub.bodies] == ["long", ""]
    assert made.said == ["shorter", "written"]


async def test_one_that_cannot_be_shorter_is_left() -> None:
    made = Controller(Hub(no(Invalid, "long"), no(Invalid, "short")))
    assert await made.sync(KEY) is None
    assert made.said == ["shorter", "shorter"]
    assert made.recorder.events == []


@pytest.mark.parametrize("error", [TransportError("gone dark"), no(NotFound, "deleted", 404)])
async def test_other_errors_are_the_queues_and_the_controller_hears_of_them(
    error: Exception,
) -> None:
    made = Controller(Hub(error))
    if isinstance(error, NotFound):
        await made.sync(KEY)
        assert made.said == [FAILED]
    else:
        with pytest.raises(TransportError):
            await made.sync(KEY)
        assert made.said == [("failed", TransportError)]
    assert made.recorder.events == []


async def test_nothing_is_written_without_the_lease_and_the_controller_hears_of_it() -> None:
    def lost() -> None:
        raise LeaseLost("another leads")

    hub = Hub()
    made = Controller(hub, check=lost)
    with pytest.raises(LeaseLost):
        await made.sync(KEY)
    assert hub.bodies == []
    assert made.said == [FAILED]


@pytest.mark.proves("L17")
async def test_one_that_is_cancelled_in_its_write_leaves_nobody_waiting() -> None:
    hub = Hub("held")
    made = Controller(hub)
    turn = asyncio.create_task(made.sync(KEY))
    await settle()
    assert len(hub.bodies) == 1
    turn.cancel()
    with suppress(asyncio.CancelledError):
        await turn
    assert made.said == [FAILED]


async def test_what_comes_up_in_a_write_goes_into_the_next_one_together() -> None:
    hub = Hub("held")
    made = Controller(hub)
    running = asyncio.create_task(made.run())
    await settle()
    for number in range(2, 7):
        made.wanted = number
        made.add(KEY)
        await settle()
    assert len(hub.bodies) == 1
    hub.release.set()
    await settle()
    assert [body["status"]["number"] for body in hub.bodies] == [1, 6]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_events_are_of_the_object_and_the_next_draft_counts_from_the_last_one() -> None:
    hub = Hub("held")
    made = Controller(hub)
    made.after = 5.0
    turn = asyncio.create_task(made.sync(KEY))
    await settle()
    assert made.recorder.events == [], "not before it is stored"
    await made.clock.advance(2)
    hub.release.set()
    assert await turn == 3.0
    (about, said) = made.recorder.events[0]
    assert (about.kind, about.namespace, about.name) == (POOLS.kind, *KEY)
    assert about.api_version == POOLS.api_version
    assert said["type"] == "Warning"
    assert (said["reason"], said["action"], said["note"]) == ("Counted", "Counting", "to 1")
    made.after = -1.0
    assert await made.sync(KEY) == LEAST_WAIT
