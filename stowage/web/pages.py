"""The routes of the page: who may ask, which view answers, as HTML or as JSON."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from machinery.api.resources import WORKLOADS
from machinery.clock import Clock
from machinery.errors import BadRequest, ConfigurationError, NotFound, StowageError, TransportError
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from machinery.release import release
from stowage.kinds import Reference
from stowage.planning.plan import Where
from stowage.reading import explain
from stowage.web import assets, columns, render, whatif
from stowage.web.live import LiveFeed
from stowage.web.session import Sessions
from stowage.web.source import FleetSource
from stowage.web.views import Data, Views
from stowage.web.worker import DecisionRequest
from stowage.web.workers import Workers, WorkersBusy

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer."""
HTML = "text/html; charset=utf-8"
STREAM = "text/event-stream"
TITLES: Mapping[int, str] = {
    400: "That cannot be answered",
    401: "Open the page with the address that stowage ui has printed",
    403: "Not allowed",
    404: "There is no such page",
    429: "Try again in a few seconds",
    503: "Not computed in time",
}

Show: TypeAlias = Callable[[Request], Awaitable[Response]]


class WebPages:
    """All pages over one source. `where` names the profiles of explanations and what-ifs."""

    def __init__(
        self,
        source: FleetSource,
        sessions: Sessions,
        where: Where,
        *,
        feed: LiveFeed,
        explaining: Workers,
        supposing: Workers,
        system: str,
        clock: Clock,
    ) -> None:
        self._source, self._sessions, self._where = source, sessions, where
        self.feed, self.explaining, self._supposing = feed, explaining, supposing
        self._views = Views(source.snapshot, system=system, clock=clock)
        self._clock = clock

    async def close(self) -> None:
        """End the worker processes."""
        await self.explaining.close()
        await self._supposing.close()

    def route(self, server: HttpServer) -> None:
        """Register all routes."""
        views = self._views
        for path, template, view in (
            ("/", "overview", lambda _: views.overview()),
            ("/clusters", "clusters", lambda r: views.clusters(r.query)),
            ("/workloads", "workloads", lambda r: views.workloads(r.query)),
            ("/groups", "groups", lambda r: views.groups(r.query)),
            ("/groups/:ns/:name", "group", lambda r: views.group(*_key(r))),
            ("/spreads", "spreads", lambda r: views.spreads(r.query)),
            ("/spreads/:ns/:name", "spread", lambda r: views.spread(*_key(r))),
            ("/reservations", "reservations", lambda r: views.reservations(r.query)),
            ("/reservations/:ns/:name", "reservation", lambda r: views.reservation(*_key(r))),
            ("/policies", "policies", lambda r: views.policies(r.query)),
            ("/policies/:ns/:name", "policy", lambda r: views.policy(*_key(r))),
            ("/workloads/:ns/:name/history", "history", lambda r: views.history(*_key(r))),
        ):
            self._page(server, path, self._simple(template, view))
        self._page(server, "/clusters/:name", self._cluster)
        self._page(server, "/workloads/:ns/:name", self._workload)
        self._page(server, "/whatif", self._whatif_form)
        server.route("POST", "/whatif", self._guarded(self._whatif))
        server.route("GET", "/api/v1/fleet.columns", self._guarded(self._fleet_columns))
        server.route("GET", "/api/v1/workloads.columns", self._guarded(self._workload_columns))
        server.route("GET", "/api/v1/live", self._guarded(self._live))
        server.route("GET", "/static/:name", _static)
        server.route("GET", "/healthz", _healthy)
        server.route("GET", "/readyz", _healthy)
        server.serve_metrics()
        server.otherwise("/", self._guarded(self._missing))

    def _page(self, server: HttpServer, path: str, show: Show) -> None:
        server.route("GET", path, self._guarded(show))

    # --- who, and how it is answered ---

    def _guarded(self, show: Show) -> Show:
        """Answer only whom a session opens the page; faults become pages of their own."""

        async def answer(request: Request) -> Response:
            headers: dict[str, str] = {}
            if not self._sessions.opened(request):
                cookie = self._sessions.redeem(request)
                if not cookie:
                    return self._fault(request, 401, "The key in that address is good for one use.")
                headers["Set-Cookie"] = cookie
            found = await self._shown(request, show)
            return replace(found, headers={**found.headers, **headers})

        return answer

    async def _shown(self, request: Request, show: Show) -> Response:
        try:
            return await show(request)
        except (BadRequest, ValueError) as e:
            return self._fault(request, 400, str(e))
        except (NotFound, ConfigurationError) as e:
            return self._fault(request, 404, str(e))

    def _simple(self, template: str, view: Callable[[Request], Data]) -> Show:
        async def show(request: Request) -> Response:
            return self._answer(request, template, view(request))

        return show

    def _answer(
        self,
        request: Request,
        template: str,
        data: Mapping[str, Any],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **beside: Any,
    ) -> Response:
        """Return the data as JSON, or in the template, which sees `beside` too."""
        if wants_json(request):
            return Response(status, msgspec.json.encode(data), headers=headers or {})
        now = self._clock.now()
        values = {**self._frame(request, now), "data": data, **beside}
        body = render.page(f"{template}.html", now, values)
        return Response(status, body, HTML, headers or {})

    def _frame(self, request: Request, now: datetime) -> dict[str, Any]:
        return {
            "title": self._source.title,
            "notes": self._source.notes(),
            "release": release(),
            "path": request.path,
            "query": request.query,
            "read": now.astimezone().strftime("%H:%M:%S"),
            "states": self._views.states,
        }

    def _fault(
        self, request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        data = {"message": message}
        if wants_json(request):
            return Response(status, msgspec.json.encode(data), headers=headers or {})
        values = {"heading": TITLES[status], "message": message}
        body = render.page("fault.html", self._clock.now(), values)
        return Response(status, body, HTML, headers or {})

    async def _missing(self, request: Request) -> Response:
        return self._fault(request, 404, f"{request.path}: see the menu for what there is.")

    # --- pages that ask more than the snapshot ---

    async def _cluster(self, request: Request) -> Response:
        name = request.params["name"]
        data = self._views.cluster(name)
        try:
            data["events"] = await self._source.events(name)
        except TransportError as e:
            data["events"], data["eventsFault"] = [], str(e)
        return self._answer(request, "cluster", data)

    async def _workload(self, request: Request) -> Response:
        namespace, name = _key(request)
        recorded = self._views.recorded(namespace, name)
        told = await self._explained(namespace, name)
        stored = self._views.stored(WORKLOADS, namespace, name)
        data = {**told, "recorded": recorded} if self._where.hub is not None else told
        objects = self._views.objects(stored, request.query.get("rendered", ""))
        return self._answer(
            request, "workload", data, recorded=recorded, stored=stored, objects=objects
        )

    async def _explained(self, namespace: str, name: str) -> Mapping[str, Any]:
        """Return what would be decided now, or why that is not told."""
        if (planned := self._source.planned.get((namespace, name))) is not None:
            return planned
        try:
            return (await self.explaining.ask(self._request(namespace, explain=f"wl/{name}")))[0]
        except WorkersBusy:
            fault = "another is being computed: load the page again"
        except StowageError as e:
            fault = str(e)
        return explain.untold(namespace, Reference(WORKLOADS, name), fault)

    def _request(self, namespace: str, **asked: Any) -> DecisionRequest:
        file = str(self._where.config_file.resolve()) if self._where.config_file else ""
        return DecisionRequest(namespace, file, list(self._where.plugins), **asked)

    async def _whatif_form(self, request: Request) -> Response:
        return self._answer(request, "whatif", {}, asked=whatif.asked(request.query), faults=[])

    async def _whatif(self, request: Request) -> Response:
        if not whatif.same_origin(request):
            return self._fault(request, 403, "This page takes forms of its own alone.")
        scenario = whatif.scenario_of(request)
        asked = self._request(self._where.namespace, scenario=scenario)
        try:
            result, revision = await self._supposing.ask(asked)
        except WorkersBusy as e:
            return self._fault(request, 429, str(e), {"Retry-After": "5"})
        except StowageError as e:
            status = whatif.status_of(e)
            if wants_json(request) or status == 503:
                return self._fault(request, status, str(e))
            return self._answer(
                request, "whatif", {}, status=status, asked=scenario, faults=[str(e)]
            )
        data = {**result, "snapshot": {"rev": revision, "time": self._clock.now().isoformat()}}
        return self._answer(request, "whatif", data, asked=scenario, faults=[])

    # --- what scripts ask ---

    async def _fleet_columns(self, request: Request) -> Response:
        rows = self._views.fleet.clusters()
        return _columns(request, columns.of_clusters(rows, self._source.snapshot.revision))

    async def _workload_columns(self, request: Request) -> Response:
        rows, namespace = self._views.fleet.workloads(), request.query.get("ns", "")
        rows = [row for row in rows if namespace in ("", row["namespace"])]
        return _columns(request, columns.of_workloads(rows, self._source.snapshot.revision))

    async def _live(self, request: Request) -> Response:
        if self.feed.full:
            return self._fault(request, 429, "too many open pages", {"Retry-After": "30"})
        session = self._sessions.opened(request)
        stream = self.feed.stream(session, request.header("Last-Event-ID"))
        return Response(200, content_type=STREAM, stream=stream)


def wants_json(request: Request) -> bool:
    """Whether the data is asked for: by `?format=json`, or by Accept without HTML."""
    accept = request.header("Accept")
    return request.query.get("format") == "json" or (
        "application/json" in accept and "text/html" not in accept
    )


def _key(request: Request) -> tuple[str, str]:
    return request.params["ns"], request.params["name"]


def _columns(request: Request, data: columns.Columns) -> Response:
    """Return JSON, packed where the client takes that, or 304 for what it has."""
    body = msgspec.json.encode(data)
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {"ETag": etag, "Vary": "Accept-Encoding", "Cache-Control": "private, no-cache"}
    if request.header("If-None-Match") == etag:
        return Response(304, headers=headers)
    if "gzip" in request.header("Accept-Encoding"):
        return Response(
            200, gzip.compress(body, 5), headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(200, body, headers=headers)


async def _static(request: Request) -> Response:
    found = assets.named().get(request.params["name"])
    if found is None:
        return Response(404, b'{"message": "there is no such file"}')
    return Response(200, found.body, found.content_type, {"Cache-Control": assets.KEPT})


async def _healthy(_request: Request) -> Response:
    return Response(200, b"ok\n", "text/plain; charset=utf-8")
