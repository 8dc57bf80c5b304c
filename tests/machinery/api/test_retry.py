"""What is tried again, how often, how long, and how patiently; no second of it is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from machinery.api.client import ApiClient
from machinery.api.retry import persist
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    ApiError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unreachable,
)
from tests.fakeclock import EagerClock, FakeClock, settle

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Call:
    """Fails with one fault after the other, then answers; remembers when it was tried."""

    def __init__(self, clock: FakeClock, *faults: Exception, takes: float = 0.0) -> None:
        self._clock = clock
        self._faults = list(faults)
        self._takes = takes
        self.tried: list[float] = []

    async def __call__(self) -> str:
        self.tried.append(self._clock.monotonic())
        if self._takes:
            await self._clock.advance(self._takes)
        if self._faults:
            raise self._faults.pop(0)
        return "answer"


def late(seconds: float | None = None) -> TooManyRequests:
    """The server asks to be left alone, for so long."""
    return TooManyRequests(
        code=429, reason="TooManyRequests", message="slow down", retry_after=seconds
    )


def always(_fault: BaseException) -> bool:
    return True


# --- persist


async def test_it_goes_on_until_it_works() -> None:
    clock = EagerClock()
    call = Call(clock, Unreachable("second"), Unreachable("third"))
    assert await persist(call, Unreachable("first"), worthwhile=always, clock=clock) == "answer"
    assert len(call.tried) == 3


async def test_attempts_are_bounded_the_first_counted_and_the_last_fault_comes_out() -> None:
    clock = EagerClock()
    faults = [Unreachable(str(n)) for n in range(2, 10)]
    call = Call(clock, *faults)
    with pytest.raises(Unreachable, match=r"^4$"):
        await persist(call, Unreachable("1"), worthwhile=always, clock=clock, attempts=4)
    assert len(call.tried) == 3


async def test_only_one_attempt_is_the_one_that_was_made() -> None:
    clock = EagerClock()
    call, first = Call(clock), Unreachable("first")
    with pytest.raises(Unreachable) as caught:
        await persist(call, first, worthwhile=always, clock=clock, attempts=1)
    assert caught.value is first
    assert (call.tried, clock.waits) == ([], [])


async def test_what_is_not_worth_it_is_not_tried_and_not_waited_for() -> None:
    clock = EagerClock()
    call, first = Call(clock), LookupError("first")

    def never(fault: BaseException) -> bool:
        assert fault is first
        return False

    with pytest.raises(LookupError) as caught:
        await persist(call, first, worthwhile=never, clock=clock)
    assert caught.value is first
    assert (call.tried, clock.waits) == ([], [])


async def test_a_fault_of_another_kind_meanwhile_ends_it() -> None:
    clock = EagerClock()
    missing = NotFound(code=404, reason="NotFound", message="gone meanwhile")
    call = Call(clock, Unreachable("second"), missing)

    def worthwhile(fault: BaseException) -> bool:
        return isinstance(fault, Unreachable)

    with pytest.raises(NotFound) as caught:
        await persist(call, Unreachable("first"), worthwhile=worthwhile, clock=clock)
    assert caught.value is missing
    assert len(call.tried) == 2


async def test_waits_double_from_the_delay_with_jitter() -> None:
    seen: list[list[float]] = []
    for _ in range(8):
        clock = EagerClock()
        call = Call(clock, *(Unreachable("again") for _ in range(4)))
        with pytest.raises(Unreachable):
            await persist(
                call, Unreachable("first"), worthwhile=always, clock=clock, delay=0.5, seconds=60
            )
        for wait, least in zip(clock.waits, [0.5, 1, 2, 4], strict=True):
            assert least <= wait <= least + 0.5
        seen.append(clock.waits)
    assert len({tuple(waits) for waits in seen}) == 8, "all who failed together come back together"


async def test_no_attempt_starts_after_the_time_is_over() -> None:
    clock = EagerClock()
    call = Call(clock, *(Unreachable("again") for _ in range(99)))
    with pytest.raises(Unreachable):
        await persist(
            call, Unreachable("first"), worthwhile=always, clock=clock, attempts=99, seconds=7
        )
    assert 4 <= len(call.tried) <= 7
    assert call.tried[-1] <= 7
    assert clock.monotonic() <= 7, "nor is waited for one that would"


async def test_the_time_that_attempts_take_counts() -> None:
    clock = EagerClock()
    call = Call(clock, *(Unreachable("again") for _ in range(9)), takes=4)
    with pytest.raises(Unreachable):
        await persist(
            call, Unreachable("first"), worthwhile=always, clock=clock, attempts=9, seconds=6
        )
    assert len(call.tried) == 2


async def test_no_attempt_starts_before_the_server_wants_it() -> None:
    clock = EagerClock()
    call = Call(clock, late(2), late(0), late())
    assert await persist(call, late(3), worthwhile=always, clock=clock, seconds=60) == "answer"
    first, second, third, fourth = clock.waits
    assert (first, second) == (3, 2)
    assert 0.4 <= third <= 0.5
    assert 0.8 <= fourth <= 0.9
    assert call.tried[0] == 3


async def test_a_server_that_asks_for_more_than_there_is_gets_no_more() -> None:
    clock = EagerClock()
    call, first = Call(clock), late(11)
    with pytest.raises(TooManyRequests) as caught:
        await persist(call, first, worthwhile=always, clock=clock, seconds=10)
    assert caught.value is first
    assert caught.value.retry_after == 11
    assert (call.tried, clock.waits) == ([], [])


async def test_a_caller_that_is_cancelled_tries_no_more() -> None:
    clock = FakeClock()
    call = Call(clock)
    trying = asyncio.create_task(persist(call, late(5), worthwhile=always, clock=clock))
    await settle()
    assert clock.sleeping == 1
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    await clock.advance(60)
    assert call.tried == []


async def test_a_cancellation_of_the_call_itself_is_no_fault_to_try_again() -> None:
    clock = EagerClock()
    tried = 0

    async def cancelled() -> str:
        nonlocal tried
        tried += 1
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await persist(
            cancelled,
            Unreachable("first"),
            worthwhile=lambda fault: isinstance(fault, Exception),
            clock=clock,
        )
    assert tried == 1


# --- which requests


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
    class Watched(FakeClock):
        slept = asyncio.Event()

        async def sleep(self, seconds: float) -> None:
            self.slept.set()
            await super().sleep(seconds)

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
