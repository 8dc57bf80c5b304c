"""The client against a server that misbehaves on purpose, and against a real one over TLS."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from machinery.api import client as transport
from machinery.api import connections
from machinery.api.acting import Acting, Fenced
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES
from machinery.config.kubeconfig import Connection
from machinery.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    LeaseLost,
    NotFound,
    ServerError,
    Unauthorized,
    Unreachable,
)
from stowage.playground.controlplanes import Cluster
from tests.patience import until
from tests.relay import Relay

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A plain server on a free port; its address."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def status(code: int, reason: str, message: str = "no", **headers: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)


class Failing:
    """Fails so many times, then answers; counts by method."""

    def __init__(self, *answers: Callable[[], web.StreamResponse]) -> None:
        self.answers = list(answers)
        self.seen: Counter[str] = Counter()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.seen[request.method] += 1
        await request.read()
        return self.answers.pop(0)() if self.answers else web.json_response({"ok": True})


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
    ],
)
async def test_a_refusal_is_the_error_of_its_code(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    handler = Failing(lambda: status(code, reason, "the server's words"))
    async with serving(handler) as url, ApiClient(Connection(url)) as client:
        with pytest.raises(expected, match="the server's words") as caught:
            await client.request("POST", "/api", body={})
        assert caught.value.code == code


async def test_a_page_of_a_proxy_is_quoted_in_part_and_printable() -> None:
    page = "<html>\x00bad gateway" + "x" * 10_000
    handler = Failing(lambda: web.Response(status=502, text=page))
    async with serving(handler) as url, ApiClient(Connection(url)) as client:
        with pytest.raises(ServerError, match="bad gateway") as caught:
            await client.request("PATCH", "/api", body={})
        assert len(str(caught.value)) < 400
        assert "\x00" not in str(caught.value)


async def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(hang) as url, ApiClient(Connection(url), timeout=0.3) as client:
        with pytest.raises(Unreachable, match="no answer in time"):
            await client.request("PATCH", "/api", body={})


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(half) as url, ApiClient(Connection(url)) as client:
        with pytest.raises(Unreachable):
            await client.request("POST", "/api", body={})
        assert client.requests == 1


class Wire:
    """A server without a library between it and the wire: what it does is done on the socket.

    It answers the first `answered` requests of each connection, and hangs up on the next: with a
    farewell, or with a reset where `abort` is set. `seen` are the requests that arrived whole.
    """

    def __init__(self, *, answered: int, abort: bool = False) -> None:
        self.answered = answered
        self.abort = abort
        self.seen: list[str] = []
        self.connections: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for number in itertools.count():
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(length[1]) if length else 0)
                self.seen.append(head.split(b" ")[0].decode())
                if number >= self.answered:
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        if self.abort:
            writer.transport.abort()
        writer.close()

    def hang_up(self) -> None:
        """Close what is idle, before the client's side of the loop can hear of it."""
        for writer in self.connections:
            held = writer.get_extra_info("socket")
            held.shutdown(socket.SHUT_RDWR)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        async with server, ApiClient(Connection(f"http://{host}:{port}")) as client:
            yield client


@pytest.mark.parametrize("body", [{}, {"much": "x" * 2 * transport.STREAMED_BODY}])
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_change_is_on_the_wire_once_however_the_server_hangs_up(
    method: str, abort: bool, body: dict[str, str]
) -> None:
    wire = Wire(answered=0, abort=abort)
    async with wire.client() as client:
        with pytest.raises(Unreachable):
            await client.request(method, "/api", body=body)
        assert wire.seen == [method]
        assert client.requests == 1


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_change_on_a_connection_used_before_is_on_the_wire_once(method: str) -> None:
    wire = Wire(answered=1)
    async with wire.client() as client:
        await client.request("GET", "/api")
        with pytest.raises(Unreachable):
            await client.request(method, "/api", body={})
        assert wire.seen == ["GET", method]
        assert client.requests == 2


async def test_every_question_on_the_wire_is_counted() -> None:
    wire = Wire(answered=1)
    async with wire.client() as client:
        for _ in range(3):
            assert await client.request("GET", "/api") == b"{}"
        assert client.requests == len(wire.seen) == 5


async def test_a_watch_without_an_answer_is_asked_for_once() -> None:
    wire = Wire(answered=0)
    async with wire.client() as client:
        with pytest.raises(Unreachable, match="disconnected"):
            async with client.watch(NAMESPACES, resource_version="1"):
                pass
        assert wire.seen == ["GET"]
        assert client.requests == 1


async def test_a_connection_closed_while_idle_is_no_fault_of_a_question() -> None:
    wire = Wire(answered=9)
    async with wire.client() as client:
        await asyncio.gather(*(client.request("GET", "/api") for _ in range(4)))
        wire.hang_up()
        assert await client.request("GET", "/api") == b"{}"


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_change_on_a_connection_closed_at_that_moment_may_have_arrived(method: str) -> None:
    """From here nobody can tell whether the server read it before it closed."""
    wire = Wire(answered=9)
    async with wire.client() as client:
        await client.request("GET", "/api")
        wire.hang_up()
        with pytest.raises(Unreachable):
            await client.request(method, "/api", body={})
        assert client.requests == 2
        assert await client.request(method, "/api", body={}) == b"{}"
        assert wire.seen == ["GET", method], "the next one has a connection of its own"


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_connection_known_to_be_closed_is_not_used_for_a_change(method: str) -> None:
    wire = Wire(answered=9)
    async with wire.client() as client:
        await client.request("GET", "/api")
        wire.hang_up()
        (idle,) = client._pool.connector._conns.values()
        await until(lambda: not any(each.is_connected() for each, _ in idle))
        assert await client.request(method, "/api", body={}) == b"{}"
        assert wire.seen == ["GET", method]


async def test_no_redirect_is_followed_with_our_credentials() -> None:
    elsewhere = Failing()
    async with serving(elsewhere) as other:

        async def redirect(_: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": other})

        async with (
            serving(redirect) as url,
            ApiClient(Connection(url, token="secret-token")) as client,
        ):
            with pytest.raises(ApiError):
                await client.request("GET", "/api")
    assert not elsewhere.seen


async def test_so_many_requests_at_once_and_watches_beside_them() -> None:
    under_way, most, go = 0, 0, asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b'{"type":"BOOKMARK"}\n')
            with suppress(ConnectionError):
                await asyncio.sleep(30)
            return response
        under_way += 1
        most = max(most, under_way)
        await go.wait()
        under_way -= 1
        return web.json_response({})

    async with serving(slow) as url, ApiClient(Connection(url), limit=3) as client:
        async with client.watch(NAMESPACES, resource_version="1") as lines:
            assert await anext(lines) == b'{"type":"BOOKMARK"}'
            asking = [asyncio.create_task(client.request("GET", "/api")) for _ in range(12)]
            await until(lambda: under_way == 3)
            async with client.watch(NAMESPACES, resource_version="1") as more:
                assert await anext(more) == b'{"type":"BOOKMARK"}', "what came before has come"
            go.set()
            await asyncio.gather(*asking)
        assert most == 3


async def test_a_closed_client_sends_nothing_more() -> None:
    handler = Failing()
    async with serving(handler) as url:
        client = ApiClient(Connection(url))
        await client.close()
        with pytest.raises(Unreachable, match="closed"):
            await client.request("GET", "/api")
        await client.close()
    assert not handler.seen


async def test_closing_in_a_task_that_is_cancelled_leaves_no_connection() -> None:
    handler = Failing()
    async with serving(handler) as url:
        client = ApiClient(Connection(url))
        await client.request("GET", "/api")
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        await until(lambda: client._pool is not None and client._pool.closed)


async def test_who_is_cancelled_as_the_time_of_a_request_is_over_ends() -> None:
    """Both come in one turn of a loop that was held up; a task that went on would keep its process.

    aiohttp, which counts them down by one timer entered twice, would take both for its own.
    """

    async def hang(_: web.Request) -> web.StreamResponse:
        arrived.set()
        await let_go.wait()
        return web.Response()

    arrived, let_go = asyncio.Event(), asyncio.Event()
    async with serving(hang) as url, ApiClient(Connection(url), timeout=0.3) as client:
        for method in ("GET", "PATCH"):
            asking = asyncio.create_task(client.request(method, "/api"))
            while True:
                await arrived.wait()
                arrived.clear()
                time.sleep(0.4)  # noqa: ASYNC251 - the loop stands still, as on a busy machine
                await asyncio.sleep(0)
                if not asking.done():
                    break
                with suppress(Unreachable):  # the machine itself was so slow: once more
                    await asking
                asking = asyncio.create_task(client.request(method, "/api"))
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled(), method
        let_go.set()


@pytest.mark.long
@pytest.mark.proves("D2")
async def test_an_idle_connection_sets_little_memory_aside(
    apiserver: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio sets a buffer aside for each connection: a release that asks for it in another way
    would bring 256 KiB a watch back without a word."""
    made: list[sslproto.SSLProtocol] = []
    init = sslproto.SSLProtocol.__init__

    def note(self: sslproto.SSLProtocol, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(sslproto.SSLProtocol, "__init__", note)
    async with ApiClient(apiserver.connection()) as client:
        listed = await client.list(NAMESPACES)
        assert any(each["metadata"]["name"] == "default" for each in listed["items"])
        await asyncio.gather(*(client.list(NAMESPACES) for _ in range(3)))
        assert len(made) > 1
        buffers = {id(each._ssl_buffer): len(each._ssl_buffer) for each in made}  # type: ignore[attr-defined]
        assert list(buffers.values()) == [connections.TLS_BUFFER], "one for all of them"


async def test_a_watch_goes_on_over_the_connection_of_its_list(apiserver: Cluster) -> None:
    async with ApiClient(apiserver.connection()) as client:
        listed = await client.list(NAMESPACES)
        (key,) = client._pool.connector._conns
        (idle,) = (each for each, _ in client._pool.connector._conns[key])
        version = listed["metadata"]["resourceVersion"]
        async with client.watch(NAMESPACES, resource_version=version):
            (held,) = client._pool.connector._acquired
            assert held is idle


async def test_a_watch_that_ends_leaves_no_connection_waiting_for_a_farewell(
    apiserver: Cluster,
) -> None:
    client = ApiClient(apiserver.connection())
    listed = await client.list(NAMESPACES)
    version = listed["metadata"]["resourceVersion"]
    async with client.watch(NAMESPACES, resource_version=version):
        (held,) = client._pool.connector._acquired
        transport_ = held.transport
    assert transport_ is not None
    await until(lambda: held.transport is None)  # lost, not waiting
    assert transport_.is_closing()
    await client.close()


@pytest.mark.parametrize("fault", [Unreachable, asyncio.CancelledError])
async def test_a_request_given_up_leaves_no_connection_waiting_for_a_farewell(
    apiserver: Cluster, fault: type[BaseException]
) -> None:
    """The server has fallen silent: it would not answer the end of TLS either."""
    async with Relay(apiserver.port) as relay:
        client = ApiClient(relay.through(apiserver.connection()))
        await client.request("GET", "/version")
        relay.stall()
        asking = asyncio.create_task(client.request("PATCH", "/api", body={}, timeout=0.5))
        await until(lambda: client._pool.connector._acquired)
        (held,) = client._pool.connector._acquired
        tcp = held.transport._ssl_protocol._transport
        if fault is asyncio.CancelledError:
            asking.cancel()
        with pytest.raises(fault):
            await asking
        assert tcp.is_closing()
        await client.close()


async def test_a_refused_connection_names_the_address_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with ApiClient(Connection(url), timeout=5) as client:
            with pytest.raises(Unreachable) as caught:
                await client.request("PATCH", "/api", body={})
    assert str(caught.value) == f"{url}: Connection refused"


@pytest.mark.proves("R9")
async def test_the_right_to_write_is_asked_for_at_each_attempt_of_a_change_and_of_nothing_else():
    asked: list[str] = []
    answers = itertools.chain([429, 429], itertools.repeat(200))

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        return web.json_response({}, status=next(answers))

    def still_leading() -> None:
        asked.append("asked")
        if len(asked) > 2:
            raise LeaseLost("somebody else leads")

    seen: list[str] = []
    async with serving(handler) as server:
        connection = Connection(server=server)
        async with ApiClient(connection, before_write=still_leading) as client:
            with pytest.raises(LeaseLost):
                await client.request("PATCH", "/x", body={})
            assert seen == ["PATCH", "PATCH"], "the third attempt was not sent"
            asked.clear()
            await client.request("GET", "/x")
            assert not asked


@pytest.mark.proves("RB24")
async def test_a_change_tells_its_server_how_long_the_right_to_write_lasts_at_each_attempt():
    told: list[tuple[str, str]] = []
    left = itertools.chain([6.5, 0.25], itertools.repeat(0.0001))
    answers = itertools.chain([429, 200], itertools.repeat(200))

    async def handler(request: web.Request) -> web.StreamResponse:
        told.append((request.method, request.query_string))
        return web.json_response({}, status=next(answers))

    async with serving(handler) as server:
        connection = Connection(server=server)
        async with ApiClient(connection, before_write=lambda: next(left), timeout=8.0) as client:
            await client.request("PATCH", "/x", params={"force": "true"}, body={})
            await client.request("DELETE", "/x")
            await client.request("GET", "/x")
        async with ApiClient(connection, timeout=8.0) as client:
            await client.request("POST", "/x", body={})
            await client.request("POST", "/x", body={}, timeout=2.0)
            await Fenced(client, lambda: 3.0).request("POST", "/x", body={})
            await Acting(client, "a").request("POST", "/x", body={}, before_write=lambda: None)
    assert told == [
        ("PATCH", "force=true&timeout=6500ms"),
        ("PATCH", "force=true&timeout=250ms"),
        ("DELETE", "timeout=1ms"),
        ("GET", ""),
        ("POST", "timeout=8000ms"),
        ("POST", "timeout=2000ms"),
        ("POST", "timeout=3000ms"),
        ("POST", "timeout=8000ms"),
    ]


@pytest.mark.proves("RB24")
async def test_what_a_term_may_no_more_is_not_sent_by_its_client():
    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.method)
        return web.json_response({})

    def over() -> float:
        raise LeaseLost("somebody else leads")

    seen: list[str] = []
    async with serving(handler) as server, ApiClient(Connection(server=server)) as client:
        fenced = Fenced(client, over)
        with pytest.raises(LeaseLost):
            await fenced.create(NAMESPACES, {"metadata": {"name": "a"}})
        await fenced.get(NAMESPACES, "a")
    assert seen == ["GET"]


@pytest.mark.proves("R9")
async def test_a_change_that_waited_in_line_is_not_sent_after_the_lease_was_lost():
    leading = True
    arrived, let_go = asyncio.Event(), asyncio.Event()
    seen = Counter[str]()

    async def handler(request: web.Request) -> web.StreamResponse:
        seen[request.method] += 1
        arrived.set()
        await let_go.wait()
        return web.json_response({})

    def still_leading() -> None:
        if not leading:
            raise LeaseLost("somebody else leads")

    async with serving(handler) as server:
        connection = Connection(server=server)
        async with ApiClient(connection, limit=1, before_write=still_leading) as client:
            writes = [
                asyncio.create_task(client.request("PATCH", f"/{n}", body={})) for n in range(8)
            ]
            await arrived.wait()
            leading = False
            let_go.set()
            ended = await asyncio.gather(*writes, return_exceptions=True)
    assert seen["PATCH"] == 1
    assert [type(each) for each in ended[1:]] == [LeaseLost] * 7


@pytest.mark.proves("CT19")
async def test_what_a_request_is_about_ends_its_user_agent() -> None:
    agents: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        agents.append(request.headers["User-Agent"])
        return web.json_response({})

    async with (
        serving(handler) as server,
        ApiClient(Connection(server=server), user_agent="stowage-controller/1") as client,
    ):
        await client.request("GET", "/version", agent="decision/abc")
        await client.request("GET", "/version")
    assert agents == ["stowage-controller/1 decision/abc", "stowage-controller/1"]
