"""One object off a member: deleted, or let go where others own it too.

A deletion is asked for once. Its answer tells whether the object is gone or waits for finalizers,
and is believed without a watch, as there may be none: an account may be allowed to list a kind and
not to watch it. What waits is looked at now and then; what the member refuses is asked for again.
Both at growing intervals, however often somebody wakes us in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from machinery.api.responses import shaped
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import ApiError, Conflict, NotFound
from machinery.runtime.keyed_backoff import Pauses, steady
from machinery.types.metadata import Object
from propagator.access.carried_objects import takes
from propagator.apply.apply_records import ObjectPlace
from propagator.apply.ownership import other_owners, parting
from propagator.apply.refusals import undeletable
from propagator.errors import Refused, says_no
from propagator.members.objects import ManagedObject, managed, owners
from propagator.members.target import Target
from propagator.removal.rule import Grant

KEPT = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that are let go instead of deleted: everything of everybody in them would go as well."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class _Leaving:
    """An object of a Workload as it is known on the member."""

    session: Target
    place: ObjectPlace
    found: ManagedObject
    grant: Grant

    @property
    def client(self) -> Verbs:
        return self.session.client_for(self.place.namespace)

    @property
    def last(self) -> bool:
        """Whether nobody else owns it."""
        return not other_owners(self.found, self.grant.owner)

    @property
    def parts(self) -> bool:
        """Whether only our part in it goes.

        Of a kind without namespace only what the member takes from us is ours to delete: the marks
        of an owner can be set by others, and were once set on what had been taken over.
        """
        resource = self.place.resource
        ours = resource.namespaced or takes(self.session, resource)
        return self.grant.let_go or not self.last or self.place.kind in KEPT or not ours


class Remover:
    """Removes single objects, one at a time in each place."""

    def __init__(self, *, clock: Clock) -> None:
        self._pauses: Pauses[ObjectPlace] = Pauses(
            clock=clock, base=FIRST_PAUSE, cap=LONGEST_PAUSE, jitter=steady
        )

    async def remove(
        self, session: Target, place: ObjectPlace, found: ManagedObject, grant: Grant
    ) -> str:
        """Take that Workload's object, or its part in it, away; why it is still there, if it is.

        Raises Refused, and TransportError when asking again may help.
        """
        found = newest(session, place, found)
        if grant.owner not in owners(found.metadata):
            return ""  # somebody took it over while its place was waited for
        leaving = _Leaving(session, place, found, grant)
        doing = (found.metadata.uid, found.metadata.deleting, leaving.parts)
        if self._pauses.left(place, doing):
            return self._said(place)
        try:
            why = await _take(leaving)
        except NotFound:
            why = _gone(leaving)
        except ApiError as e:
            if not says_no(e):
                raise
            refused = undeletable(session.name, place, e)
            self._pauses.hold(place, doing, why=refused)
            raise refused from e
        if why:
            # What was deleted just now is looked at like what was found so, from here on.
            self._pauses.hold(place, (found.metadata.uid, True, leaving.parts), why=why)
        else:
            self._pauses.over(place)
        return why

    def forget(self, place: ObjectPlace) -> None:
        """It is gone, however that came."""
        self._pauses.over(place)

    def _said(self, place: ObjectPlace) -> str:
        why = self._pauses.why(place)
        if isinstance(why, Refused):
            raise why
        return str(why)


def newest(session: Target, place: ObjectPlace, found: ManagedObject) -> ManagedObject:
    """The object as it is known now, which may be more than when it was decided to remove it."""
    live = session.track(place.resource, place.namespace).get(place.key)
    same = live is not None and live.metadata.uid == found.metadata.uid
    return live if live is not None and same else found


async def _take(leaving: _Leaving) -> str:
    """Do what is to be done next; why it is still there afterwards."""
    if leaving.parts:
        return await _part(leaving)
    if leaving.found.metadata.deleting:
        return await _look(leaving)
    place = leaving.place
    try:
        answer = await leaving.client.delete(
            place.resource, place.name, namespace=place.namespace, uid=leaving.grant.object_uid
        )
    except Conflict:  # most likely the name is another object's by now
        return await _look(leaving)
    # Some kinds are shown as they were at the end, others are told of by a Status.
    ended = answer.get("kind") == "Status" or not shaped(answer, Object).metadata.deleting
    return _gone(leaving) if ended else _learn(leaving, answer)


async def _part(leaving: _Leaving) -> str:
    """Take our part out of an object that stays."""
    place = leaving.place
    answer = await leaving.client.merge_patch(
        place.resource,
        place.name,
        parting(leaving.grant.owner, last=leaving.last),
        namespace=place.namespace,
    )
    if leaving.last:
        return _gone(leaving)
    leaving.session.track(place.resource, place.namespace).upsert(managed(place.resource, answer))
    return ""


async def _look(leaving: _Leaving) -> str:
    """A deletion was asked for. The watch tells its end, where there is one."""
    place = leaving.place
    found = await leaving.client.get(place.resource, place.name, namespace=place.namespace)
    return _learn(leaving, found)


def _learn(leaving: _Leaving, answer: Mapping[str, Any]) -> str:
    """Draw the conclusion from an object that was to go and is shown all the same."""
    place = leaving.place
    now = managed(place.resource, answer)
    if now.metadata.uid != leaving.found.metadata.uid:
        return _gone(leaving)
    leaving.session.track(place.resource, place.namespace).upsert(now)
    finalizers = ", ".join(now.metadata.finalizers[:5]) or "its member's own controllers"
    return f"{leaving.session.name}: {place} is being deleted, and waits for {finalizers}"


def _gone(leaving: _Leaving) -> str:
    if leaving.session.link is not None:
        leaving.session.link.watches.lose(leaving.found)
    return ""
