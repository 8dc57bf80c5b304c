"""What a Workload holds on the members, and whether that is all of it.

The informers of a member show the objects that we wrote there, by owner. Before anything is
concluded from an object that is not shown, the kinds that it could be of must have been listed:
the usual ones, and those that are noted on the Workload, as far as the member has them. A member
that does not answer, or of which nothing is known yet, may hold something.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from machinery.clock import Clock
from machinery.errors import NotFound, Unreachable
from machinery.informer import Informer
from machinery.resources import Resource
from propagator.kinds import USUAL_KINDS, resource_of
from propagator.link import Link
from propagator.managed import OWNER_INDEX, ManagedObject
from propagator.member import MemberSession
from propagator.model import Workload
from propagator.refusals import Refused
from propagator.term import Ground

LISTING_SECONDS = 10.0
_LOOK_AGAIN = 0.02


def owned(session: MemberSession, uid: str) -> list[tuple[Resource, ManagedObject]]:
    """Everything on a member that a Workload owns, as far as its informers show."""
    if session.link is None:
        return []
    return [
        (resource, found)
        for resource, informer in session.link.managed.items()
        for found in informer.by_index(OWNER_INDEX, uid)
    ]


async def listed(
    session: MemberSession, resource: Resource, *, clock: Clock
) -> Informer[ManagedObject]:
    """The informer of that kind on that member, once it has seen everything.

    Raises the TransportError that keeps it from that: a worker must not wait for a kind that went
    away, or that we may not read.
    """
    informer = session.track(resource)
    until = clock.monotonic() + LISTING_SECONDS
    while not informer.synced:
        if informer.last_error is not None:
            raise informer.last_error
        if clock.monotonic() > until:
            raise Unreachable(f"{resource.plural} were not listed in time")
        await clock.sleep(_LOOK_AGAIN)
    return informer


class Holdings:
    """Asked by all who take something away or say that it is gone. One for a term."""

    def __init__(self, ground: Ground) -> None:
        self._fleet = ground.fleet
        self._clusters = ground.clusters
        self._clock = ground.clock
        self._absent: WeakKeyDictionary[Link, set[tuple[str, str]]] = WeakKeyDictionary()

    def holders(self, uid: str) -> set[str]:
        """The members that show something of that Workload."""
        sessions = {name: self._fleet.get(name) for name in self._fleet.names()}
        return {name for name, each in sessions.items() if each is not None and owned(each, uid)}

    async def look_for(self, session: MemberSession, workload: Workload) -> None:
        """Have the further kinds of a Workload listed, as far as the member has them.

        Raises TransportError.
        """
        for pair in workload.remembered():
            absent = self._absent_on(session)
            try:
                await listed(session, await resource_of(session, *pair), clock=self._clock)
            except (Refused, NotFound):
                absent.add(pair)
            else:
                absent.discard(pair)

    def knows(self, session: MemberSession, workload: Workload) -> bool:
        """Whether `owned` tells the whole truth of a Workload on that member, whatever its kinds.

        That is so when the member answers and all of them have been listed, or do not exist there.
        """
        if not session.ready or session.link is None:
            return False
        further = workload.remembered()
        watched = {(each.api_version, each.kind): i for each, i in session.link.managed.items()}
        asked = all(
            informer.synced or isinstance(informer.last_error, NotFound)
            for pair, informer in watched.items()
            if pair in USUAL_KINDS or pair in further
        )
        return asked and further <= watched.keys() | self._absent_on(session)

    def may_hold(self, workload: Workload, name: str) -> bool:
        """Whether it is not known what a member holds of a Workload. A removed one has nothing.

        Right after the start there are members that have no session yet.
        """
        session = self._fleet.get(name)
        if session is None:
            return self._clusters.get(("", name)) is not None
        return not self.knows(session, workload)

    def _absent_on(self, session: MemberSession) -> set[tuple[str, str]]:
        """The kinds that the member was found to lack, by its present credentials."""
        if session.link is None:
            return set()
        return self._absent.setdefault(session.link, set())
