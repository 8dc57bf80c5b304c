"""Our own endpoints against strangers: who only connects, who drips, who calls us by another's name."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress

import aiohttp
import pytest

from machinery import http_server
from machinery.http_messages import Request, Response
from machinery.http_server import CONNECTIONS, HttpServer, names_this_machine
from tests.machinery.test_http import echo, raw, serving
from tests.patience import until

ASK = b"GET /x HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


def server() -> HttpServer:
    made = HttpServer()
    made.route("GET", "/x", echo)
    made.route("POST", "/x", echo)
    return made


async def connected(
    url: str, text: bytes = b""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text)
    return reader, writer


@pytest.mark.proves("S11")
async def test_a_thousand_half_open_connections_keep_no_probe_out() -> None:
    async with serving(server()) as url:
        held = [await connected(url, b"GET /x HTTP/1.1\r\nHo") for _ in range(3 * CONNECTIONS)]
        async with aiohttp.ClientSession(url) as session:
            for _ in range(3):
                async with session.get("/x") as answer:
                    assert answer.status == 200
        await until(lambda: sum(not reader.at_eof() for reader, _ in held) <= CONNECTIONS)
        for _, writer in held:
            writer.close()


@pytest.mark.proves("S11")
async def test_where_all_connections_are_at_work_a_new_one_is_turned_away() -> None:
    told, at_work = asyncio.Event(), Counter[str]()

    async def slow(request: Request) -> Response:
        at_work[request.path] += 1
        await told.wait()
        return Response(200, b"1")

    made = server()
    made.route("GET", "/slow", slow)
    async with serving(made) as url:
        text = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        held = [await connected(url, text) for _ in range(CONNECTIONS)]
        await until(lambda: at_work.total() == CONNECTIONS)
        with suppress(ConnectionError):
            assert await raw(url, ASK % b"localhost") == b""
        told.set()
        answers = [await reader.read() for reader, _ in held]
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        for _, writer in held:
            writer.close()
        assert (await raw(url, ASK % b"localhost")).startswith(b"HTTP/1.1 200")


@pytest.mark.proves("S11")
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /x HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf",
        ASK.replace(b"Connection: close\r\n", b"") % b"localhost",
    ],
    ids=["nothing", "half a head", "half a body", "idle after an answer"],
)
async def test_who_does_not_go_on_is_left(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    async with serving(server()) as url:
        started = time.monotonic()
        reader, writer = await connected(url, begun)
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 60)
        assert time.monotonic() - started > 0.2
        writer.close()


@pytest.mark.proves("S11")
async def test_a_head_that_drips_is_no_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.4)
    async with serving(server()) as url:
        reader, writer = await connected(url, b"GET /x HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"X-A: b\r\n")
                await writer.drain()
                await asyncio.sleep(0.1)
                if reader.at_eof():
                    break
        assert reader.at_eof() or reader.exception()
        writer.close()


@pytest.mark.proves("S11")
@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        ("localhost", True),
        ("LOCALHOST:10251", True),
        ("127.0.0.1:1", True),
        ("[::1]:1", True),
        ("::1", True),
        ("10.0.0.7", True),
        ("", True),
        ("evil.example", False),
        ("evil.example:10251", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:1", False),
        ("[::1", True),
        ("[evil]", False),
        ("127.0.0.1@evil.example", False),
    ],
)
async def test_on_loopback_nobody_reaches_us_by_a_name_of_his_own(host: str, welcome: bool) -> None:
    assert names_this_machine(host) is welcome
    async with serving(server()) as url:
        for path in (b"/x", b"/unknown"):
            answer = await raw(url, (ASK % host.encode()).replace(b"/x", path))
            refused = answer.startswith(b"HTTP/1.1 421")
            assert refused is not welcome
            assert (b"as localhost" in answer) is refused


@pytest.mark.proves("S11")
async def test_beyond_loopback_any_name_is_right() -> None:
    made = server()
    port = await made.start("0.0.0.0", 0)
    try:
        answer = await raw(f"http://127.0.0.1:{port}", ASK % b"stowage.example")
        assert answer.startswith(b"HTTP/1.1 200")
    finally:
        await made.stop()


@pytest.mark.proves("S11")
async def test_what_is_no_http_makes_one_line_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(server()) as url:
        for _ in range(30):
            for junk in (
                b"\x16\x03\x01\x02\x00\x01\x00",
                b"GET / HTTP/9.9\r\n\r\n",
                b"GET /\x00 x\r\n\r\n",
            ):
                with suppress(ConnectionError, TimeoutError):
                    await asyncio.wait_for(raw(url, junk + b"\r\n\r\n"), 0.5)
        assert (await raw(url, ASK % b"localhost")).startswith(b"HTTP/1.1 200")
    told = [each for each in caplog.records if each.name.startswith("machinery.http_server")]
    assert len(told) <= 1
    assert all(each.exc_info is None and each.levelno == logging.WARNING for each in told)


async def test_a_fault_of_our_own_is_told_whole() -> None:
    noise = http_server.MalformedRequestFilter(lambda fault: isinstance(fault, KeyError))
    record = logging.LogRecord(
        "x", logging.ERROR, "f", 1, "m", (), (ValueError, ValueError(), None)
    )
    assert noise.filter(record)
    assert record.exc_info
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "m", (), (KeyError, KeyError(), None))
    assert noise.filter(record)
    assert not record.exc_info
    assert record.getMessage().endswith(": 1")
    assert not noise.filter(
        logging.LogRecord("x", logging.ERROR, "f", 1, "m", (), (KeyError, KeyError(), None))
    )
