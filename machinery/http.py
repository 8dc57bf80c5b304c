"""Our own endpoints: a small JSON-minded server, so that nobody above speaks a web framework.

Every error is `{"message": …}` with its status code. Paths are written `/apis/v1/nodes/:name`. A
handler that fails answers 500 and is logged; it never ends the process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from aiohttp import web

from machinery import logs

LOG = logs.get(__name__)
BODY_LIMIT = 1024 * 1024
"""Bytes of a request's body; a longer one is refused with 413."""
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. `params` are those of the path, `query` those behind the question mark."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """Routes, and a listener on one address."""

    def __init__(self) -> None:
        self._routes: dict[str, dict[str, Handler]] = {}
        self._runner: web.AppRunner | None = None

    def route(self, method: str, path: str, handler: Handler) -> None:
        """Answer that method and path. Raises ValueError when something does already."""
        methods = self._routes.setdefault(path, {})
        if method in methods:
            raise ValueError(f"{method} {path} has a handler already")
        methods[method] = handler

    def routes(self) -> dict[str, list[str]]:
        """The sorted paths of each method, as they were written."""
        listed: dict[str, list[str]] = {}
        for path in sorted(self._routes):
            for method in self._routes[path]:
                listed.setdefault(method, []).append(path)
        return listed

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is a free one where 0 was asked for. Raises OSError."""
        app = web.Application(client_max_size=BODY_LIMIT, middlewares=[_as_json])
        for path, methods in self._routes.items():
            for method, handler in methods.items():
                app.router.add_route(method, _pattern(path), _adapted(handler), expect_handler=None)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        try:
            await site.start()
        except OSError:
            await self.stop()
            raise
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening; requests under way get a few seconds."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()


def _pattern(path: str) -> str:
    parts = path.split("/")
    return "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in parts)


def _adapted(handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        asked = Request(
            method=request.method,
            path=request.path,
            params=dict(request.match_info),
            query=dict(request.query),
            body=await request.read(),
            headers=dict(request.headers),
        )
        given = await handler(asked)
        headers = {"Content-Type": given.content_type}
        return web.Response(status=given.status, body=given.body, headers=headers)

    return answer


@web.middleware
async def _as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as e:
        return _failure(e.status, e.reason)
    except Exception:
        LOG.exception("%s %s failed", request.method, request.path)
        return _failure(500, "internal error, see the log")


def _failure(status: int, message: str) -> web.Response:
    body = msgspec.json.encode({"message": message})
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json"})
