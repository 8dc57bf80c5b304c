"""The one place that speaks HTTP to an API server.

`ApiClient` carries the verbs of `machinery.verbs` over aiohttp, and promises:

- every request ends within its time limit, and every fault is one of `machinery.errors`;
- a retry happens only where it can do no harm: a GET that got no answer or a 5xx, any verb that the
  server put off (429, never sooner than it asked), any verb whose connection was refused; a change
  that got no answer is never sent again, not even by aiohttp, whatever its method;
- requests wait in line here, outside of their time limit, so that a burst of ours is never taken
  for a silent server; watches have connections of their own and starve nobody;
- no answer is larger than memory allows, no redirect is followed, no secret reaches a message.
"""

from __future__ import annotations

import asyncio
import functools
import io
import os
import socket
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from machinery.clock import Clock, SystemClock
from machinery.errors import (
    ConfigurationError,
    ServerError,
    TLSVerificationFailed,
    TooManyRequests,
    TransportError,
    Unauthorized,
    Unreachable,
)
from machinery.identity import identity, proxy
from machinery.kubeconfig import Connection, TokenSource
from machinery.lines import split_lines
from machinery.meter import NO_ANSWER, Meter
from machinery.refusal import refusal
from machinery.resources import Resource
from machinery.retry import persist
from machinery.tls import client_context
from machinery.verbs import JSON, METADATA, Verbs, selection

ANSWER_LIMIT = 256 * 1024 * 1024
"""Bytes of one answer, after decompression. A page of 500 objects stays far below it."""
REFUSAL_LIMIT = 1024 * 1024
"""Bytes read of an answer that says no."""
LINE_LIMIT = 64 * 1024 * 1024
"""Bytes of one watch event."""
WATCH_BUFFER = 16 * 1024
"""Bytes of a watch that may wait unread before its connection is slowed down."""
WATCH_SLACK = 10.0
"""Seconds of silence beyond the time a watch was asked for, until its connection counts as dead."""
STREAMED_BODY = 1024 * 1024
"""Larger bodies are sent in pieces, so that other tasks run in between."""
IDLE_SECONDS = 30.0
"""Kept shorter than any server's own limit, so that no request meets a connection just closed."""

FAREWELL_SECONDS = 0.05
TLS_BUFFER = 16 * 1024
"""Bytes that asyncio sets aside for what a connection receives: one record of TLS, the most that
comes at once. Its own value is sixteen times that, on each of thousands of idle watches."""
sslproto.SSLProtocol.max_size = TLS_BUFFER

_FAULTS = (aiohttp.ClientError, OSError)  # TimeoutError and ssl.SSLError are OSErrors


class _NotSent(Unreachable):
    """No connection, so nothing of the request reached the server: any verb may try again."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, ready to be sent any number of times."""

    method: str
    url: URL
    body: bytes | None
    content_type: str | None
    accept: str
    timeout: aiohttp.ClientTimeout


class ApiClient(Verbs):
    """A client of one API server, as one identity.

    `name` labels metrics. `limit` bounds the requests under way at once, watches not counted.
    `timeout` bounds one attempt, in seconds; retries start within as much again. `requests` counts
    what was sent, for tests and benchmarks.
    Raises KubeconfigError when the connection's certificates cannot be used.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock | None = None,
        name: str = "hub",
        limit: int = 32,
        timeout: float = 10.0,
        user_agent: str = "stowage",
    ) -> None:
        super().__init__()
        self.connection = connection
        self.name = name
        self.requests = 0
        self._clock = clock or SystemClock()
        self._base = connection.server.rstrip("/")
        self._ssl = client_context(connection)
        self._line = asyncio.Semaphore(limit)
        self._timeout = timeout
        self._identity = identity(connection, user_agent)
        self._headers: dict[tuple[str | None, str, str | None], CIMultiDict[str]] = {}
        self._route = _route(connection)
        self._sessions: dict[int, aiohttp.ClientSession] = {}
        self._closed = False
        self._meter = Meter.of(name)

    async def __aenter__(self) -> Self:
        """The client itself; connections are made when they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """As `close`."""
        await self.close()

    async def close(self) -> None:
        """Close every connection; what is under way fails as Unreachable. May be called again.

        Whoever is cancelled here, as processes are that end, leaves no connection open.
        """
        if self._closed:
            return
        self._closed = True
        self._meter.release()
        if self._sessions:
            await asyncio.shield(self._end())

    async def _end(self) -> None:
        for session in self._sessions.values():
            await session.close()
        # What cancelled requests left behind says farewell by itself, if it is given the time.
        await asyncio.sleep(FAREWELL_SECONDS)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds each attempt, not the call
    ) -> bytes:
        """Send one request, return the body of a 2xx answer.

        `path` is absolute and already quoted. A body that is not bytes is sent as JSON.
        `timeout` bounds one attempt, in seconds. Raises the tree of `machinery.errors`.
        """
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        call = _Call(
            method=method,
            url=self._url(path, params),
            body=body,
            content_type=None if body is None else content_type,
            accept=accept,
            timeout=_timeouts(timeout or self._timeout),
        )
        try:
            return await self._send(call)
        except TransportError as fault:
            worthwhile = functools.partial(self._worthwhile, method)
            if not worthwhile(fault):
                raise
            return await persist(
                functools.partial(self._send, call),
                fault,
                worthwhile=worthwhile,
                clock=self._clock,
                seconds=timeout or self._timeout,
            )

    @asynccontextmanager
    async def watch(
        self,
        res: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        timeout_seconds: int = 300,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The events after `resource_version`, one line of JSON each, bookmarks among them.

        Ends when the server ends it, at the latest after `timeout_seconds`. Raises what `request`
        raises, at the start or between two lines; a refusal inside of the stream (410 as an event
        of type ERROR) is a line like any other.
        """
        params = selection(
            label_selector,
            field_selector,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
        )
        call = _Call(
            method="GET",
            url=self._url(res.path(namespace), params),
            body=None,
            content_type=None,
            accept=METADATA if metadata_only else JSON,
            timeout=_silence(self._timeout, timeout_seconds + WATCH_SLACK),
        )
        response = await self._open(call)
        lines = split_lines(_Chunks(response, self._fault), limit=LINE_LIMIT)
        try:
            yield lines
        finally:
            await lines.aclose()
            _hang_up(response)

    def _worthwhile(self, method: str, fault: BaseException) -> bool:
        """True where another attempt may help and can do no harm."""
        if self._closed:
            return False
        if isinstance(fault, TooManyRequests | _NotSent):
            return True
        return method == "GET" and isinstance(fault, Unreachable | ServerError)

    async def _send(self, call: _Call) -> bytes:
        """One attempt; with a token that changes, two where the first one's was refused."""
        source = self.connection.token_source
        if source is None:
            return await self._attempt(call, None)
        token = await _token(source)
        try:
            return await self._attempt(call, token)
        except Unauthorized:
            renewed = await _token(source, rejected=token)
            if renewed == token:
                raise
            return await self._attempt(call, renewed)

    async def _attempt(self, call: _Call, token: str | None) -> bytes:
        async with self._line:
            started = self._clock.monotonic()
            status = NO_ANSWER
            self.requests += 1
            try:
                async with self._start(call, token, self._session(watch=False)) as response:
                    limit = ANSWER_LIMIT if response.status < 300 else REFUSAL_LIMIT
                    answer = await _read(response, limit)
                    status = response.status
            except _FAULTS as e:
                raise self._fault(e) from e
            finally:
                self._meter.count(call.method, status)
                self._meter.took(self._clock.monotonic() - started)
        if status >= 300:
            raise refusal(status, response.headers, answer)
        if len(answer) > ANSWER_LIMIT:
            raise TransportError(f"{self._base}: the answer is larger than {ANSWER_LIMIT} bytes")
        return answer

    async def _open(self, call: _Call) -> aiohttp.ClientResponse:
        """The response of a watch, its events still to come."""
        source = self.connection.token_source
        token = await _token(source) if source else None
        status = NO_ANSWER
        self.requests += 1
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._start(call, token, self._session(watch=True))
                status = response.status
                if status < 300:
                    return response
                async with response:
                    raise refusal(status, response.headers, await _read(response, REFUSAL_LIMIT))
        except _FAULTS as e:
            raise self._fault(e) from e
        finally:
            self._meter.count("WATCH", status)

    def _start(
        self, call: _Call, token: str | None, session: aiohttp.ClientSession
    ) -> aiohttp.client._RequestContextManager:
        body = call.body
        return session.request(
            call.method,
            call.url,
            data=body if body is None or len(body) < STREAMED_BODY else io.BytesIO(body),
            headers=self._headers_for(call, token),
            timeout=call.timeout,
            allow_redirects=False,
            **self._route,
        )

    def _headers_for(self, call: _Call, token: str | None) -> CIMultiDict[str]:
        """Made once for each kind of request; of a token that changes, only the last is kept."""
        key = (call.content_type, call.accept, token)
        known = self._headers.get(key)
        if known is None:
            if any(held != token for _, _, held in self._headers):
                self._headers.clear()
            known = self._headers[key] = CIMultiDict(self._identity)
            known["Accept"] = call.accept
            if call.content_type:
                known["Content-Type"] = call.content_type
            if token:
                known["Authorization"] = f"Bearer {token}"
        return known

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        query = f"?{urlencode(params)}" if params else ""
        return URL(f"{self._base}{path}{query}", encoded=True)

    def _session(self, *, watch: bool) -> aiohttp.ClientSession:
        """The session of requests, or that of watches; made in the loop that uses it first."""
        if self._closed:
            raise Unreachable(f"{self._base}: the client is closed")
        session = self._sessions.get(watch)
        if session is None:
            session = self._sessions[watch] = _session(self._ssl, self._once, watch=watch)
        return session

    async def _once(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request, and keep from aiohttp that the server hung up.

        It would send GET, PUT and DELETE a second time by itself, though the server may have done
        what the first asked for. What may be sent again is decided and counted by us alone.
        """
        try:
            return await send(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as e:
            raise self._fault(e) from e

    def _fault(self, e: Exception) -> TransportError:
        """What a vendor's exception means, in words that stay the same from try to try."""
        if isinstance(e, aiohttp.ClientConnectorCertificateError):
            e = e.certificate_error
        if isinstance(e, ssl.SSLCertVerificationError):
            return TLSVerificationFailed(f"{self._base}: {e.verify_message}")
        if isinstance(e, aiohttp.ClientConnectorError):
            return _NotSent(f"{self._base}: {_words(e.os_error)}")
        if isinstance(e, aiohttp.ConnectionTimeoutError):
            return _NotSent(f"{self._base}: no connection in time")
        if isinstance(e, TimeoutError):
            return Unreachable(f"{self._base}: no answer in time")
        cause_text = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        return Unreachable(f"{self._base}: {cause_text or type(e).__name__}")


def _words(e: OSError) -> str:
    """The cause alone: asyncio's own sentence about a connection tells the address again."""
    if e.errno and not isinstance(e, ssl.SSLError | socket.gaierror):
        return os.strerror(e.errno)
    return e.strerror or str(e)


class _Chunks:
    """The body of a response as it arrives, vendor exceptions wrapped. A plain iterator: small."""

    def __init__(self, response: aiohttp.ClientResponse, fault: Any) -> None:
        self._content = response.content
        self._fault = fault

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._content.readany()
        except _FAULTS as e:
            raise self._fault(e) from e
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """End a stream at once.

    A farewell of TLS would keep the connection until the server answers, and nobody waits for that.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body; reading stops once it is longer than `limit`."""
    parts = []
    size = 0
    while size <= limit and (chunk := await response.content.readany()):
        parts.append(chunk)
        size += len(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _token(source: TokenSource, *, rejected: str | None = None) -> str:
    try:
        return await source(rejected=rejected)
    except ConfigurationError as e:
        raise Unauthorized(code=401, reason="Unauthorized", message=str(e)) from e


def _session(
    context: ssl.SSLContext, middleware: aiohttp.ClientMiddlewareType, *, watch: bool
) -> aiohttp.ClientSession:
    """Connections of one kind. The line in front of requests is ours, so aiohttp has no limit."""
    connector = aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=IDLE_SECONDS)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=WATCH_BUFFER if watch else 2**18,
        middlewares=(middleware,),
    )


@functools.lru_cache(maxsize=64)
def _timeouts(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=seconds / 2)


@functools.lru_cache(maxsize=64)
def _silence(connect: float, read: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect / 2, sock_read=read)


def _route(connection: Connection) -> dict[str, Any]:
    """How to get there, as aiohttp takes it: the name to verify, and the proxy."""
    route: dict[str, Any] = {}
    if connection.tls_server_name:
        route["server_hostname"] = connection.tls_server_name
    if connection.proxy_url:
        route["proxy"], route["proxy_headers"] = proxy(connection.proxy_url)
    return route
