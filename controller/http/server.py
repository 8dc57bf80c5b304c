"""The controller's HTTP server: health, metrics, debug switches, and diagnosis.

Endpoints below `/apis/v1/` answer from the leader's cache; a standby answers 503. Debug and
diagnosis expose every tenant's Workloads: except on a loopback address, `Guard` checks a bearer
token by the hub's RBAC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from controller.eventhandlers import SchedulerCache
from controller.framework.runtime.services import PREFIX, Endpoint, as_json, failure
from controller.snapshot.snapshot import amounts_of, rendered
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import TOKEN_REVIEWS
from machinery.discovery.access_reviews import allowed, review
from machinery.errors import TransportError
from machinery.http_messages import Handler, Request, Response
from machinery.http_server import HttpServer
from machinery.types.metadata import Key

REVIEWS_AT_ONCE = 2
"""Concurrent reviews: a flood of wrong tokens must not take the connections of writes."""


PATH_PREFIX = "/stowage"
"""In the hub's RBAC. system:discovery opens `/apis/*` to every user."""


@dataclass(frozen=True, slots=True)
class DeniedRequest:
    status: int
    message: str


class Guard:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._turns = asyncio.Semaphore(REVIEWS_AT_ONCE)

    async def refusal(self, *, authorization: str, method: str, path: str) -> DeniedRequest | None:
        """Return None if the bearer may use that HTTP method on that path.

        Reviews `/stowage` + path on the hub. Raises TransportError.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return DeniedRequest(401, "a bearer token is needed")
        async with self._turns:
            status = await review(self._client, TOKEN_REVIEWS, {"token": token.strip()})
            if not status.get("authenticated"):
                return DeniedRequest(401, "the token is not valid on the hub")
            return await self._authorize(status.get("user", {}), method.lower(), path)

    async def _authorize(
        self, user: Mapping[str, Any], verb: str, path: str
    ) -> DeniedRequest | None:
        who = {
            "user": user.get("username", ""),
            "groups": user.get("groups", []),
            "uid": user.get("uid", ""),
            "extra": user.get("extra", {}),
        }
        wanted = {"path": f"{PATH_PREFIX}{path}", "verb": verb}
        if await allowed(self._client, {**who, "nonResourceAttributes": wanted}):
            return None
        return DeniedRequest(403, f"{who['user']} may not {verb} {wanted['path']}")


SERVICES = "/apis/v1/__services__"
NAMED = 100
"""Characters of the request that an error repeats."""


Diagnosis: TypeAlias = Callable[[Key], Awaitable[dict[str, Any] | None]]
"""Returns each cluster's verdict and score for a Workload, or None."""


class Flags:
    def __init__(self, *, debug_scores: int = 0) -> None:
        self.debug_scores = debug_scores

    def set_scores(self, text: str) -> str:
        """Set the rows of scores that each decision logs. Raises ValueError."""
        self.debug_scores = _natural("debugTopNScores", text)
        return f"successfully set debugTopNScores to {text}"

    def set_verbosity(self, text: str) -> str:
        """Set the verbosity as in klog. Raises ValueError."""
        logs.set_verbosity(_natural("klog.logging.verbosity", text))
        return f"successfully set klog.logging.verbosity to {text}"


def install(
    server: HttpServer,
    *,
    cache: SchedulerCache,
    leading: Callable[[], bool],
    unready: Callable[[], str],
    diagnosis: Diagnosis,
    flags: Flags,
    guard: Guard | None,
    services: Iterable[Endpoint] = (),
) -> None:
    """Route every endpoint. Without a guard every caller may ask.

    `unready` returns why this instance cannot serve yet, or empty.
    """
    endpoints = _Endpoints(server, cache, unready, diagnosis, flags)

    def ask(path: str, handler: Handler, method: str = "GET") -> None:
        server.route(method, path, _guarded(_leaders_only(handler, leading), guard))

    server.route("GET", "/healthz", endpoints.healthz)
    server.route("GET", "/readyz", endpoints.readyz)
    server.serve_metrics()
    for method in ("PUT", "POST"):
        server.route(method, "/debug/flags/s", _guarded(endpoints.scores, guard))
        server.route(method, "/debug/flags/v", _guarded(endpoints.verbosity, guard))
    ask(SERVICES, endpoints.services)
    ask("/apis/v1/nodes/:name", endpoints.cluster)
    ask("/apis/v1/clusters/:name", endpoints.cluster)
    ask("/apis/v1/diagnosis/:namespace/:name", endpoints.diagnosis)
    ask("/apis/v1/diagnosis/:namespace/:plural/:name", endpoints.diagnosis)
    for service in services:
        ask(service.path, service.handler, service.method)
    server.otherwise(f"{PREFIX}/", _guarded(_leaders_only(endpoints.unknown, leading), guard))


class _Endpoints:
    def __init__(
        self,
        server: HttpServer,
        cache: SchedulerCache,
        unready: Callable[[], str],
        diagnosis: Diagnosis,
        flags: Flags,
    ) -> None:
        self._server = server
        self._cache = cache
        self._unready = unready
        self._diagnosis = diagnosis
        self._flags = flags

    async def healthz(self, _request: Request) -> Response:
        return _text("ok")

    async def readyz(self, _request: Request) -> Response:
        reason = self._unready()
        return failure(503, reason) if reason else _text("ok")

    async def scores(self, request: Request) -> Response:
        return _set(self._flags.set_scores, request)

    async def verbosity(self, request: Request) -> Response:
        return _set(self._flags.set_verbosity, request)

    async def services(self, _request: Request) -> Response:
        routes = self._server.routes()
        listed = {
            m: sorted(p for p in paths if p.startswith("/apis/")) for m, paths in routes.items()
        }
        return as_json(200, {method: paths for method, paths in listed.items() if paths})

    async def unknown(self, request: Request) -> Response:
        plugin = request.path.removeprefix(f"{PREFIX}/").partition("/")[0]
        paths = chain.from_iterable(self._server.routes().values())
        if any(path.startswith(f"{PREFIX}/{plugin}/") for path in paths):
            return failure(404, f"plugin {plugin[:NAMED]} has no such endpoint; see {SERVICES}")
        return failure(404, f"no plugin {plugin[:NAMED]} has endpoints; see {SERVICES}")

    async def cluster(self, request: Request) -> Response:
        name = request.params["name"]
        found = cluster_view(self._cache, name)
        return failure(404, f"cannot find node {name}") if found is None else as_json(200, found)

    async def diagnosis(self, request: Request) -> Response:
        asked = request.params
        namespace = asked["namespace"]
        name = "/".join(asked[part] for part in ("plural", "name") if part in asked)
        found = await self._diagnosis((namespace, name))
        if found is None:
            return failure(404, f"cannot find workload {namespace}/{name}")
        return as_json(200, found)


def _guarded(handler: Handler, guard: Guard | None) -> Handler:
    if guard is None:
        return handler

    async def checked(request: Request) -> Response:
        try:
            refusal = await guard.refusal(
                authorization=_header(request, "authorization"),
                method=request.method,
                path=request.path,
            )
        except TransportError as fault:
            return failure(503, f"the hub could not review the token: {type(fault).__name__}")
        return failure(refusal.status, refusal.message) if refusal else await handler(request)

    return checked


def _leaders_only(handler: Handler, leading: Callable[[], bool]) -> Handler:
    async def checked(request: Request) -> Response:
        if not leading():
            return failure(503, "the instance is not leader")
        return await handler(request)

    return checked


def _set(setter: Callable[[str], str], request: Request) -> Response:
    try:
        return _text(setter(request.body.decode(errors="replace").strip()))
    except ValueError as fault:
        return failure(400, str(fault))


def _natural(flag: str, text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise ValueError(f"failed set {flag} {text[:40]}: not a number from 0 to 999999999")
    return int(text)


def _header(request: Request, name: str) -> str:
    return next((value for key, value in request.headers.items() if key.lower() == name), "")


def _text(text: str) -> Response:
    return Response(200, text.encode(), "text/plain; charset=utf-8")


def cluster_view(cache: SchedulerCache, name: str) -> dict[str, Any] | None:
    snapshot = cache.snapshot()
    amounts = amounts_of(snapshot, name)
    if amounts is None:
        return None
    meta = snapshot.clusters[snapshot.row[name]].metadata
    return {
        "name": name,
        "labels": meta.labels,
        "generation": meta.generation,
        "allocatable": rendered(amounts.allocatable),
        "requested": rendered(amounts.requested),
        "reserved": rendered(amounts.reserved),
        "remaining": rendered(amounts.remaining),
        "shares": {"/".join(key): replicas for key, replicas in cache.shares(name).items()},
    }
