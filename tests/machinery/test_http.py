"""The server of our own endpoints, asked over real sockets, rudely too."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from machinery import http_server, metrics
from machinery.api.client import Meter
from machinery.http_messages import Request, Response
from machinery.http_server import BODY_LIMIT, HttpServer
from tests.fakeclock import settle
from tests.patience import PATIENCE


async def echo(request: Request) -> Response:
    """What a handler is told, as JSON."""
    told = {
        "method": request.method,
        "path": request.path,
        "params": dict(request.params),
        "query": dict(request.query),
        "body": request.body.decode(),
        "header": request.headers.get("X-Asked"),
    }
    return Response(200, json.dumps(told).encode())


@asynccontextmanager
async def serving(server: HttpServer) -> AsyncIterator[str]:
    """The server, listening; its address."""
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop()


@asynccontextmanager
async def asking(server: HttpServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the server."""
    async with serving(server) as url, aiohttp.ClientSession(url) as session:
        yield session


async def raw(url: str, text: bytes) -> bytes:
    """Whatever the server says to these bytes until it hangs up."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(text)
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()
        await writer.wait_closed()


async def message(response: aiohttp.ClientResponse) -> str:
    """The sentence of an error; the answer must be nothing but that."""
    assert response.content_type == "application/json"
    answer = await response.json()
    assert set(answer) == {"message"}
    assert isinstance(answer["message"], str)
    return answer["message"]


class Slow:
    """A handler that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.told = asyncio.Event()
        self.cancelled = False

    async def __call__(self, _request: Request) -> Response:
        self.asked.set()
        try:
            await self.told.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Response(200, b'"late"')


# --- what a handler sees, and what becomes of its answer


async def test_a_handler_sees_all_that_was_asked() -> None:
    server = HttpServer()
    server.route("POST", "/apis/v1/nodes/:name/units/:unit", echo)
    async with asking(server) as session:
        address = "/apis/v1/nodes/member-a/units/web?limit=5&verbose="
        async with session.post(address, data="body", headers={"X-Asked": "yes"}) as response:
            assert response.status == 200
            assert await response.json() == {
                "method": "POST",
                "path": "/apis/v1/nodes/member-a/units/web",
                "params": {"name": "member-a", "unit": "web"},
                "query": {"limit": "5", "verbose": ""},
                "body": "body",
                "header": "yes",
            }


async def test_a_parameter_is_one_part_of_the_path_and_never_empty() -> None:
    server = HttpServer()
    server.route("GET", "/nodes/:name", echo)
    async with asking(server) as session:
        for path, status in [("/nodes/a.b-c", 200), ("/nodes/", 404), ("/nodes/a/b", 404)]:
            async with session.get(path) as response:
                assert response.status == status, path


async def test_an_answer_keeps_its_status_its_type_and_its_bytes() -> None:
    async def teapot(_request: Request) -> Response:
        return Response(418, b"\x00\xff", "application/octet-stream")

    server = HttpServer()
    server.route("GET", "/teapot", teapot)
    async with asking(server) as session, session.get("/teapot") as response:
        assert response.status == 418
        assert response.headers["Content-Type"] == "application/octet-stream"
        assert await response.read() == b"\x00\xff"


async def test_methods_of_one_path_have_their_own_handlers() -> None:
    server = HttpServer()
    for method in ("GET", "PUT", "DELETE"):
        server.route(method, "/thing", echo)
    async with asking(server) as session:
        for method in ("GET", "PUT", "DELETE"):
            async with session.request(method, "/thing") as response:
                assert (await response.json())["method"] == method


async def test_head_is_answered_as_get_is_but_for_the_body() -> None:
    server = HttpServer()
    server.route("GET", "/thing", echo)
    async with asking(server) as session:
        async with session.head("/thing") as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "application/json"
            assert int(response.headers["Content-Length"]) > 0
            assert await response.read() == b""
        async with session.head("/nothing") as response:
            assert response.status == 404


async def test_head_is_refused_where_there_is_no_get() -> None:
    server = HttpServer()
    server.route("POST", "/thing", echo)
    async with asking(server) as session, session.head("/thing") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"


async def test_a_head_of_its_own_goes_before_that_of_get() -> None:
    async def gone(_request: Request) -> Response:
        return Response(410)

    server = HttpServer()
    server.route("HEAD", "/thing", gone)
    server.route("GET", "/thing", echo)
    async with asking(server) as session:
        async with session.head("/thing") as response:
            assert response.status == 410
        async with session.get("/thing") as response:
            assert response.status == 200


# --- routes


async def test_one_method_and_path_has_one_handler() -> None:
    server = HttpServer()
    server.route("GET", "/thing", echo)
    server.route("PUT", "/thing", echo)
    with pytest.raises(ValueError, match="GET /thing"):
        server.route("GET", "/thing", echo)


@pytest.mark.proves("E6")
async def test_routes_are_listed_by_method_sorted_and_as_written() -> None:
    server = HttpServer()
    for method, path in [("GET", "/b"), ("PUT", "/b"), ("GET", "/a/:name"), ("GET", "/c")]:
        server.route(method, path, echo)
    assert server.routes() == {"GET": ["/a/:name", "/b", "/c"], "PUT": ["/b"]}


# --- errors


@pytest.mark.proves("E8")
async def test_metrics_of_many_members_are_told_in_full() -> None:
    server, meters = HttpServer(), [Meter.of(f"member-{number}") for number in range(500)]
    server.serve_metrics()
    try:
        async with asking(server) as client, client.get("/metrics") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
            text = await answer.text()
    finally:
        for meter in meters:
            meter.release()
    told = [
        line for line in text.splitlines() if line.startswith("stowage_api_request_seconds_sum")
    ]
    assert len({line for line in told if "member-" in line}) == 500


@pytest.mark.proves("CT13")
@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text",
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        "text/html, Application/OpenMetrics-Text; version=none",
    ],
)
async def test_a_client_that_accepts_openmetrics_gets_it(accept: str) -> None:
    server = HttpServer()
    server.serve_metrics()
    async with (
        asking(server) as client,
        client.get("/metrics", headers={"Accept": accept}) as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Content-Type"] == metrics.OPENMETRICS_CONTENT_TYPE
        text = await answer.text()
    assert text.endswith("\n# EOF\n")
    families = {family.name: family for family in openmetrics_families(text)}
    assert families["stowage_api_requests"].type == "counter"


@pytest.mark.proves("CT13")
@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", ";;,=", "application/openmetrics"])
async def test_any_other_client_gets_prometheus_text(accept: str) -> None:
    server = HttpServer()
    server.serve_metrics()
    async with (
        asking(server) as client,
        client.get("/metrics", headers={"Accept": accept}) as answer,
    ):
        assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
        text = await answer.text()
    assert "# EOF" not in text
    assert {family.name for family in text_string_to_metric_families(text)} > {"python_info"}


async def test_who_asks_for_metrics_meanwhile_gets_the_same_and_one_may_hang_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on, computed = threading.Event(), threading.Event(), list[int]()

    def slowly(registry: CollectorRegistry) -> bytes:
        begun.set()
        assert go_on.wait(60)
        computed.append(len(list(registry.collect())))
        return b"all"

    monkeypatch.setattr(metrics, "generate_latest", slowly)
    server = HttpServer()
    server.serve_metrics()
    server.route("GET", "/healthz", echo)
    async with asking(server) as client:
        first, second = (asyncio.create_task(_body(client, "/metrics")) for _ in range(2))
        assert await asyncio.to_thread(begun.wait, 60)
        assert await _body(client, "/healthz"), "others are answered meanwhile"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        go_on.set()
        assert await second == b"all"
        assert len(computed) == 1
        assert await _body(client, "/metrics") == b"all"
        assert len(computed) == 2, "who comes later is told anew"


async def _body(client: aiohttp.ClientSession, path: str) -> bytes:
    async with client.get(path) as answer:
        return await answer.read()


async def test_an_unknown_path_is_404_in_json() -> None:
    server = HttpServer()
    server.route("GET", "/thing", echo)
    async with asking(server) as session:
        for method in ("GET", "POST", "DELETE"):
            async with session.request(method, "/no/such/thing") as response:
                assert response.status == 404
                assert await message(response) == "Not Found"


@pytest.mark.proves("E8", "E16")
async def test_a_wrong_method_is_405_in_json_and_names_the_right_ones() -> None:
    server = HttpServer()
    for method in ("PUT", "POST"):
        server.route(method, "/debug/flags/:name", echo)
    server.route("GET", "/other", echo)
    async with asking(server) as session:
        async with session.get("/debug/flags/v") as response:
            assert response.status == 405
            assert response.headers["Allow"] == "POST,PUT"
            assert await message(response) == "Method Not Allowed"
        async with session.post("/other") as response:
            assert response.status == 405
            assert response.headers["Allow"] == "GET,HEAD"


@pytest.mark.proves("E8")
async def test_a_handler_that_raises_is_500_and_the_log_names_the_route(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_request: Request) -> Response:
        raise LookupError("the inner secret of it")

    server = HttpServer()
    server.route("GET", "/apis/v1/nodes/:name", broken)
    server.route("GET", "/healthz", echo)
    async with asking(server) as session:
        async with session.get("/apis/v1/nodes/member-a") as response:
            assert response.status == 500
            assert "secret" not in await message(response)
        async with session.get("/healthz") as response:
            assert response.status == 200, "the server goes on"
    (record,) = (r for r in caplog.records if r.levelno >= logging.ERROR)
    assert record.name == "machinery.http_server"
    assert "GET /apis/v1/nodes/:name" in record.getMessage()
    assert "/apis/v1/nodes/member-a" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)


async def test_what_was_asked_for_cannot_forge_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_request: Request) -> Response:
        raise LookupError

    server = HttpServer()
    server.route("GET", "/nodes/:name", broken)
    async with serving(server) as url:
        await raw(
            url,
            b"GET /nodes/a%0AERROR%20forged HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
        )
    (record,) = (r for r in caplog.records if r.levelno >= logging.ERROR)
    assert "\n" not in record.getMessage()


@pytest.mark.proves("E8")
async def test_an_answer_that_is_none_is_500(caplog: pytest.LogCaptureFixture) -> None:
    async def forgetful(_request: Request) -> Response:
        return None  # type: ignore[return-value]  # the fault under test

    server = HttpServer()
    server.route("GET", "/thing", forgetful)
    async with asking(server) as session, session.get("/thing") as response:
        assert response.status == 500
        await message(response)
    assert "GET /thing failed" in caplog.text


@pytest.mark.proves("E8")
async def test_a_body_over_the_limit_is_413_and_never_handled() -> None:
    handled = 0

    async def count(_request: Request) -> Response:
        nonlocal handled
        handled += 1
        return Response(200)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b"x" * (BODY_LIMIT // 16)

    server = HttpServer()
    server.route("POST", "/thing", count)
    async with asking(server) as session:
        async with session.post("/thing", data=io.BytesIO(b"x" * BODY_LIMIT)) as response:
            assert response.status == 200
        for body in (io.BytesIO(b"x" * (BODY_LIMIT + 1)), pieces()):
            async with session.post("/thing", data=body) as response:
                assert response.status == 413
                assert "Too Large" in await message(response)
    assert handled == 1


async def test_who_hangs_up_while_asking_is_no_failure_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = HttpServer()
    server.route("POST", "/thing", echo)
    async with serving(server) as url:
        host, port = url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /thing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        async with aiohttp.ClientSession() as session:
            for hangs_up in (writer.transport.abort, lambda: None):
                # What came before a request that is answered has been read.
                async with session.post(f"{url}/thing") as response:
                    assert response.status == 200
                hangs_up()
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_a_body_that_is_no_http_is_refused_and_never_handled() -> None:
    handled = 0

    async def count(_request: Request) -> Response:
        nonlocal handled
        handled += 1
        return Response(200)

    server = HttpServer()
    server.route("POST", "/thing", count)
    async with serving(server) as url:
        head = b"POST /thing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await raw(url, head + b"no number\r\n")
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert handled == 0


async def test_what_is_no_http_at_all_is_refused_and_the_server_goes_on() -> None:
    server = HttpServer()
    server.route("GET", "/thing", echo)
    async with serving(server) as url:
        assert b" 400 " in (await raw(url, b"\x16\x03\x01 hello\r\n\r\n")).splitlines()[0]
        async with aiohttp.ClientSession() as session, session.get(f"{url}/thing") as response:
            assert response.status == 200


# --- starting and stopping


async def test_a_taken_port_is_an_os_error_and_the_server_can_start_elsewhere() -> None:
    first, second = HttpServer(), HttpServer()
    second.route("GET", "/thing", echo)
    async with serving(first) as url:
        with pytest.raises(OSError, match="address already in use"):
            await second.start("127.0.0.1", int(url.rpartition(":")[2]))
        async with asking(second) as session, session.get("/thing") as response:
            assert response.status == 200


@asynccontextmanager
async def under_way() -> AsyncIterator[
    tuple[HttpServer, Slow, asyncio.Task[aiohttp.ClientResponse], aiohttp.ClientSession]
]:
    """A server, the handler that has been asked, the request, and its client."""
    slow, server = Slow(), HttpServer()
    server.route("GET", "/slow", slow)
    async with asking(server) as session:
        asked = asyncio.create_task(session.get("/slow"))
        await slow.asked.wait()
        yield server, slow, asked, session


async def test_a_request_under_way_is_answered_before_the_stop() -> None:
    async with under_way() as (server, slow, asked, session):
        stopping = asyncio.create_task(server.stop())
        await settle()
        assert not stopping.done()
        slow.told.set()
        async with await asked as response:
            assert await response.text() == '"late"'
        await stopping
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get("/slow")


async def test_a_request_that_never_ends_holds_the_stop_for_its_few_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "STOP_SECONDS", 0.1)
    async with under_way() as (server, slow, asked, _):
        await asyncio.wait_for(server.stop(), 60)
        with pytest.raises(aiohttp.ClientError):
            await asked
        assert slow.cancelled


async def test_a_second_stop_meanwhile_returns_when_the_server_has_stopped() -> None:
    async with under_way() as (server, slow, asked, _):
        stops = [asyncio.create_task(server.stop()) for _ in range(3)]
        await settle()
        assert not any(stop.done() for stop in stops)
        slow.told.set()
        async with await asked as response:
            assert response.status == 200
        await asyncio.gather(*stops)


async def test_a_stop_that_is_cancelled_leaves_the_rest_to_the_next() -> None:
    async with under_way() as (server, slow, asked, _):
        first = asyncio.create_task(server.stop())
        await settle()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(server.stop())
        await settle()
        assert not second.done()
        slow.told.set()
        async with await asked as response:
            assert response.status == 200
        await second


async def test_stopping_what_has_stopped_or_never_ran_is_nothing() -> None:
    server = HttpServer()
    await server.stop()
    async with serving(server):
        pass
    await server.stop()


async def test_a_stopped_server_can_start_again() -> None:
    server = HttpServer()
    server.route("GET", "/thing", echo)
    for _ in range(2):
        async with asking(server) as session, session.get("/thing") as response:
            assert response.status == 200


# --- headers and streams --------------------------------------------------------------------------


@pytest.mark.proves("V17")
async def test_every_answer_has_the_servers_headers_unless_it_has_its_own() -> None:
    server = HttpServer({"X-Rule": "all", "Cache-Control": "no-store"})

    async def own(request: Request) -> Response:
        assert request.header("x-ASKED") == "yes"
        assert request.header("X-Other") == ""
        return Response(200, headers={"Cache-Control": "private", "X-More": "1"})

    async def broken(_request: Request) -> Response:
        raise RuntimeError

    server.route("GET", "/own", own)
    server.route("GET", "/broken", broken)
    server.route("POST", "/long", echo)
    async with asking(server) as client:
        async with client.get("/own", headers={"X-Asked": "yes"}) as answer:
            assert answer.headers["Cache-Control"] == "private"
            assert answer.headers["X-Rule"] == "all"
            assert answer.headers["X-More"] == "1"
        for path, method, status in (
            ("/nowhere", "GET", 404),
            ("/own", "PUT", 405),
            ("/broken", "GET", 500),
        ):
            async with client.request(method, path) as answer:
                assert answer.status == status
                assert answer.headers["X-Rule"] == "all"
                assert answer.headers["Cache-Control"] == "no-store"
        async with client.post("/long", data=io.BytesIO(b"x" * (BODY_LIMIT + 1))) as answer:
            assert (answer.status, answer.headers["X-Rule"]) == (413, "all")


class Stream:
    """A handler whose answer is a stream, and whether that has ended."""

    def __init__(self) -> None:
        self.more = asyncio.Event()
        self.ended = asyncio.Event()

    async def _pieces(self) -> AsyncGenerator[bytes]:
        try:
            yield b"one\n"
            while True:
                await self.more.wait()
                yield b"more\n"
                await asyncio.sleep(0.01)
        finally:
            self.ended.set()

    async def __call__(self, _request: Request) -> Response:
        return Response(200, content_type="text/event-stream", stream=self._pieces())


@pytest.mark.proves("V8")
async def test_a_stream_is_sent_piece_by_piece_until_the_client_hangs_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, stream = HttpServer(), Stream()
    server.route("GET", "/", stream)
    async with asking(server) as client:
        async with client.head("/") as answer:
            assert answer.content_type == "text/event-stream"
        async with client.get("/") as answer:
            assert await answer.content.readline() == b"one\n"
            assert not stream.ended.is_set()
            stream.more.set()
            assert await answer.content.readline() == b"more\n"
        await asyncio.wait_for(stream.ended.wait(), 30)
    assert not caplog.records


@pytest.mark.proves("V8")
async def test_a_stream_has_a_time_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "EXCHANGE_SECONDS", 0.1)
    server, stream = HttpServer(), Stream()
    server.route("GET", "/", stream)
    async with asking(server) as client:
        async with client.get("/") as answer:
            assert await answer.content.readline() == b"one\n"
            await asyncio.sleep(0.3)  # the time of any other answer is over
            stream.more.set()
            assert await answer.content.readline() == b"more\n"
        await asyncio.wait_for(stream.ended.wait(), PATIENCE * 30)
        monkeypatch.setattr(http_server, "STREAM_SECONDS", 0.1)
        with pytest.raises(aiohttp.ClientError):
            async with client.get("/") as answer:
                await asyncio.wait_for(answer.read(), PATIENCE * 30)
