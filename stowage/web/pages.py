"""The routes of the page: which view answers, as HTML or as JSON.

A handler gets a `Visit`, and reads no object that is not in it.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from machinery import logs
from machinery.api.resources import (
    EVENTS,
    MEMBER_CLUSTERS,
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.clock import Clock
from machinery.errors import (
    BadRequest,
    ConfigurationError,
    Forbidden,
    NotFound,
    StowageError,
    TransportError,
)
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from machinery.release import release
from machinery.types.metadata import Key
from stowage.kinds import Reference
from stowage.report import explain, memberpods
from stowage.report.memberpods import Members
from stowage.simulation.plan import Where
from stowage.web import computed, fleetview, render, source, whatif
from stowage.web.live import LiveFeed
from stowage.web.narrowing import NarrowedSnapshot
from stowage.web.render import HTML, fault, wants_json
from stowage.web.source import FleetSource
from stowage.web.views import Data
from stowage.web.visit import Door, Visit
from stowage.web.worker import DecisionRequest, WhatIf
from stowage.web.workers import NotDecided, TookTooLong, Workers, WorkersBusy

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
MOST_ASKED = 50
"""Members that are asked for their pods at once."""
LOG = logs.get(__name__)
STREAM = "text/event-stream"
NOT_SHOWN = "There is no such object, or you may not see it."
UNDECIDED = (
    "This is not decided: it names what is not there or what you may not see, or no profile of the "
    "controller decides it."
)
UNANSWERED = "The hub does not answer who you are and what you may see: try again."

View: TypeAlias = Callable[[Visit, Request], Data]
Show: TypeAlias = Callable[[Visit, Request], Awaitable[Response]]


class WebPages:
    """All pages over one source. `where` names the profiles of explanations and what-ifs.

    `members` are how the reader of this machine reaches the members; None where many read.
    """

    def __init__(
        self,
        source: FleetSource,
        door: Door,
        where: Where,
        *,
        feed: LiveFeed,
        explaining: Workers,
        supposing: Workers,
        clock: Clock,
        members: Members | None = None,
    ) -> None:
        self._source, self._door, self._where = source, door, where
        self._members = members
        self.feed, self.explaining, self._supposing = feed, explaining, supposing
        self._clock = clock
        self._supposed: set[str] = set()

    async def close(self) -> None:
        await self.explaining.close()
        await self._supposing.close()

    def route(self, server: HttpServer) -> None:
        for path, template, view in _TABLES:
            self._page(server, path, self._simple(template, view))
        for path, template, res, view in _OBJECTS:
            self._object(server, path, res, self._simple(template, view))
        self._object(server, "/workloads/:ns/:name", WORKLOADS, self._workload)
        self._page(server, "/clusters/:name", self._cluster)
        self._page(server, "/whatif", self._whatif_form)
        server.route("POST", "/whatif", self._guarded(self._whatif))
        self._page(server, "/api/v1/fleet.columns", self._fleet_columns)
        self._page(server, "/api/v1/workloads.columns", self._workload_columns)
        self._page(server, "/api/v1/live", self._live)
        self._door.route(server)
        server.route("GET", "/static/:name", _static)
        server.route("GET", "/healthz", _healthy)
        server.route("GET", "/readyz", _healthy)
        server.serve_metrics()
        server.otherwise("/", self._guarded(self._missing))

    def _page(self, server: HttpServer, path: str, show: Show) -> None:
        server.route("GET", path, self._guarded(show))

    def _object(self, server: HttpServer, path: str, res: Resource, show: Show) -> None:
        """Register the page of one object, for who may get it."""

        async def got(visit: Visit, request: Request) -> Response:
            return await show(await visit.getting(res, *_key(request)), request)

        server.route("GET", path, self._guarded(got, listed=False))

    # --- who, and how it is answered ---

    def _guarded(
        self, show: Show, *, listed: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        """Answer only whom the door lets in, and, where `listed`, who may list anything.

        Faults become pages of their own.
        """

        async def answer(request: Request) -> Response:
            try:
                visit = await self._door.enter(request)
            except TransportError as e:
                return _unanswered(request, e)
            if isinstance(visit, Response):
                return visit
            found = await self._shown(visit, request, show, listed=listed)
            return replace(found, headers={**found.headers, **visit.headers})

        return answer

    async def _shown(self, visit: Visit, request: Request, show: Show, *, listed: bool) -> Response:
        try:
            if listed:
                await visit.check_list(request.query.get("ns", ""))
            return await show(visit, request)
        except (BadRequest, ValueError) as e:
            return fault(request, 400, str(e))
        except Forbidden as e:
            return fault(request, 403, e.message)
        except (NotFound, ConfigurationError) as e:
            return fault(request, 404, str(e) if visit.scope.whole else NOT_SHOWN)
        except TransportError as e:
            return _unanswered(request, e)

    def _simple(self, template: str, view: View) -> Show:
        async def show(visit: Visit, request: Request) -> Response:
            return self._answer(visit, request, template, view(visit, request))

        return show

    def _answer(
        self,
        visit: Visit,
        request: Request,
        template: str,
        data: Mapping[str, Any],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        made: Mapping[str, Any] | None = None,
        beside: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Response:
        """Return the data as JSON, or in the template, which sees `beside` and `given` too.

        Stored data and what stands `beside` it are narrowed to what the caller may see. What is
        `made` over the whole fleet is so already, and a spec that is `given` is their own.
        """
        about = (request.params.get("ns", ""), request.params.get("name", ""))
        told = {**(made or {}), **visit.objects.told(data, about)}
        if wants_json(request):
            return Response(status, msgspec.json.encode(told), headers=headers or {})
        now = self._clock.now()
        values = {
            **self._frame(visit, request, now),
            **visit.objects.told(beside or {}, about),
            **given,
        }
        body = render.page(f"{template}.html", now, {**values, "data": told})
        return Response(status, body, HTML, headers or {})

    def _frame(self, visit: Visit, request: Request, now: datetime) -> dict[str, Any]:
        return {
            "title": self._source.title,
            "notes": self._source.notes(),
            "release": release(),
            "path": request.path,
            "query": request.query,
            "read": now.astimezone().strftime("%H:%M:%S"),
            "states": visit.views.states,
            "caller": visit.name,
        }

    async def _missing(self, visit: Visit, request: Request) -> Response:
        del visit
        return fault(request, 404, "There is nothing at this address.")

    # --- pages that ask more than the snapshot ---

    async def _cluster(self, visit: Visit, request: Request) -> Response:
        name = request.params["name"]
        data = visit.views.cluster(name)
        told: dict[str, Any] = {"events": []}
        if not visit.objects.hides_clusters:
            told = await self._events(visit, MEMBER_CLUSTERS, ("", name))
        return self._answer(visit, request, "cluster", {**data, **told})

    async def _events(self, visit: Visit, res: Resource, key: Key) -> dict[str, Any]:
        """Return the last Events of an object below `events`, or why they are not shown."""
        try:
            if not await visit.authorizer.allows("list", EVENTS, key[0] or source.OF_CLUSTERS):
                return {"events": [], "eventsFault": "you may not list events"}
            return {"events": await self._source.events(res, key)}
        except TransportError as e:
            return {"events": [], "eventsFault": str(e)}

    async def _workload(self, visit: Visit, request: Request) -> Response:
        namespace, name = _key(request)
        recorded = visit.views.recorded(namespace, name)
        stored = visit.views.stored(WORKLOADS, namespace, name)
        told = await self._explained(namespace, name, visit.user)
        return self._answer(
            visit,
            request,
            "workload",
            {"recorded": recorded} if self._where.hub is not None else {},
            made=computed.explained(told, visit.objects, stored),
            beside={
                "recorded": recorded,
                "stored": {"status": stored.get("status")},
                "rollout": visit.views.rollout(stored, self._clock.now()),
                **await self._events(visit, WORKLOADS, (namespace, name)),
            },
            objects=visit.views.objects(stored, request.query.get("rendered", "")),
            pods=await self._pods(stored) if request.query.get("pods") else None,
        )

    async def _pods(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pods of a Workload, as its members show them to the reader of this machine."""
        if self._members is None:
            return {"rows": [], "silent": {}, "more": 0, "asked": False}
        names = memberpods.clusters(stored)
        asked = names[:MOST_ASKED]
        found = await asyncio.to_thread(memberpods.ask, stored, self._members, asked)
        return {
            "rows": memberpods.rows_of(found, self._clock.now()),
            "silent": {each.cluster: each.why for each in found if each.why},
            "more": len(names) - len(asked),
            "asked": True,
        }

    async def _explained(self, namespace: str, name: str, caller: str) -> Mapping[str, Any]:
        """Return what would be decided now, or why that is not told."""
        if (planned := self._source.planned.get((namespace, name))) is not None:
            return planned
        try:
            asked = self._request(namespace, explain=f"wl/{name}")
            return (await self.explaining.ask(asked, caller))[0]
        except WorkersBusy:
            why = "another is being computed: load the page again"
        except StowageError as e:
            why = str(e)
        return explain.untold(namespace, Reference(WORKLOADS, name), why)

    def _request(self, namespace: str, **asked: Any) -> DecisionRequest:
        file = str(self._where.config_file.resolve()) if self._where.config_file else ""
        return DecisionRequest(namespace, file, list(self._where.plugins), **asked)

    async def _whatif_form(self, visit: Visit, request: Request) -> Response:
        asked = whatif.asked(request.query)
        return self._what_if(visit, request, {}, asked)

    def _what_if(
        self,
        visit: Visit,
        request: Request,
        made: Mapping[str, Any],
        asked: WhatIf,
        *,
        wrong: str = "",
        status: int = 200,
    ) -> Response:
        """Return the form, filled in as `asked`, with its answer or what is wrong with it."""
        return self._answer(
            visit,
            request,
            "whatif",
            {},
            status=status,
            made=made,
            asked=asked,
            faults=[wrong] if wrong else [],
            choices=visit.views.choices(),
        )

    async def _whatif(self, visit: Visit, request: Request) -> Response:
        if not whatif.same_origin(request):
            return fault(request, 403, "This page takes forms of its own alone.")
        scenario = whatif.scenario_of(request)
        if visit.user and visit.user in self._supposed:
            return fault(request, 429, "yours is being computed", headers=_SOON)
        self._supposed.add(visit.user)
        try:
            result, revision = await self._suppose(visit, scenario)
        except WorkersBusy as e:
            return fault(request, 429, str(e), headers=_SOON)
        except (NotDecided, TookTooLong) as e:
            status, why = whatif.status_of(e), str(e)
            if wants_json(request) or status == 503:
                return fault(request, status, why)
            return self._what_if(visit, request, {}, scenario, wrong=why, status=status)
        finally:
            self._supposed.discard(visit.user)
        read = {"rev": revision, "time": self._clock.now().isoformat()}
        return self._what_if(visit, request, {**result, "snapshot": read}, scenario)

    async def _suppose(self, visit: Visit, scenario: WhatIf) -> tuple[dict[str, Any], int]:
        """Return what the caller may see of the answer, and the revision that it is computed from.

        Raises Forbidden, WorkersBusy, NotDecided, TookTooLong.
        """
        default = visit.namespace or self._where.namespace
        if visit.user:  # on the reader's own machine nobody else's rights are at stake
            asked = self._request(default, scenario=scenario, namespaces_only=True)
            named = (await self._supposing.ask(asked))[0]["namespaces"]
            await whatif.check_rights(scenario, named, visit.authorizer)
        try:
            result, revision = await self._supposing.ask(self._request(default, scenario=scenario))
        except NotDecided as e:  # it may name what the fleet has
            if visit.scope.whole:
                raise
            raise NotDecided(UNDECIDED) from e
        return computed.what_if(result, visit.objects), revision

    # --- what scripts ask ---

    async def _fleet_columns(self, visit: Visit, request: Request) -> Response:
        rows = visit.views.fleet.clusters()
        return _columns(request, fleetview.cluster_columns(rows, visit.objects.revision))

    async def _workload_columns(self, visit: Visit, request: Request) -> Response:
        rows, namespace = visit.views.fleet.workloads(), request.query.get("ns", "")
        rows = [row for row in rows if namespace in ("", row["namespace"])]
        return _columns(request, fleetview.workload_columns(rows, visit.objects.revision))

    async def _live(self, visit: Visit, request: Request) -> Response:
        if not self.feed.makes_room(visit.session):
            return fault(request, 429, "too many open pages", headers={"Retry-After": "30"})

        async def look() -> NarrowedSnapshot | None:
            """Return what the caller may see by now; None where that is nothing any more."""
            now = await self._door.enter(request)
            return None if isinstance(now, Response) or now.scope.empty else now.objects

        stream = self.feed.stream(visit.session, request.header("Last-Event-ID"), look)
        return Response(200, content_type=STREAM, stream=stream)


_SOON = {"Retry-After": "5"}
_TABLES: tuple[tuple[str, str, View], ...] = (
    ("/", "overview", lambda v, _: v.views.overview()),
    ("/clusters", "clusters", lambda v, r: v.views.clusters(r.query)),
    ("/workloads", "workloads", lambda v, r: v.views.workloads(r.query)),
    ("/matrix", "matrix", lambda v, r: v.views.matrix(r.query)),
    ("/groups", "groups", lambda v, r: v.views.groups(r.query)),
    ("/spreads", "spreads", lambda v, r: v.views.spreads(r.query)),
    ("/reservations", "reservations", lambda v, r: v.views.reservations(r.query)),
    ("/policies", "policies", lambda v, r: v.views.policies(r.query)),
)
_OBJECTS: tuple[tuple[str, str, Resource, View], ...] = (
    ("/groups/:ns/:name", "group", WORKLOAD_GROUPS, lambda v, r: v.views.group(*_key(r))),
    ("/spreads/:ns/:name", "spread", WORKLOAD_SPREADS, lambda v, r: v.views.spread(*_key(r))),
    (
        "/reservations/:ns/:name",
        "reservation",
        RESERVATIONS,
        lambda v, r: v.views.reservation(*_key(r)),
    ),
    ("/policies/:ns/:name", "policy", WORKLOAD_POLICIES, lambda v, r: v.views.policy(*_key(r))),
    ("/workloads/:ns/:name/history", "history", WORKLOADS, lambda v, r: v.views.history(*_key(r))),
)


def _unanswered(request: Request, e: TransportError) -> Response:
    LOG.warning("the hub does not say what a caller may see: %s", e)
    return fault(request, 503, UNANSWERED, heading="Try again")


def _key(request: Request) -> tuple[str, str]:
    return request.params["ns"], request.params["name"]


def _columns(request: Request, data: fleetview.Columns) -> Response:
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
    found = render.named().get(request.params["name"])
    if found is None:
        return Response(404, b'{"message": "there is no such file"}')
    return Response(200, found.body, found.content_type, {"Cache-Control": render.KEPT})


async def _healthy(_request: Request) -> Response:
    return Response(200, b"ok\n", "text/plain; charset=utf-8")
