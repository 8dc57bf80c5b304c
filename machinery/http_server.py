"""Our own endpoints: a small server of JSON that hides the web framework.

An error is `{"message": …}` with its status code. A handler that fails answers 500 and is logged
under its route. A stream ends by its time limit and when the server stops. Connections are bounded
in number and in time (`ConnectionLimiter`).

A loopback address requires no token, and therefore answers only a Host that is an IP address or
localhost. Other addresses accept any name and require a token.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import cast

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from machinery import logs, metrics
from machinery.clock import Clock, SystemClock
from machinery.config.address import loopback
from machinery.http_messages import Handler, Request, Response

LOG = logs.get(__name__)
BODY_LIMIT = 1024 * 1024
"""Bytes of a request's body; a longer one is refused with 413."""
STOP_SECONDS = 5.0


_MISDIRECTED = "this address is for this machine alone: call it by its IP address or as localhost"


class HttpServer:
    """Routes, and a listener on one address. Every answer has `headers`, unless it has its own."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})
        self._routes: dict[str, dict[str, Handler]] = {}
        self._otherwise: dict[str, Handler] = {}
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None
        self._stopping = asyncio.Lock()
        self._scrape = metrics.Scrape()

    def route(self, method: str, path: str, handler: Handler) -> None:
        """Register the handler of a method and path. Raises ValueError when there is one."""
        methods = self._routes.setdefault(path, {})
        if method in methods:
            raise ValueError(f"{method} {path} has a handler already")
        methods[method] = handler

    def serve_metrics(self) -> None:
        """Register `GET /metrics`, in OpenMetrics for a client whose Accept header names it."""
        self.route("GET", "/metrics", self._metrics)

    async def _metrics(self, request: Request) -> Response:
        text, content_type = await self._scrape.text(request.header("Accept"))
        return Response(200, text, content_type)

    def otherwise(self, prefix: str, handler: Handler) -> None:
        """Register the handler of paths with that prefix and without a route, for any method."""
        self._otherwise[prefix] = handler

    def routes(self) -> dict[str, list[str]]:
        listed: dict[str, list[str]] = {}
        for path in sorted(self._routes):
            for method in self._routes[path]:
                listed.setdefault(method, []).append(path)
        return listed

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port, a free one for port 0. Raises OSError."""
        app = web.Application(
            client_max_size=BODY_LIMIT, middlewares=[_as_json, self._watched, self._unrouted]
        )
        app.on_response_prepare.append(self._complete)
        for path, methods in self._routes.items():
            for method, handler in _with_head(methods).items():
                answer = self._adapted(f"{method} {path}", handler)
                app.router.add_route(method, _pattern(path), answer, expect_handler=None)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_MALFORMED, shutdown_timeout=STOP_SECONDS
        )
        await self._runner.setup()
        try:
            return await self._listen(host, port, tls)
        except OSError:
            await self.stop()
            raise

    async def _listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        assert self._runner is not None  # noqa: S101 - `start` has just made it
        self._limiter = ConnectionLimiter(
            cast("Callable[[], asyncio.Protocol]", self._runner.server)
        )
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._limiter, host, port, ssl=tls)
        address = self._listener.sockets[0].getsockname()
        self._private = loopback(address[0])
        return int(address[1])

    @web.middleware
    async def _watched(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        limiter, transport = self._limiter, request.transport
        limiter.request_began(transport)
        try:
            if self._private and not names_this_machine(request.headers.get("Host", "")):
                raise web.HTTPMisdirectedRequest(reason=_MISDIRECTED)
            return await handler(request)
        finally:
            limiter.request_ended(transport)

    @web.middleware
    async def _unrouted(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPNotFound:  # the router's: handlers raise none
            for prefix, answer in self._otherwise.items():
                if request.path.startswith(prefix):
                    return await self._adapted(f"{request.method} {prefix}", answer)(request)
            raise

    async def _complete(self, _request: web.Request, response: web.StreamResponse) -> None:
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)

    def _adapted(
        self, route: str, handler: Handler
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            asked = await _read(request)
            try:
                given = await handler(asked)
                headers = {**given.headers, "Content-Type": given.content_type}
                if given.stream is None:
                    return web.Response(status=given.status, body=given.body, headers=headers)
                answered = web.StreamResponse(status=given.status, headers=headers)
            except Exception:
                LOG.exception("%s failed, asked for %r", route, request.path)
                return _failure(500, "internal error, see the log")
            with suppress(ConnectionError):  # the client hangs up when it has seen enough
                async with aclosing(given.stream) as pieces:
                    await self._send(request, answered, pieces)
            return answered

        return answer

    async def _send(
        self, request: web.Request, answer: web.StreamResponse, pieces: AsyncIterator[bytes]
    ) -> None:
        await answer.prepare(request)
        if request.method == "HEAD":
            return
        self._limiter.stream_began(request.transport)
        async for piece in pieces:
            await answer.write(piece)
        await answer.write_eof()

    async def stop(self) -> None:
        """Stop listening; requests in flight get STOP_SECONDS.

        May be called again: every call returns when the server has stopped. A cancelled call leaves
        the rest to the next.
        """
        async with self._stopping:
            if self._listener is not None:
                self._listener.close()
                self._listener = None
            if self._runner is not None:
                await self._runner.cleanup()
                self._runner = None


def _with_head(methods: Mapping[str, Handler]) -> dict[str, Handler]:
    return {"HEAD": methods["GET"], **methods} if "GET" in methods else dict(methods)


def _pattern(path: str) -> str:
    parts = path.split("/")
    return "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in parts)


async def _read(request: web.Request) -> Request:
    """Raises HTTPException, also for an incomplete body."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            body = await request.read()
    except TimeoutError as e:
        raise web.HTTPRequestTimeout(reason="the body did not come in time") from e
    except (ConnectionError, web.RequestPayloadError) as e:
        raise web.HTTPBadRequest(reason="the body breaks off") from e
    return Request(
        method=request.method,
        path=request.path,
        params=dict(request.match_info),
        query=dict(request.query),
        body=body,
        headers=dict(request.headers),
    )


@web.middleware
async def _as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as e:
        return _failure(e.status, e.reason, allow=e.headers.get("Allow"))


def _failure(status: int, message: str, *, allow: str | None = None) -> web.Response:
    body = msgspec.json.encode({"message": message})
    headers = {"Content-Type": "application/json"}
    if allow:
        headers["Allow"] = allow
    return web.Response(status=status, body=body, headers=headers)


CONNECTIONS = 128
"""The most open connections."""
HEAD_SECONDS = 10.0
"""From the connection, or the end of the last answer, to the end of the next request's head."""
EXCHANGE_SECONDS = 60.0
"""From a request's head to the end of its answer."""
STREAM_SECONDS = 600.0
"""The same for a stream."""
LOG_SECONDS = 60.0


class ConnectionLimiter:
    """`protocol` makes the HTTP protocol of a connection."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._protocol = protocol
        self._open: dict[asyncio.BaseTransport, _LimitedConnection] = {}  # the longest idle first

    def __call__(self) -> asyncio.Protocol:
        return _LimitedConnection(self, self._protocol())

    def admit(self, connection: _LimitedConnection, transport: asyncio.Transport) -> bool:
        if len(self._open) >= CONNECTIONS:
            idle = next((each for each in self._open.values() if not each.busy), None)
            if idle is None:
                return False
            idle.abort()
        self._open[transport] = connection
        return True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        self._open.pop(transport, None)

    def request_began(self, transport: asyncio.BaseTransport | None) -> None:
        if transport is not None and (connection := self._open.get(transport)):
            connection.restart_timer(busy=True)

    def stream_began(self, transport: asyncio.BaseTransport | None) -> None:
        if transport is not None and (connection := self._open.get(transport)):
            connection.restart_timer(busy=True, seconds=STREAM_SECONDS)

    def request_ended(self, transport: asyncio.BaseTransport | None) -> None:
        if transport is not None and (connection := self._open.pop(transport, None)):
            self._open[transport] = connection  # the last to idle
            connection.restart_timer(busy=False)


class _LimitedConnection(asyncio.Protocol):
    def __init__(self, limiter: ConnectionLimiter, inner: asyncio.Protocol) -> None:
        self._limiter = limiter
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._admitted = False
        self.busy = False

    def restart_timer(self, *, busy: bool, seconds: float | None = None) -> None:
        self.busy = busy
        if self._timer is not None:
            self._timer.cancel()
        most = seconds or (EXCHANGE_SECONDS if busy else HEAD_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(most, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._limiter.closed(self._transport)
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._admitted = self._limiter.admit(self, self._transport)
        if not self._admitted:
            self._transport.abort()
            return
        self.restart_timer(busy=False)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._limiter.closed(self._transport)
        if self._admitted:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._admitted:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def names_this_machine(host: str) -> bool:
    """Whether a Host header is an IP address or localhost, with or without a port; or empty."""
    name = host.strip()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") <= 1:
        name = name.partition(":")[0]
    if name.lower() in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class MalformedRequestFilter(logging.Filter):
    """Logs malformed requests in one line a minute, without a traceback."""

    def __init__(
        self, is_malformed: Callable[[BaseException], bool], *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._is_malformed = is_malformed
        self._clock = clock or SystemClock()
        self._logged_at = -LOG_SECONDS
        self._unlogged = 0

    def filter(self, record: logging.LogRecord) -> bool:
        fault = record.exc_info[1] if record.exc_info else None
        if fault is None or not self._is_malformed(fault):
            return True
        self._unlogged += 1
        if self._clock.monotonic() - self._logged_at < LOG_SECONDS:
            return False
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = (
            "requests that were no HTTP since the last line: %d",
            (self._unlogged,),
        )
        record.exc_info = record.exc_text = None
        self._logged_at, self._unlogged = self._clock.monotonic(), 0
        return True


_MALFORMED = logging.getLogger(f"{__name__}.noise")
_MALFORMED.addFilter(MalformedRequestFilter(lambda fault: isinstance(fault, HttpProcessingError)))
