"""What is tried again, how often, how long, and how patiently; no second of it is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from machinery.api.client import ApiClient
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ApiError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unreachable,
)
from tests.fakeclock import EagerClock, FakeClock

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Watched(FakeClock):
    """A clock that tells when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Tell, and wait."""
        self.slept.set()
        await super().sleep(seconds)


Answer = Callable[[web.Request], web.StreamResponse]


@asynccontextmanager
async def server(*answers: Answer | int) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that gives these answers and then good ones; its address, and what it was asked."""
    left, asked = list(answers), []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.method)
        await request.read()
        given = left.pop(0) if left else 200
        if isinstance(given, int):
            return web.json_response({"reason": "", "message": "as told"}, status=given)
        return given(request)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def put_off(code: int, after: str) -> Answer:
    return lambda _: web.json_response({}, status=code, headers={"Retry-After": after})


def hang_up(request: web.Request) -> web.StreamResponse:
    """The question has arrived, an answer does not."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def tries(method: str, *answers: Answer | int) -> tuple[int, TransportError | None]:
    """How often a request was sent, and what came out of it in the end."""
    async with server(*answers) as (url, asked):
        async with ApiClient(Connection(url), clock=EagerClock()) as client:
            try:
                await client.request(method, "/api", body={})
            except TransportError as fault:
                return len(asked), fault
        return len(asked), None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 415, 422])
async def test_a_refusal_is_never_tried_again(method: str, code: int) -> None:
    times, fault = await tries(method, code)
    assert times == 1
    assert isinstance(fault, ApiError)
    assert fault.code == code


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_the_servers_own_trouble_is_tried_again_where_nothing_can_have_happened(
    method: str, code: int
) -> None:
    times, fault = await tries(method, code, code)
    if method == "GET":
        assert (times, fault) == (3, None)
    else:
        assert times == 1
        assert isinstance(fault, ServerError)


@pytest.mark.parametrize("method", METHODS)
async def test_a_request_that_was_put_off_is_tried_again_whatever_it_is(method: str) -> None:
    assert await tries(method, 429, 429) == (3, None)


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_change_that_got_no_answer_is_not_made_twice(method: str) -> None:
    times, fault = await tries(method, hang_up)
    assert times == 1
    assert isinstance(fault, Unreachable)


async def test_a_question_that_got_no_answer_is_asked_again() -> None:
    times, fault = await tries("GET", hang_up, hang_up, hang_up)
    assert (times, fault) == (4, None)


@pytest.mark.parametrize("method", METHODS)
async def test_where_nobody_listens_every_request_tries_again_and_then_gives_up(
    method: str,
) -> None:
    async with server() as (url, _):
        pass
    async with ApiClient(Connection(url), clock=EagerClock()) as client:
        with pytest.raises(Unreachable):
            await client.request(method, "/api", body={})
        assert client.requests == 5


async def test_a_server_in_trouble_for_ever_is_given_up() -> None:
    times, fault = await tries("GET", *[503] * 50)
    assert times == 5
    assert isinstance(fault, ServerError)
    times, fault = await tries("PATCH", *[429] * 50)
    assert times == 5
    assert isinstance(fault, TooManyRequests)


@pytest.mark.parametrize(("method", "code"), [("POST", 429), ("GET", 429), ("GET", 503)])
async def test_retry_after_is_waited_for(method: str, code: int) -> None:
    clock = EagerClock()
    async with (
        server(put_off(code, "4"), put_off(code, "3")) as (url, asked),
        ApiClient(Connection(url), clock=clock) as client,
    ):
        await client.request(method, "/api", body={})
    assert len(asked) == 3
    assert clock.waits == [4, 3]


async def test_waits_double_with_jitter() -> None:
    seen: list[list[float]] = []
    for _ in range(8):
        clock = EagerClock()
        async with (
            server(*[503] * 9) as (url, _),
            ApiClient(Connection(url), clock=clock) as client,
        ):
            with pytest.raises(ServerError):
                await client.request("GET", "/api")
        for wait, least in zip(clock.waits, [0.1, 0.2, 0.4, 0.8], strict=True):
            assert least <= wait <= least + 0.1
        seen.append(clock.waits)
    assert len({tuple(waits) for waits in seen}) == 8, "all who failed together come back together"


async def test_a_fault_of_another_kind_meanwhile_ends_it() -> None:
    times, fault = await tries("GET", 503, 404)
    assert times == 2
    assert isinstance(fault, NotFound)


async def test_the_time_that_attempts_take_counts() -> None:
    asked: list[str] = []

    class Passing(EagerClock):
        def monotonic(self) -> float:
            return super().monotonic() + 6 * len(asked)

    async with server(*[put_off(429, "1")] * 9) as (url, seen):
        asked = seen
        async with ApiClient(Connection(url), clock=Passing()) as client:
            with pytest.raises(TooManyRequests):
                await client.request("POST", "/api", body={}, timeout=5)
    assert len(asked) == 2


async def test_a_caller_that_is_cancelled_tries_no_more() -> None:
    clock = Watched()
    async with (
        server(put_off(429, "5")) as (url, asked),
        ApiClient(Connection(url), clock=clock) as client,
    ):
        trying = asyncio.create_task(client.request("POST", "/api", body={}))
        await asyncio.wait_for(clock.slept.wait(), 60)
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        await clock.advance(60)
        assert len(asked) == 1


@pytest.mark.parametrize("after", ["soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "", "²"])
async def test_a_retry_after_that_is_no_number_is_as_none(after: str) -> None:
    clock = EagerClock()
    async with (
        server(put_off(429, after)) as (url, asked),
        ApiClient(Connection(url), clock=clock) as client,
    ):
        await client.request("POST", "/api", body={})
    assert len(asked) == 2
    assert len(clock.waits) == 1
    assert 0.1 <= clock.waits[0] <= 0.2


async def test_a_request_with_little_time_is_tried_again_within_that_only() -> None:
    clock = EagerClock()
    async with (
        server(put_off(429, "3")) as (url, asked),
        ApiClient(Connection(url), clock=clock) as client,
    ):
        with pytest.raises(TooManyRequests):
            await client.request("POST", "/api", body={}, timeout=2)
    assert len(asked) == 1
    assert clock.waits == []


async def test_a_client_that_is_closed_meanwhile_asks_no_more() -> None:
    clock = Watched()
    async with server(503, 503) as (url, asked):
        client = ApiClient(Connection(url), clock=clock)
        trying = asyncio.create_task(client.request("GET", "/api"))
        await asyncio.wait_for(clock.slept.wait(), 60)
        await client.close()
        await clock.advance(10)
        with pytest.raises(TransportError):
            await trying
        assert len(asked) == 1
