"""The objects of a Workload on the members, and whether the list is complete.

Absence is meaningful only after every kind noted on the Workload has been listed. A member that
does not answer may hold objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from crds.fields.shares import ShareHealth
from machinery.api.resources import Resource, group_of
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, TransportError, Unreachable, fresh
from machinery.kinds.readiness import Judged, counts_of
from machinery.kinds.table import profile_of
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key, Meta
from propagator.errors import NotListed, Refused
from propagator.members.context import ControllerContext
from propagator.members.kinds import resource_of
from propagator.members.noted_kinds import needed_kinds
from propagator.members.objects import ManagedObject, owners
from propagator.members.pods import Main, main_of
from propagator.members.pulled import PullSession
from propagator.members.session import MemberSession
from propagator.members.watches import EVERYWHERE
from propagator.types.workload import ObjectId, Workload

LISTING_SECONDS = 10.0
"""How long a worker waits for the first list of a kind."""
_POLL_SECONDS = 0.02


Owned = Sequence[tuple[Resource, ManagedObject]]


def owned(session: MemberSession, uid: str) -> list[tuple[Resource, ManagedObject]]:
    return session.link.watches.owned(uid) if session.link else []


def uids_of(session: MemberSession, key: Key) -> set[str]:
    if isinstance(session, PullSession):
        return session.uids_of(key)
    there = session.link.watches.named(key) if session.link else ()
    owning = (owners(found.metadata).items() for _, found in there)
    return {uid for each in owning for uid, of in each if of == key}


def id_on_member(found: ManagedObject, namespace: str) -> ObjectId:
    """`namespace` is the Workload's."""
    meta = found.metadata
    return group_of(found.api_version), found.kind, meta.namespace or namespace, meta.name


def main_object(where: Main, objects: Owned, *, ending: bool = False) -> ManagedObject | None:
    """`ending` includes a terminating one. Of manifests alone, one that stands for all of them."""
    if where.parts:
        return _standing_for(where, objects)
    for resource, found in objects:
        if (resource.group, resource.kind) != (where.group, where.kind):
            continue
        stands = ending or not found.metadata.deleting
        if found.metadata.key == (where.namespace, where.name) and stands:
            return found
    return None


_WORST = (ShareHealth.DEGRADED, ShareHealth.UNKNOWN, ShareHealth.SUSPENDED, ShareHealth.PROGRESSING)


def _standing_for(where: Main, objects: Owned) -> ManagedObject | None:
    """Return the worst of the objects, with nothing but its health; None while one is missing."""
    there = {
        id_on_member(found, where.namespace): found
        for _, found in objects
        if not found.metadata.deleting
    }
    worst: ManagedObject | None = None
    for part in where.parts:
        if (found := there.get(part)) is None:
            return None
        _, kind, _, name = part
        asked = 1 if found.replicas is None else found.replicas
        counts, said = counts_of(found.judged, asked), found.judged.message
        whole = counts.ready >= asked and not counts.outdated
        health = ShareHealth.PROGRESSING if _well(counts.health) and not whole else counts.health
        if worst is None or _rank(health) < _rank(worst.judged.health):
            text = "" if _well(health) else f"{kind} {name}: {said or health.value}"
            judged = Judged(health, counts.observed, message=text)
            worst = ManagedObject(metadata=Meta(name=name), kind=kind, judged=judged)
    return worst


def _well(health: ShareHealth) -> bool:
    return health is ShareHealth.HEALTHY


def _rank(health: ShareHealth) -> int:
    return len(_WORST) if _well(health) else _WORST.index(health)


def pods_of(session: MemberSession | None, main: Main) -> int:
    """Return the observed pods; 0 if unknown."""
    counts = session.pod_counts(main) if session is not None else None
    return counts.current if counts is not None else 0


def pods_left(session: MemberSession | None, workload: Workload) -> int:
    """As `pods_of`; of what runs at most once with the pods that former main objects made."""
    main = main_of(workload)
    return pods_of(session, main) + (former_pods(session, main) if workload.at_most_once else 0)


def former_pods(session: MemberSession | None, main: Main) -> int:
    # Somebody may run a pod of a kind that begins some by the clock: that is none of a former.
    return session.former_pods(main) if session is not None and not main.clocked else 0


def former_units(session: MemberSession, workload: Workload) -> int:
    """Return the replicas that former main objects ask for, or their pods if those are more."""
    asked = (each.replicas for _, each in formers(session, workload))
    before = sum(1 if replicas is None else replicas for replicas in asked)
    return max(before, former_pods(session, main_of(workload)))


def formers(session: MemberSession, workload: Workload) -> list[tuple[Resource, ManagedObject]]:
    """Return objects that may run pods and are no longer in the spec."""
    held = set(workload.ids())
    return [
        (resource, found)
        for resource, found in owned(session, workload.uid)
        if id_on_member(found, workload.namespace) not in held
        and ((profile := profile_of(resource.api_version, resource.kind)).pods or not profile.known)
    ]


def seen_end(session: MemberSession, workload: Workload) -> Judged | None:
    """Return the last state of the main object, once it has ended: also of one that was deleted."""
    if workload.profile.ended is None:
        return None
    main = main_of(workload)
    found = main_object(main, owned(session, workload.uid), ending=True)
    if found is not None:
        return found.judged if found.judged.result is not None else None
    last = last_seen(session, workload)
    return last if last is not None and last.result is not None else None


def last_seen(session: MemberSession, workload: Workload) -> Judged | None:
    """The last state of a deleted main object that did some of its work."""
    main = main_of(workload)
    if workload.profile.ended is None or session.link is None:
        return None
    return session.link.watches.ended(workload.uid, main.kind, (main.namespace, main.name))


def has_ended(session: MemberSession, workload: Workload) -> bool:
    """An ended share must not run again, nor one whose Workload has ended whole elsewhere."""
    own = workload.end_of(session.name, session.former) is not None
    told = bool(workload.ends) if workload.ends_whole else own
    return told or seen_end(session, workload) is not None


async def listed(
    session: MemberSession, resource: Resource, namespace: str = EVERYWHERE, *, clock: Clock
) -> Informer[ManagedObject]:
    """Raises the TransportError that keeps the informer from being up to date."""
    until = clock.monotonic() + LISTING_SECONDS
    # Track again each time: new credentials bring another informer.
    while not (informer := session.track(resource, namespace)).trusted:
        if informer.last_error is not None:
            raise fresh(informer.last_error)
        if clock.monotonic() > until:
            raise NotListed(f"{resource.plural} were not listed in time")
        await clock.sleep(_POLL_SECONDS)
    return informer


class OwnedObjects:
    def __init__(self, context: ControllerContext) -> None:
        self._registry = context.registry
        self._clusters = context.clusters
        self._clock = context.clock

    def holders(self, uid: str) -> set[str]:
        return self._registry.holders(uid)

    def holds(self, session: MemberSession, workload: Workload) -> bool:
        """Whether the member has objects of the Workload, as far as it tells."""
        if isinstance(session, PullSession):
            return session.holds(workload)
        return bool(owned(session, workload.uid))

    async def wait_listed(self, session: MemberSession, workload: Workload) -> None:
        """Raises TransportError, except for forbidden kinds, which `hidden` returns."""
        if not isinstance(session, PullSession):
            await self._list(session, workload, needed_kinds(workload))

    async def shown(self, session: MemberSession, workload: Workload) -> set[tuple[str, str]]:
        """Return the rendered kinds that may be listed, and so written. Raises TransportError."""
        if isinstance(session, PullSession):
            return set(workload.kinds())
        return await self._list(session, workload, set(workload.kinds()))

    async def _list(
        self, session: MemberSession, workload: Workload, kinds: set[tuple[str, str]]
    ) -> set[tuple[str, str]]:
        found, absent = set(), session.link.absent if session.link is not None else set()
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

    async def _listed(self, session: MemberSession, workload: Workload, resource: Resource) -> None:
        if session.link is None:
            raise Unreachable("there is no usable kubeconfig now")
        for where in session.link.where(resource, workload.namespaces()):
            await listed(session, resource, where, clock=self._clock)

    def hidden(self, session: MemberSession, workload: Workload) -> dict[Resource, TransportError]:
        """Return the kinds that the member forbids to list."""
        if session.link is None:
            return {}
        watches, namespaces = session.link.watches, workload.namespaces()
        return {
            informer.resource: informer.last_error
            for pair in needed_kinds(workload)
            for informer in watches.concerning(*pair, namespaces=namespaces)
            if not informer.trusted and isinstance(informer.last_error, Forbidden)
        }

    def knows(self, session: MemberSession, workload: Workload) -> bool:
        """Whether `owned` is complete: all kinds are listed, or do not exist there."""
        return self.asked(session, workload) and not self.hidden(session, workload)

    def asked(self, session: MemberSession, workload: Workload, kind: str = "") -> bool:
        """Whether each kind (of that name) was listed, does not exist there, or is `hidden`."""
        if not session.ready or session.link is None:
            return False
        link, namespaces = session.link, workload.namespaces()
        return all(
            link.answered(pair, namespaces=namespaces)
            for pair in needed_kinds(workload)
            if kind in ("", pair[1])
        )

    def may_hold(self, workload: Workload, name: str) -> bool:
        """Whether the member may hold objects that are not shown."""
        session = self._registry.get(name)
        if session is None:  # gone, or, right after the start, without a session yet
            cluster = self._clusters.get(("", name))
            return cluster is not None and not cluster.given_up
        if session.refused_as_second:
            return False  # another registration of the cluster knows
        return not self.knows(session, workload)
