"""Who asks, and the fleet as they see it: all that a handler of the page is given.

A `Door` makes a `Visit` of a request, or answers it itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import Forbidden
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from stowage.web.narrowing import EVERYTHING, Authorizer, NarrowedSnapshot, Scope
from stowage.web.snapshot import HubSnapshot
from stowage.web.views import Views

MOST_KEPT = 64
"""Scopes whose tables are kept."""


class Sight:
    """What a scope shows: the objects, and the data of pages."""

    def __init__(self, whole: HubSnapshot, scope: Scope, *, system: str, clock: Clock) -> None:
        self.objects = NarrowedSnapshot(whole, scope)
        self.views = Views(self.objects, system=system, clock=clock)

    @property
    def scope(self) -> Scope:
        return self.objects.scope


class Sights:
    """Sights of one snapshot by scope, made when needed; those used last are kept."""

    def __init__(self, whole: HubSnapshot, *, system: str, clock: Clock) -> None:
        self.whole, self.system = whole, system
        self._clock = clock
        self._kept: OrderedDict[Scope, Sight] = OrderedDict()

    def of(self, scope: Scope) -> Sight:
        found = self._kept.pop(scope, None)
        if found is None:
            found = Sight(self.whole, scope, system=self.system, clock=self._clock)
        self._kept[scope] = found
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found


class Owner:
    """The reader of a page on their own machine: their credential has read it, so all is theirs."""

    async def allows(self, verb: str, res: Resource, namespace: str = "", name: str = "") -> bool:
        del verb, res, namespace, name
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of one caller.

    Args:
        session: what counts as one reader where streams are counted.
        user: who may have one what-if computed at once; empty for any number.
        name: of the caller, for themselves.
        namespace: of what they paste without one.
        headers: that go into the answer.
    """

    session: str
    sight: Sight
    sights: Sights
    authorizer: Authorizer = field(default_factory=Owner)
    user: str = ""
    name: str = ""
    namespace: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        return self.sight.scope

    @property
    def views(self) -> Views:
        return self.sight.views

    @property
    def objects(self) -> NarrowedSnapshot:
        return self.sight.objects

    async def getting(self, res: Resource, namespace: str, name: str) -> Visit:
        """Return the visit with one object in it. Raises Forbidden, TransportError."""
        if not await self.authorizer.allows("get", res, namespace, name):
            raise Forbidden(code=403, reason="Forbidden", message=f"you may not get {res.plural}")
        if self.scope.lists(res, namespace):
            return self
        scope = self.scope.with_object(res, namespace, name)
        return replace(self, sight=self.sights.of(scope))

    async def check_list(self, namespace: str) -> None:
        """Raise Forbidden where nothing of ours may be listed: anywhere, or in that namespace."""
        if namespace and self.scope.enters(namespace):
            return
        if namespace or self.scope.empty:
            raise Forbidden(code=403, reason="Forbidden", message="you may list nothing here")


class Door(Protocol):
    """Who may see the page."""

    async def enter(self, request: Request) -> Visit | Response:
        """Return the visit, or the answer to who may not have one. Raises TransportError.

        Called for each request, and again and again while a stream is open.
        """
        ...

    def route(self, server: HttpServer) -> None:
        """Register what a stranger may ask."""
        ...


def own(sights: Sights, session: str, headers: Mapping[str, str]) -> Visit:
    """Return a visit that sees the whole snapshot."""
    return Visit(session=session, sight=sights.of(EVERYTHING), sights=sights, headers=headers)
