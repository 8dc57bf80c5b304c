"""Endpoints of plugins, below `/apis/v1/plugins/<Name>/`.

The instance of the first profile answers. An invalid route is left out and logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from controller.framework.interface import Plugin
from controller.framework.runtime.handle import once
from machinery import logs
from machinery.http_messages import Handler, Request, Response
from machinery.types.metadata import Key

LOG = logs.get(__name__)
PREFIX = "/apis/v1/plugins"
METHODS = frozenset({"GET", "PUT", "POST", "PATCH", "DELETE"})
ANSWER_SECONDS = 10.0
"""Seconds. A slower handler is answered with 504."""
ANSWER_LIMIT = 8 * 1024 * 1024
"""Bytes. A larger answer is replaced by 500."""

PAGE = 200
"""Objects per answer, at tens of microseconds each."""

Answer: TypeAlias = Callable[[Request], Awaitable[Any]]
"""Returns a Response, or a JSON value for status 200."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_PATH = re.compile(r"(/([A-Za-z0-9_.~-]+|:[A-Za-z_][A-Za-z0-9_]*))+")


class Route(NamedTuple):
    """`path` begins with a slash; `:param` matches one segment."""

    method: str
    path: str
    answer: Answer


@runtime_checkable
class Serves(Plugin, Protocol):
    def routes(self) -> Sequence[Route]:
        """Called once, before anything is served."""
        ...


class Endpoint(NamedTuple):
    method: str
    path: str
    handler: Handler


def as_json(status: int, body: Any) -> Response:
    return Response(status, msgspec.json.encode(body), "application/json")


def failure(status: int, message: str) -> Response:
    return as_json(status, {"message": message})


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Book(Generic[T]):
    """The endpoints of a kind: `/plural` in pages, and `/one/:namespace/:name` in detail.

    The list is sorted by key. An answer's `continue` returns the next page. All functions are
    called per request and return JSON values.

    Args:
        plural: the path of the list, and the field of its answer.
        named: the kind's name in a not-found message.
        summary: returns an object as the list has it.
        detail: returns an object in full.
        one: the path of an object; `plural` by default.
        missing: returns what follows `named` in a not-found message.
    """

    plural: str
    named: str
    objects: Callable[[], Iterable[T]]
    find: Callable[[Key], T | None]
    summary: Callable[[T], Mapping[str, Any]]
    detail: Callable[[T], Mapping[str, Any]]
    one: str = ""
    key: Callable[[T], Key] = attrgetter("key")
    missing: Callable[[Key], str] = "/".join

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", f"/{self.plural}", self._page),
            Route("GET", f"/{self.one or self.plural}/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        namespace, _, name = request.query.get("continue", "").partition("/")
        later = (each for each in self.objects() if self.key(each) > (namespace, name))
        found = nsmallest(PAGE + 1, later, key=self.key)
        more = {"continue": "/".join(self.key(found[PAGE - 1]))} if len(found) > PAGE else {}
        return {self.plural: [self.summary(each) for each in found[:PAGE]], **more}

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        key = request.params["namespace"], request.params["name"]
        if (found := self.find(key)) is not None:
            return self.detail(found)
        return failure(404, f"cannot find {self.named} {self.missing(key)}")


def services(plugins: Iterable[Plugin]) -> list[Endpoint]:
    """Of several plugins with one name the first counts."""
    return [each for plugin in once(plugins) for each in _of(plugin)]


def _of(plugin: Plugin) -> Iterator[Endpoint]:
    if not isinstance(plugin, Serves):
        return
    try:
        routes = list(plugin.routes())
    except Exception:
        LOG.exception("plugin %s has no endpoints: routes() failed", plugin.name)
        return
    taken: set[tuple[str, str]] = set()
    for route in routes:
        fault = _fault(plugin.name, route, taken)
        if fault:
            LOG.error("an endpoint of plugin %s is left out: %s", plugin.name, fault)
            continue
        taken.add(_shape(route))
        path = f"{PREFIX}/{plugin.name}{route.path}"
        yield Endpoint(route.method, path, _bounded(route.answer))


def _fault(name: str, route: Any, taken: set[tuple[str, str]]) -> str:
    if not isinstance(route, Route) or not callable(route.answer):
        return f"{type(route).__name__} is no Route with a handler"
    if not _NAME.fullmatch(name):
        return "the plugin's name does not fit into a path"
    if route.method not in METHODS:
        return f"no such method: {route.method}"
    if not isinstance(route.path, str) or not _PATH.fullmatch(route.path):
        return f"no such path: {route.path}"
    params = re.findall(r":(\w+)", route.path)
    if len(params) != len(set(params)):
        return f"a parameter stands twice in {route.path}"
    return f"{route.method} {route.path} stands there twice" if _shape(route) in taken else ""


def _shape(route: Route) -> tuple[str, str]:
    """Return a value that is equal for routes that match the same requests."""
    return route.method, re.sub(r":\w+", ":", route.path)


def _bounded(answer: Answer) -> Handler:
    async def handler(request: Request) -> Response:
        limit = asyncio.timeout(ANSWER_SECONDS)
        try:
            async with limit:
                given = await answer(request)
        except TimeoutError:
            if not limit.expired():
                raise  # the handler's own time-out
            return failure(504, f"no answer within {ANSWER_SECONDS:.0f} s")
        response = given if isinstance(given, Response) else as_json(200, given)
        if len(response.body) > ANSWER_LIMIT:
            return failure(500, f"the answer is larger than {ANSWER_LIMIT} bytes")
        return response

    return handler
