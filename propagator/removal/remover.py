"""Removes one object from a member: deletes it, or releases it if other Workloads own it too.

A deletion is requested once, and a refused one again, at growing intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from machinery.api.responses import shaped
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import ApiError, Conflict, NotFound, fresh
from machinery.runtime.backoff import KeyedBackoff, steady
from machinery.types.metadata import Object
from propagator.access.carried_objects import takes
from propagator.apply.apply_records import ObjectPlace
from propagator.apply.ownership import other_owners, parting
from propagator.apply.refusals import undeletable
from propagator.errors import Refused, says_no
from propagator.members.objects import ManagedObject, managed, owners
from propagator.members.session import MemberSession
from propagator.removal.rule import Grant

KEPT = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that are released instead of deleted: everything in them would go as well."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class _Removal:
    session: MemberSession
    place: ObjectPlace
    found: ManagedObject
    grant: Grant

    @property
    def client(self) -> Verbs:
        return self.session.client_for(self.place.namespace)

    @property
    def last(self) -> bool:
        return not other_owners(self.found, self.grant.owner)

    @property
    def parts(self) -> bool:
        """Whether only the Workload's marks are removed."""
        resource = self.place.resource
        # Outside of namespaces only kinds that the member takes from us are deleted: other writers
        # can set the marks of an owner, and older releases set them on objects they took over.
        ours = resource.namespaced or takes(self.session, resource)
        return self.grant.let_go or not self.last or self.place.kind in KEPT or not ours


class Remover:
    def __init__(self, *, clock: Clock) -> None:
        self._backoff: KeyedBackoff[ObjectPlace] = KeyedBackoff(
            clock=clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE, jitter=steady
        )

    async def remove(
        self, session: MemberSession, place: ObjectPlace, found: ManagedObject, grant: Grant
    ) -> str:
        """Delete or release that Workload's object; return why it is still there, or empty.

        Raises Refused, and TransportError when a retry may help.
        """
        found = newest(session, place, found)
        if grant.owner not in owners(found.metadata):
            return ""  # the object changed hands while the lock was waited for
        removal = _Removal(session, place, found, grant)
        doing = (found.metadata.uid, found.metadata.deleting, removal.parts)
        if self._backoff.remaining(place, doing):
            return self._waiting(place)
        try:
            why = await _step(removal)
        except NotFound:
            why = _gone(removal)
        except ApiError as e:
            if not says_no(e):
                raise
            refused = undeletable(session.name, place, e)
            self._backoff.failed(place, doing, reason=fresh(refused))
            raise refused from e
        if why:
            # As deleting: the next call then finds the pause of this very state.
            self._backoff.failed(place, (found.metadata.uid, True, removal.parts), reason=why)
        else:
            self._backoff.reset(place)
        return why

    def forget(self, place: ObjectPlace) -> None:
        self._backoff.reset(place)

    def _waiting(self, place: ObjectPlace) -> str:
        why = self._backoff.reason(place)
        if isinstance(why, Refused):
            raise fresh(why)
        return str(why)


def newest(session: MemberSession, place: ObjectPlace, found: ManagedObject) -> ManagedObject:
    """Return the object as the informer shows it now, if it is still the same one."""
    live = session.track(place.resource, place.namespace).get(place.key)
    same = live is not None and live.metadata.uid == found.metadata.uid
    return live if live is not None and same else found


async def _step(removal: _Removal) -> str:
    if removal.parts:
        return await _part(removal)
    if removal.found.metadata.deleting:
        return await _read(removal)
    place = removal.place
    try:
        answer = await removal.client.delete(
            place.resource,
            place.name,
            namespace=place.namespace,
            uid=removal.grant.object_uid,
            resource_version=removal.grant.version or None,
        )
    except Conflict:  # most likely another object has the name by now
        return await _read(removal)
    # A server answers with the object as it was last, or with a Status, depending on the kind.
    ended = answer.get("kind") == "Status" or not shaped(answer, Object).metadata.deleting
    return _gone(removal) if ended else _outcome(removal, answer)


async def _part(removal: _Removal) -> str:
    place = removal.place
    answer = await removal.client.merge_patch(
        place.resource,
        place.name,
        parting(removal.found, removal.grant.owner, last=removal.last, orphan=removal.grant.orphan),
        namespace=place.namespace,
    )
    if removal.last:
        return _gone(removal)
    removal.session.track(place.resource, place.namespace).upsert(managed(place.resource, answer))
    return ""


async def _read(removal: _Removal) -> str:
    place = removal.place
    found = await removal.client.get(place.resource, place.name, namespace=place.namespace)
    return _outcome(removal, found)


def _outcome(removal: _Removal, answer: Mapping[str, Any]) -> str:
    place = removal.place
    now = managed(place.resource, answer)
    if now.metadata.uid != removal.found.metadata.uid:
        return _gone(removal)
    removal.session.track(place.resource, place.namespace).upsert(now)
    if not now.metadata.deleting:
        return f"{removal.session.name}: {place} has changed meanwhile"
    finalizers = ", ".join(now.metadata.finalizers[:5]) or "its member's own controllers"
    return f"{removal.session.name}: {place} is being deleted, and waits for {finalizers}"


def _gone(removal: _Removal) -> str:
    if removal.session.link is not None:
        removal.session.link.watches.lose(removal.found)
    return ""
