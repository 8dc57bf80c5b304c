"""What a Workload holds on the members, and whether that is all of it.

The informers of a member show the objects that we wrote there, by owner. Before anything is
concluded from an object that is not shown, the kinds that it could be of must have been listed:
those that are noted on the Workload, as far as the member has them. A member
that does not answer, or of which nothing is known yet, may hold something.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, TransportError, Unreachable
from machinery.runtime.informer import Informer
from propagator.errors import Refused
from propagator.members.connection import Link
from propagator.members.context import ControllerContext
from propagator.members.kinds import resource_of
from propagator.members.noted_kinds import needed_kinds
from propagator.members.objects import ManagedObject
from propagator.members.target import Target
from propagator.members.watches import EVERYWHERE
from propagator.types.workload import Workload

LISTING_SECONDS = 10.0
_LOOK_AGAIN = 0.02


def owned(session: Target, uid: str) -> list[tuple[Resource, ManagedObject]]:
    """Everything on a member that a Workload owns, as far as its informers show."""
    return session.link.watches.owned(uid) if session.link else []


async def listed(
    session: Target, resource: Resource, namespace: str = EVERYWHERE, *, clock: Clock
) -> Informer[ManagedObject]:
    """The informer of that kind there on that member, once it shows everything as it is.

    Raises the TransportError that keeps it from that: a worker must not wait for a kind that went
    away, or that we may not read.
    """
    until = clock.monotonic() + LISTING_SECONDS
    # Asked again each time: with new credentials it is another one, and the old one ends unheard.
    while not (informer := session.track(resource, namespace)).trusted:
        if informer.last_error is not None:
            raise informer.last_error
        if clock.monotonic() > until:
            raise Unreachable(f"{resource.plural} were not listed in time")
        await clock.sleep(_LOOK_AGAIN)
    return informer


class OwnedObjects:
    """Asked by all who take something away or say that it is gone."""

    def __init__(self, ground: ControllerContext) -> None:
        self._fleet = ground.fleet
        self._clusters = ground.clusters
        self._clock = ground.clock
        self._absent: WeakKeyDictionary[Link, set[tuple[str, str]]] = WeakKeyDictionary()

    def holders(self, uid: str) -> set[str]:
        """The members that show something of that Workload."""
        return self._fleet.holders(uid)

    async def look_for(self, session: Target, workload: Workload) -> None:
        """Have the kinds of a Workload listed, as far as the member has them and shows them.

        Raises TransportError, but for a kind that may not be listed: `hidden` tells of those.
        """
        await self._list(session, workload, needed_kinds(workload))

    async def shown(self, session: Target, workload: Workload) -> set[tuple[str, str]]:
        """The kinds that it renders now, as far as the member shows us what there is of them.

        Nothing is written of any other kind. Raises TransportError.
        """
        return await self._list(session, workload, set(workload.kinds()))

    async def _list(
        self, session: Target, workload: Workload, kinds: set[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        """Wait until these kinds were listed; those that were."""
        absent, found = self._absent_on(session), set()
        for pair in kinds:
            try:
                await self._listed(session, workload, await resource_of(session, *pair))
            except (Refused, NotFound):
                absent.add(pair)
            except Forbidden:
                continue
            else:
                absent.discard(pair)
                found.add(pair)
        return found

    async def _listed(self, session: Target, workload: Workload, resource: Resource) -> None:
        """Wait until a kind was listed, wherever we may see what this Workload has of it."""
        if session.link is None:
            raise Unreachable("there is no usable kubeconfig now")
        for where in session.link.where(resource, workload.namespaces()):
            await listed(session, resource, where, clock=self._clock)

    def hidden(self, session: Target, workload: Workload) -> dict[Resource, TransportError]:
        """The kinds of a Workload that the member does not let us list, and what it says to that.

        It may hold something of them, unseen.
        """
        if session.link is None:
            return {}
        watches, namespaces = session.link.watches, workload.namespaces()
        return {
            informer.resource: informer.last_error
            for pair in needed_kinds(workload)
            for informer in watches.concerning(*pair, namespaces=namespaces)
            if not informer.trusted and isinstance(informer.last_error, Forbidden)
        }

    def knows(self, session: Target, workload: Workload) -> bool:
        """Whether `owned` tells the whole truth of a Workload on that member, whatever its kinds.

        That is so when the member answers and all of them have been listed, or do not exist there.
        """
        return self.asked(session, workload) and not self.hidden(session, workload)

    def asked(self, session: Target, workload: Workload) -> bool:
        """Whether each of its kinds has been listed, does not exist there, or is `hidden`."""
        if not session.ready or session.link is None:
            return False
        link, absent = session.link, self._absent_on(session)
        namespaces = workload.namespaces()
        return all(
            pair in absent or link.answered(pair, namespaces=namespaces)
            for pair in needed_kinds(workload)
        )

    def may_hold(self, workload: Workload, name: str) -> bool:
        """Whether it is not known what a member holds of a Workload. A removed one has nothing.

        Right after the start there are members that have no session yet.
        """
        session = self._fleet.get(name)
        if session is None:
            return self._clusters.get(("", name)) is not None
        return not self.knows(session, workload)

    def _absent_on(self, session: Target) -> set[tuple[str, str]]:
        """The kinds that the member was found to lack, by its present credentials."""
        if session.link is None:
            return set()
        return self._absent.setdefault(session.link, set())
