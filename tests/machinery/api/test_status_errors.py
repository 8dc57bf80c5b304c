"""What becomes of an answer that says no, whatever its body holds."""

from __future__ import annotations

import asyncio

import pytest

from machinery.api.client import ApiClient
from machinery.api.status_errors import EXCERPT_LIMIT, refusal
from machinery.config.kubeconfig import Connection
from machinery.errors import ApiError, Conflict, Forbidden, ServerError
from machinery.types.bounds import MESSAGE

NESTED = b'{"details":{"a":' + b"[" * 100_000
UNREADABLE = {
    "nothing": b"",
    "a page": b"<html>\x00no</html>",
    "half": b'{"message":"wai',
    "no UTF-8": b'{"message":"\xff\xfe"}',
    "no UTF-8 in the details": b'{"message":"no","details":{"name":"\xff"}}',
    "half a pair": b'{"message":"\\ud800"}',
    "no end": NESTED,
    "too deep": NESTED + b"]" * 100_000 + b"}}",
    "a number without end": b'{"details":{"a":' + b"9" * 10_000 + b"}}",
    "another shape": b'{"message":["no"],"details":"no"}',
    "null": b"null",
}
unreadable = pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())


@unreadable
def test_a_body_that_is_no_status_leaves_the_code_to_speak(body: bytes) -> None:
    fault = refusal(409, {}, body)
    assert type(fault) is Conflict
    assert fault.code == 409
    assert (fault.reason, fault.details) == ("", {})
    assert 0 < len(str(fault)) <= EXCERPT_LIMIT
    assert str(fault).isprintable()


def test_an_excerpt_shows_what_there_is_and_marks_what_is_no_text() -> None:
    assert str(refusal(500, {}, b"bad \xff\x00 gateway")) == "bad \ufffd gateway"
    assert str(refusal(503, {}, b"")) == "Service Unavailable"
    assert str(refusal(599, {}, b"")) == "HTTP 599"


def test_a_status_is_told_whole_but_for_a_message_without_end() -> None:
    body = b'{"reason":"Conflict","message":"%s","details":{"name":"web"}}' % (b"x" * 10_000)
    fault = refusal(409, {"Retry-After": "3"}, body)
    assert (fault.reason, fault.details, fault.retry_after) == ("Conflict", {"name": "web"}, 3.0)
    assert len(str(fault)) == MESSAGE


@unreadable
@pytest.mark.parametrize(
    ("code", "expected"), [(409, Conflict), (403, Forbidden), (500, ServerError)]
)
async def test_it_comes_out_of_the_client_as_the_error_of_its_code(
    body: bytes, code: int, expected: type[ApiError]
) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {code} No\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with server, ApiClient(Connection(f"http://{host}:{port}")) as client:
        with pytest.raises(expected):
            await client.request("PATCH", "/api")
