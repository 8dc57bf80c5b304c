"""Connections to an API server: one pool, small while idle, closed at once."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
import threading
from asyncio import sslproto
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler

from machinery.api.credentials import proxy
from machinery.config.kubeconfig import Connection
from machinery.errors import NotSent, TLSVerificationFailed, TransportError, Unreachable
from machinery.pace import CRUMB_BYTES, CRUMB_SECONDS, ServerBudget, TimeSlice
from machinery.types import bounds
from machinery.types.bounds import TooMuch

READ_BUFFER = 16 * 1024
IDLE_SECONDS = 30.0
"""Shorter than the limit of servers."""
TLS_BUFFER = 16 * 1024
"""Bytes read from a connection at once: one record of TLS."""
FAULTS = (aiohttp.ClientError, OSError, UnicodeError)


class _ReadBuffer(threading.local):
    def __init__(self) -> None:
        self.bytes = bytearray(TLS_BUFFER)
        self.view = memoryview(self.bytes)


_read_buffer = _ReadBuffer()


def _shared_buffer(protocol: Any, _wanted: int) -> memoryview:
    """Replace SSLProtocol.get_buffer: the bytes are taken out before any other read."""
    protocol._ssl_buffer = _read_buffer.bytes  # noqa: SLF001 - where its buffer_updated looks
    protocol._ssl_buffer_view = _read_buffer.view  # noqa: SLF001
    return _read_buffer.view


sslproto.SSLProtocol.max_size = TLS_BUFFER
sslproto.SSLProtocol.get_buffer = _shared_buffer  # type: ignore[method-assign, assignment] # typeshed has self twice


class _AbortingHandler(ResponseHandler):
    """Ends a connection at once. A TLS shutdown waits up to 30 seconds for the server."""

    def close(self) -> None:
        self.abort()


class Connector(aiohttp.TCPConnector):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(ssl=context, limit=0, keepalive_timeout=IDLE_SECONDS)
        factory = functools.partial(_AbortingHandler, loop=self._loop)
        self._factory = factory  # type: ignore[assignment] # partial is invariant


def open_pool(
    context: ssl.SSLContext, middleware: aiohttp.ClientMiddlewareType, pace: ServerBudget
) -> aiohttp.ClientSession:
    traces = []
    if pace.paces_connections:  # a trace costs each request, not only those that connect
        traces.append(turns := aiohttp.TraceConfig())
        turns.on_connection_create_start.append(lambda *_: pace.connect())
    return aiohttp.ClientSession(
        connector=Connector(context),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER,
        auto_decompress=False,
        middlewares=(middleware,),
        trace_configs=traces,
    )


def route(connection: Connection) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if connection.tls_server_name:
        found["server_hostname"] = connection.tls_server_name
    if connection.proxy_url:
        found["proxy"], found["proxy_headers"] = proxy(connection.proxy_url)
    return found


@functools.lru_cache(maxsize=64)
def connecting(seconds: float) -> aiohttp.ClientTimeout:
    # aiohttp's own total timeout loses a cancellation in the same turn of the loop. The task would
    # continue, and a process that ends would wait for it for ever.
    return aiohttp.ClientTimeout(total=None, sock_connect=seconds / 2)


@functools.lru_cache(maxsize=64)
def silent_for(connect: float, read: float) -> aiohttp.ClientTimeout:
    """Return the timeouts of an endless stream that may be silent for `read` seconds."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect / 2, sock_read=read)


class Chunks:
    """The body of a response as it arrives, vendor exceptions wrapped."""

    def __init__(self, response: aiohttp.ClientResponse, fault: Any) -> None:
        self._content = response.content
        self._fault = fault

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            found = await chunk(self._content)
        except FAULTS as e:
            raise self._fault(e) from e
        if not found:
            raise StopAsyncIteration
        return found


async def chunk(content: aiohttp.StreamReader) -> bytes:
    try:
        return await content.readany()
    except RuntimeError as e:  # aiohttp's, when the client was closed between two reads
        raise aiohttp.ServerDisconnectedError(str(e)) from e


def check_head(response: aiohttp.ClientResponse, most: int | None) -> None:
    """Raise TooMuch for an answer that announces more than `most`, or is encoded."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise TooMuch(
            f"the answer is encoded ({bounds.clean(encoding, 20)}), which nobody asked for"
        )
    if most is not None and (response.content_length or 0) > most:
        raise TooMuch(f"the answer is larger than {most} bytes")


async def body_of(
    response: aiohttp.ClientResponse, most: int, large: asyncio.Lock, stint: TimeSlice
) -> bytes:
    """Return the whole body. Raises TooMuch. A body above MODEST_BYTES waits for `large`."""
    parts: list[bytes] = []
    size = 0
    async with AsyncExitStack() as held:
        while piece := await chunk(response.content):
            modest, size = size <= bounds.MODEST_BYTES, size + len(piece)
            if size > most:
                raise TooMuch(f"the answer is larger than {most} bytes")
            parts.append(piece)
            if modest and size > bounds.MODEST_BYTES:
                await held.enter_async_context(large)
            if size > bounds.MODEST_BYTES and len(piece) < CRUMB_BYTES:
                stint.begin()
                await stint.pause(besides=CRUMB_SECONDS)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def fault_of(server: str, e: Exception) -> TransportError:
    if isinstance(e, aiohttp.ClientConnectorCertificateError):
        e = e.certificate_error
    if isinstance(e, ssl.SSLCertVerificationError):
        return TLSVerificationFailed(f"{server}: {bounds.clean(e.verify_message)}")
    if isinstance(e, aiohttp.ClientConnectorError):
        return NotSent(f"{server}: {_words(e.os_error)}")
    if isinstance(e, aiohttp.ConnectionTimeoutError):
        return NotSent(f"{server}: no connection in time")
    if isinstance(e, TimeoutError):
        return Unreachable(f"{server}: no answer in time")
    cause_text = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
    return Unreachable(f"{server}: {bounds.clean(cause_text, 256) or type(e).__name__}")


def _words(e: OSError) -> str:
    if e.errno and not isinstance(e, ssl.SSLError | socket.gaierror):
        return os.strerror(e.errno)
    return e.strerror or str(e) or type(e).__name__


async def split_lines(
    chunks: AsyncIterator[bytes],
    *,
    stint: TimeSlice,
    large: asyncio.Lock,
    seconds: float,
    most: int = bounds.LINE_BYTES,
) -> AsyncGenerator[bytes, None]:
    r"""Yield every non-empty line, without its `\n`, bounded in length and time.

    A line above MODEST_BYTES waits for `large`, and has to end within `seconds` from then on.
    Raises TooMuch for a line above `most` bytes, and Unreachable when the stream ends within a
    line, or a large line does not end in time.
    """
    pieces: list[bytes] = []
    size = 0
    long = _Long(large, seconds)
    try:
        while chunk := await long.next(chunks):
            stint.begin()
            head, *lines = chunk.split(b"\n")
            pieces.append(head)
            size += len(head)
            await long.grow(size, most)
            if not lines:
                continue
            if size:
                yield b"".join(pieces)
            long.end()
            tail = lines.pop()
            for line in filter(None, lines):
                if stint.due():
                    await stint.pause()
                yield line
            await stint.pause()
            pieces, size = [tail], len(tail)
    finally:
        long.end()
    if size:
        raise Unreachable("the stream ended in the middle of a line")


class _Long:
    def __init__(self, large: asyncio.Lock, seconds: float) -> None:
        self._large = large
        self._seconds = seconds
        self._deadline: float | None = None  # set while the lock is held

    async def grow(self, size: int, most: int) -> None:
        if size > most:
            raise TooMuch(f"a line is longer than {most} bytes")
        if size > bounds.MODEST_BYTES and self._deadline is None:
            await self._large.acquire()
            self._deadline = asyncio.get_running_loop().time() + self._seconds

    def end(self) -> None:
        if self._deadline is not None:
            self._deadline = None
            self._large.release()

    async def next(self, chunks: AsyncIterator[bytes]) -> bytes:
        """Return the next chunk, empty at the end. Raises Unreachable when it comes too late."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(chunks, b"")
        except TimeoutError as e:
            raise Unreachable("a long line did not end in time") from e
