"""Our own endpoints: a small server of JSON that hides the web framework.

An error is `{"message": …}` with its status code. Paths are written `/apis/v1/nodes/:name`. HEAD is
answered as GET, without the body. A handler that fails answers 500 and is logged under its route. A
client that hangs up is not logged. A stream ends by its time limit and when the server stops.
`machinery.connection_limits` bounds connections and Host names.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import cast

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from machinery import logs, metrics
from machinery.config.address import loopback
from machinery.connection_limits import (
    HEAD_SECONDS,
    ConnectionLimiter,
    MalformedRequestFilter,
    names_this_machine,
)
from machinery.http_messages import Handler, Request, Response

LOG = logs.get(__name__)
BODY_LIMIT = 1024 * 1024
"""Bytes of a request's body; a longer one is refused with 413."""
STOP_SECONDS = 5.0


_MISDIRECTED = "this address is for this machine alone: call it by its IP address or as localhost"
_MALFORMED = logging.getLogger(f"{__name__}.noise")
_MALFORMED.addFilter(MalformedRequestFilter(lambda fault: isinstance(fault, HttpProcessingError)))


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
        """Report the request to the limiter, and refuse one whose Host names another machine."""
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
        """Answer paths without a route; a wrong method on a known path remains its own error."""
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
    """Return the whole request. Raises HTTPException, also for an incomplete body."""
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
