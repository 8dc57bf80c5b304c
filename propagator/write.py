"""One object onto one member, by server-side apply, and never over somebody else's.

Before a write the object in its place is looked at, and claimed or left alone (`ownership`). What
stands as it was written costs nothing, and what is fought over waits (`writebook`). Who makes an
object of the same name in the very moment of our write is given it back, as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from machinery.clock import Clock
from machinery.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from machinery.informer import Informer
from machinery.resources import NAMESPACES, Resource
from machinery.transport import ApiClient
from propagator.holdings import listed
from propagator.kinds import resource_of
from propagator.link import Link
from propagator.managed import ManagedObject
from propagator.member import MemberSession
from propagator.model import Workload
from propagator.ownership import also_managed, claim, owned_by_all, owned_by_none
from propagator.refusals import rejected, says_no, taken
from propagator.render import Piece
from propagator.writebook import Place, WriteBook


@dataclass(frozen=True, slots=True)
class Site:
    """A piece on its way to its place on a member; the informer shows what of ours lies there."""

    session: MemberSession
    piece: Piece
    place: Place
    informer: Informer[ManagedObject]

    @property
    def resource(self) -> Resource:
        """What the piece is an object of."""
        return self.place.resource

    @property
    def client(self) -> ApiClient:
        """For the piece's namespace. Raises Unreachable while there is no usable kubeconfig."""
        return self.session.client_for(self.piece.namespace)

    @property
    def seen(self) -> ManagedObject | None:
        """Our object in that place, as far as it has been seen."""
        return self.informer.get(self.place.key)


class PieceWriter:
    """Writes pieces on members, each place by one worker at a time. One for a term."""

    def __init__(self, book: WriteBook, *, clock: Clock) -> None:
        self._book = book
        self._clock = clock
        self._namespaces: WeakKeyDictionary[Link, set[str]] = WeakKeyDictionary()

    async def write(self, session: MemberSession, workload: Workload, piece: Piece) -> float | None:
        """Bring a piece to the member unless it is there; seconds to leave it alone, or None.

        Raises Refused, and TransportError when asking again may help.
        """
        site = await self._site(session, piece)
        async with self._book.lock(site.place):
            live = site.seen
            if live is not None and self._book.stands(site.place, piece, live, workload.uid):
                return None
            wait = self._book.truce(site.place, piece)
            if wait > 0:
                return wait
            await self._put(site, workload)
        return None

    async def look(self, site: Site) -> ManagedObject | None:
        """What lies at the piece's place without our label, if anything does."""
        namespace, name = site.place.key
        try:
            found = await site.client.get(site.resource, name, namespace=namespace)
        except NotFound:
            return None
        except Forbidden as e:
            raise rejected(site.session.name, site.piece, e) from e
        return msgspec.convert(found, ManagedObject)

    async def _site(self, session: MemberSession, piece: Piece) -> Site:
        resource = await resource_of(session, piece.api_version, piece.kind)
        try:
            informer = await listed(session, resource, clock=self._clock)
        except ApiError as e:
            if not says_no(e):
                raise
            raise rejected(session.name, piece, e) from e
        return Site(session, piece, Place.of(session.name, resource, piece), informer)

    async def _put(self, site: Site, workload: Workload) -> None:
        live = site.seen
        if live is None or self._book.given_back(site.place):
            live = await self.look(site)
        others = claim(workload, site.piece, live)
        if site.resource.namespaced:
            await self._make_namespace(site)
        body = owned_by_all(site.piece, others, site.resource, live)
        answer = await self._send_inside(site, body, force=live is not None)
        if live is None and also_managed(answer):
            self._book.give_back(site.place)
            await self._withdraw(site)
            raise taken(site.session.name, site.piece)
        found = msgspec.convert(answer, ManagedObject)
        self._book.remember(site.place, site.piece, found)
        site.informer.upsert(found)

    async def _send_inside(
        self, site: Site, body: Mapping[str, Any], *, force: bool
    ) -> Mapping[str, Any]:
        """Apply it in its namespace; when that went meanwhile, it is made anew the next time."""
        try:
            return await _send(site, body, force=force)
        except NotFound as e:
            self._made_on(site.session).discard(site.place.namespace)
            raise rejected(site.session.name, site.piece, e) from e

    async def _withdraw(self, site: Site) -> None:
        """Take back what an apply added to an object that somebody made in the same moment."""
        with suppress(NotFound):
            await _send(site, owned_by_none(site.piece, site.resource), force=False)

    async def _make_namespace(self, site: Site) -> None:
        """Create the namespace where it is missing.

        It is never removed: others may have moved in.
        """
        name, client = site.place.namespace, site.session.client
        made = self._made_on(site.session)
        if name in made or client is None:
            return
        try:
            await client.get(NAMESPACES, name)
        except NotFound:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            with suppress(AlreadyExists, Forbidden):
                await client.create(NAMESPACES, body)
        except Forbidden:
            pass  # not ours to look at or to make: the write will say whether it is there
        made.add(name)

    def _made_on(self, session: MemberSession) -> set[str]:
        """The namespaces that were seen or made, by the member's present credentials."""
        if session.link is None:
            return set()
        return self._namespaces.setdefault(session.link, set())


async def _send(site: Site, body: Mapping[str, Any], *, force: bool) -> Mapping[str, Any]:
    """Apply a body in the piece's place. Raises Refused, but NotFound as it is."""
    namespace, name = site.place.key
    try:
        return await site.client.apply(
            site.resource, body, name=name, namespace=namespace, force=force
        )
    except Conflict as e:
        if force:
            raise
        raise taken(site.session.name, site.piece) from e
    except ApiError as e:
        if isinstance(e, NotFound) or not says_no(e):
            raise
        raise rejected(site.session.name, site.piece, e) from e
