"""The watches of our objects on one member, and which Workload owns which.

A kind is watched in all namespaces at once, or in each tenant under that namespace's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias, cast

from crds.names import LABEL_MANAGED
from machinery.api.resources import Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound
from machinery.kinds.readiness import Judged
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key
from propagator.members.objects import ManagedObject, after, owners, slim, wire_of

MANAGED_SELECTOR = f"{LABEL_MANAGED}=true"
EVERYWHERE = ""
"""A watch over all namespaces."""
MOST_ENDED = 10_000
"""Ended and deleted objects that are remembered per member."""

Watched: TypeAlias = tuple[Resource, str]
Found: TypeAlias = tuple[Resource, ManagedObject]
Changed: TypeAlias = Callable[[ManagedObject | None, ManagedObject | None], None]


class Watches:
    """The informers of one link, created on first use.

    `client_for(namespace)` returns a client; `apart` are the kinds watched per namespace. `begin`
    runs an informer until `end` is called with it. `changed(old, new)` is called for every object
    of ours.
    """

    def __init__(
        self,
        *,
        client_for: Callable[[str], Verbs],
        apart: Collection[Resource],
        begin: Callable[[Informer[ManagedObject]], None],
        end: Callable[[Informer[ManagedObject]], None],
        changed: Changed,
        clock: Clock,
    ) -> None:
        self._client_for = client_for
        self._apart = frozenset(apart)
        self._begin = begin
        self._end = end
        self._changed = changed
        self._clock = clock
        self._informers: dict[Watched, Informer[ManagedObject]] = {}
        self._asked: dict[Watched, float] = {}
        self.owners: dict[str, Key] = {}
        """By UID: the Workloads whose objects are shown."""
        self._owned: dict[str | Key, dict[tuple[Resource, Key], ManagedObject]] = {}
        self._ended: dict[tuple[str, str, Key], Judged] = {}

    def __iter__(self) -> Iterator[Informer[ManagedObject]]:
        return iter(list(self._informers.values()))  # a copy, to be walked across an await

    def add_namespace(self, namespace: str) -> None:
        for resource in self._apart:
            self.track(resource, namespace)

    def remove_namespace(self, namespace: str) -> None:
        for watched in [each for each in self._informers if each[1] == namespace]:
            self._drop(watched)

    def end_idle(self, idle: float) -> None:
        # Only this process creates objects of ours, and it tracks their kind first.
        before = self._clock.monotonic() - idle
        for watched, informer in list(self._informers.items()):
            shown = len(informer) or not informer.trusted
            if watched[1] != EVERYWHERE and not shown and self._asked[watched] < before:
                self._drop(watched)

    def track(self, resource: Resource, namespace: str) -> Informer[ManagedObject]:
        """The first call starts the informer."""
        watched = self._watched(resource, namespace)
        self._asked[watched] = self._clock.monotonic()
        informer = self._informers.get(watched)
        if informer is None:
            informer = self._informers[watched] = self._make(watched)
            self._begin(informer)
        return informer

    def untrack(self, resource: Resource) -> None:
        for watched in [each for each in self._informers if each[0] == resource]:
            self._drop(watched)

    def tracked(self, resource: Resource, namespace: str) -> Informer[ManagedObject] | None:
        """It may not be synced."""
        return self._informers.get(self._watched(resource, namespace))

    def answered(self, api_version: str, kind: str, *, namespaces: Collection[str]) -> bool:
        """Whether a kind was listed, or refused, in each of these namespaces that may have it.

        A kind that the member lacks counts as listed.
        """
        apart = any(_is(each, api_version, kind) for each in self._apart)
        found = self.concerning(api_version, kind, namespaces=namespaces)
        return (apart or bool(found)) and all(
            informer.trusted or isinstance(informer.last_error, NotFound | Forbidden)
            for informer in found
        )

    def concerning(
        self, api_version: str, kind: str, *, namespaces: Collection[str]
    ) -> list[Informer[ManagedObject]]:
        """Return the informers of a kind for a Workload of these namespaces.

        Those of others may show what it left there; refused ones are skipped.
        """
        return [
            informer
            for where, informer in self.of_kind(api_version, kind).items()
            if where in (EVERYWHERE, *namespaces) or not isinstance(informer.last_error, Forbidden)
        ]

    def of_kind(self, api_version: str, kind: str) -> dict[str, Informer[ManagedObject]]:
        """By namespace."""
        return {
            namespace: informer
            for (resource, namespace), informer in self._informers.items()
            if _is(resource, api_version, kind)
        }

    def owned(self, uid: str) -> list[Found]:
        return [(resource, found) for (resource, _), found in self._owned.get(uid, {}).items()]

    def ended(self, uid: str, kind: str, key: Key) -> Judged | None:
        """The last state of a deleted object that did some of its work."""
        return self._ended.get((uid, kind, key))

    def named(self, key: Key) -> list[Found]:
        """Whatever the owner's UID."""
        return [(resource, found) for (resource, _), found in self._owned.get(key, {}).items()]

    def lose(self, found: ManagedObject) -> None:
        """Drop a deleted object ahead of the watch."""
        for informer in self:
            held = informer.get(found.metadata.key)
            if held is not None and held.metadata.uid == found.metadata.uid:
                informer.lose(held)

    def renew(self) -> None:
        for watched, informer in list(self._informers.items()):
            if informer.synced:
                self._drop(watched)
                self.track(*watched)

    def judge_anew(self, group: str, kind: str) -> None:
        for watched in list(self._informers):
            if (watched[0].group, watched[0].kind) == (group, kind):
                self._drop(watched)
                self.track(*watched)

    def close(self) -> None:
        self._informers.clear()  # what a writer still puts into one is heard no more

    def is_apart(self, resource: Resource) -> bool:
        return resource in self._apart

    def _watched(self, resource: Resource, namespace: str) -> Watched:
        if resource not in self._apart:
            return resource, EVERYWHERE
        if not namespace:
            raise ValueError(f"{resource.plural} are watched in one namespace at a time here")
        return resource, namespace

    def _make(self, watched: Watched) -> Informer[ManagedObject]:
        resource, namespace = watched

        def kept(found: Any) -> ManagedObject:
            now = slim(resource, found)
            return after(informer.get(now.metadata.key), now)

        informer: Informer[ManagedObject] = Informer(
            self._client_for(namespace),
            resource,
            # `slim` makes it one before a handler sees it.
            cast("type[ManagedObject]", wire_of(resource)),
            transform=kept,
            namespace=namespace or None,
            label_selector=MANAGED_SELECTOR,
            clock=self._clock,
        )
        informer.add_handler(lambda old, new: self._hear(watched, informer, old, new))
        return informer

    def _hear(
        self,
        watched: Watched,
        informer: Informer[ManagedObject],
        old: ManagedObject | None,
        new: ManagedObject | None,
    ) -> None:
        """Ignore events of a replaced informer."""
        # A writer may still upsert into it: that object is counted already, or shown by the
        # successor, and would never be removed.
        if self._informers.get(watched) is informer:
            self._follow(watched[0], old, new)

    def _drop(self, watched: Watched) -> None:
        informer = self._informers.pop(watched)
        self._asked.pop(watched, None)
        self._end(informer)
        for found in informer.values():
            self._follow(watched[0], found, None)

    def _follow(
        self, resource: Resource, old: ManagedObject | None, new: ManagedObject | None
    ) -> None:
        before = owners(old.metadata) if old is not None else {}
        after = owners(new.metadata) if new is not None else {}
        if old is not None and new is None and (old.judged.result is not None or old.judged.done):
            for uid in before:
                self._ended[uid, resource.kind, old.metadata.key] = old.judged
            while len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
        if old is not None:
            for owner in _uids_and_names(before):
                self._let_go(owner, (resource, old.metadata.key))
        if new is not None:
            for owner in _uids_and_names(after):
                self._owned.setdefault(owner, {})[resource, new.metadata.key] = new
        self.owners.update(after)
        for uid in before:
            if uid not in self._owned:
                self.owners.pop(uid, None)
        self._changed(old, new)

    def _let_go(self, owner: str | Key, which: tuple[Resource, Key]) -> None:
        held = self._owned.get(owner, {})
        held.pop(which, None)
        if not held:
            self._owned.pop(owner, None)


def _uids_and_names(held: Mapping[str, Key]) -> set[str | Key]:
    return {*held, *held.values()}


def _is(resource: Resource, api_version: str, kind: str) -> bool:
    return (resource.api_version, resource.kind) == (api_version, kind)
