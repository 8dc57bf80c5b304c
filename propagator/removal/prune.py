"""What a Workload no longer wants on a member goes, all of it, in order.

The other half of `applier`, and its order the other way round: the workload itself goes first, what
its pods need goes afterwards. Only what a member's informers show as owned by that Workload is
touched; whoever calls knows whether that is everything (`inventory`). `remover` takes a single
object away; one that cannot go stops no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from crds.workload import PropagatedReason
from machinery.api.resources import Resource
from machinery.errors import Forbidden, NotFound
from propagator.apply.applier import wave_of
from propagator.apply.apply_records import ApplyRecords, ObjectPlace
from propagator.apply.render import Piece
from propagator.errors import Refused
from propagator.members.inventory import owned
from propagator.members.kinds import resource_of
from propagator.members.objects import ManagedObject, managed, owners
from propagator.members.target import Target
from propagator.removal.remover import Remover, newest
from propagator.removal.rule import Stays, granted
from propagator.types.workload import Workload

_YOUNGER = (
    "stays for now: it was written for a younger version of the Workload than the hub has, so "
    "the hub was set back; an edit of the Workload decides"
)

Chosen = Callable[[ManagedObject], bool]


@dataclass(frozen=True, slots=True)
class Left:
    """What is still there after all was asked to go, and why."""

    waiting: Mapping[ObjectPlace, str]
    """The member knows; why it takes its time."""
    refused: Mapping[ObjectPlace, Refused]
    kept: bool = False
    """Whether something stays that is not to go (`rule`)."""

    def __bool__(self) -> bool:
        """Whether something is left."""
        return bool(self.waiting or self.refused)


class Pruner:
    """Removes objects from members. `records` are those of the writer."""

    def __init__(
        self, records: ApplyRecords, remover: Remover, *, registered: Callable[[str], bool]
    ) -> None:
        self._records = records
        self._registered = registered
        self._remover = remover
        self._left: dict[tuple[str, str], frozenset[ObjectPlace]] = {}

    async def prune(
        self,
        session: Target,
        uid: str,
        *,
        ended: bool = False,
        decided: float = math.inf,
        keep: Sequence[Piece] = (),
        also: Sequence[tuple[Resource, ManagedObject]] = (),
        only: Chosen = lambda _: True,
    ) -> Left:
        """Remove what a Workload owns on the member beside these; what is left all the same.

        `ended`: it wants nothing anywhere any more. `decided` as `rule.granted` has it. `also` are
        objects of it that no informer shows. Raises TransportError.
        """
        stays = False
        kept = await _places(session, keep)
        there = [
            (ObjectPlace.at(session.name, resource, found.metadata.key), found)
            for resource, found in (*owned(session, uid), *also)
            if only(found)
        ]
        waiting: dict[ObjectPlace, str] = {}
        unheld: str | None = None  # not asked yet
        refused: dict[ObjectPlace, Refused] = {}
        for place, found in sorted(_beside(kept, there), key=lambda pair: -wave_of(pair[0].kind)):
            rule = partial(
                granted,
                owner=uid,
                mark=session.mark,
                ended=ended,
                decided=decided,
                registered=self._registered,
            )
            if not isinstance(rule(found), Stays):
                if unheld is None:
                    unheld = await session.link.unheld() if session.link else ""
                if unheld:
                    waiting[place] = f"{session.name}: {unheld}"
                    continue
            async with self._records.lock(place):
                grant = rule(newest(session, place, found))
                if grant is Stays.YOUNGER:
                    refused[place] = Refused(
                        PropagatedReason.CONFLICT, f"{session.name}: {place} {_YOUNGER}"
                    )
                    continue
                if isinstance(grant, Stays):
                    stays = True
                    continue
                if not grant.let_go:
                    self._records.sent_removal(grant.object_uid)
                try:
                    why = await self._remover.remove(session, place, found, grant)
                except Refused as refusal:
                    refused[place] = refusal
                    continue
            if why:
                waiting[place] = why
            else:
                self._records.removed(place)
        self._remember(session.name, uid, frozenset({*waiting, *refused}))
        return Left(waiting, refused, stays)

    async def find(
        self, session: Target, workload: Workload, resource: Resource
    ) -> list[ManagedObject] | None:
        """What it owns of a kind that cannot be listed, as far as it names it; None: who knows.

        Raises TransportError.
        """
        found = []
        names = list(workload.names_of(resource.api_version, resource.kind))
        for namespace, name in names:
            client = session.client_for(namespace)
            try:
                answer = await client.get(resource, name, namespace=namespace)
            except NotFound:
                continue
            except Forbidden:
                return None
            live = managed(resource, answer)
            if workload.uid in owners(live.metadata):
                found.append(live)
        return found if names else None

    def removed(self, member: str) -> None:
        """The member was removed: nothing needs to be known of it any more."""
        for name, uid in [which for which in self._left if which[0] == member]:
            self._remember(name, uid, frozenset())

    def _remember(self, member: str, uid: str, left: frozenset[ObjectPlace]) -> None:
        """Nothing needs to be known any more of what was left before and is gone now."""
        for place in self._left.pop((member, uid), frozenset()) - left:
            self._remover.forget(place)
            self._records.removed(place)
        if left:
            self._left[member, uid] = left


def _beside(
    kept: Collection[ObjectPlace], there: Sequence[tuple[ObjectPlace, ManagedObject]]
) -> list[tuple[ObjectPlace, ManagedObject]]:
    """What lies elsewhere than in the kept places, each object once.

    An object may be shown more than once, in several versions or groups: its UID tells.
    """
    done = {found.metadata.uid for place, found in there if place in kept}
    leaving = []
    for place, found in there:
        if place not in kept and found.metadata.uid not in done:
            done.add(found.metadata.uid)
            leaving.append((place, found))
    return leaving


async def _places(session: Target, pieces: Sequence[Piece]) -> set[ObjectPlace]:
    """Where the pieces lie; a kind that the member lacks has nothing there."""
    places = set()
    for piece in pieces:
        with suppress(Refused):
            resource = await resource_of(session, piece.api_version, piece.kind)
            places.add(ObjectPlace.of(session.name, resource, piece))
    return places
