"""Endpoints of plugins, below `/apis/v1/plugins/<Name>/`.

A plugin with a method `routes()` gets them, once for each process, however many profiles enable it:
the instance of the first one answers. They have the same guard, the same check for the leader and
the same errors as our own. An invalid route is left out and logged.
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
"""A handler that takes longer is given up (504)."""
ANSWER_LIMIT = 8 * 1024 * 1024
"""Bytes of an answer; a handler that gives more has failed (500)."""

PAGE = 200
"""Objects of one answer: each takes some tens of microseconds."""

Answer: TypeAlias = Callable[[Request], Awaitable[Any]]
"""Returns a Response, or anything that JSON can hold, which is sent with status 200."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_PATH = re.compile(r"(/([A-Za-z0-9_.~-]+|:[A-Za-z_][A-Za-z0-9_]*))+")


class Route(NamedTuple):
    """One endpoint: `path` begins with a slash, `:param` stands for one part of it."""

    method: str
    path: str
    answer: Answer


@runtime_checkable
class Serves(Plugin, Protocol):
    """A plugin with endpoints."""

    def routes(self) -> Sequence[Route]:
        """Called once, before anything is served."""
        ...


class Endpoint(NamedTuple):
    """An endpoint as served: the whole path, and a handler within the limits."""

    method: str
    path: str
    handler: Handler


def as_json(status: int, body: Any) -> Response:
    return Response(status, msgspec.json.encode(body), "application/json")


def failure(status: int, message: str) -> Response:
    """Return an error in the form of every endpoint."""
    return as_json(status, {"message": message})


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Book(Generic[T]):
    """The endpoints of a kind: `/plural` in pages, and `/one/:namespace/:name` in detail.

    The list is in the order of the keys, as lists of Kubernetes are. The value of `continue` in an
    answer, given with the next request, returns the next page. All functions are called at the time
    of a request, and return what JSON can hold.

    Args:
        plural: the path of the list, and the field of its answer.
        named: what the kind is called where an object is not found.
        objects: returns all objects.
        find: returns the object of a key.
        summary: returns an object as the list shows it.
        detail: returns an object in full.
        one: the path of an object; `plural` by default.
        key: returns the key of an object.
        missing: returns what follows `named` where no object has that key.
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
    """Return the endpoints of these plugins; of several with one name, those of the first."""
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
    """Return what is wrong with a route; empty for nothing."""
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
    """Return the same for two routes that answer the same requests."""
    return route.method, re.sub(r":\w+", ":", route.path)


def _bounded(answer: Answer) -> Handler:
    async def handler(request: Request) -> Response:
        limit = asyncio.timeout(ANSWER_SECONDS)
        try:
            async with limit:
                given = await answer(request)
        except TimeoutError:
            if not limit.expired():
                raise  # the handler's own: it failed
            return failure(504, f"no answer within {ANSWER_SECONDS:.0f} s")
        response = given if isinstance(given, Response) else as_json(200, given)
        if len(response.body) > ANSWER_LIMIT:
            return failure(500, f"the answer is larger than {ANSWER_LIMIT} bytes")
        return response

    return handler
