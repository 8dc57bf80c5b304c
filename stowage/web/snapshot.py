"""The hub's objects as the page reads them: each as the bytes of its parts, with a revision.

The page keeps 10,000 Workloads. A reader decodes what it needs, and that is kept until the object
changes. `HubSnapshot` answers as a hub does (`stowage.hub.ObjectReader`), so the page reports with
the code of the command line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from machinery.api.resources import LEASES, MEMBER_CLUSTERS, Resource
from machinery.errors import Forbidden, NotFound
from machinery.types.metadata import Key, Object
from stowage.hub import ObjectReader
from stowage.kinds import KINDS as NAMED

KINDS = (MEMBER_CLUSTERS, *(each.resource for each in NAMED))
"""What the page shows, besides Leases."""
_BY_PLURAL: Mapping[str, Resource] = {each.plural: each for each in (*KINDS, LEASES)}
_EMPTY = msgspec.Raw(b"{}")


class StoredObject(Object, frozen=True, omit_defaults=True):
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY

    def detached(self) -> StoredObject:
        """Return the same without the answer that it came in, a whole page of a list."""
        return msgspec.structs.replace(self, spec=self.spec.copy(), status=self.status.copy())


_decoder = msgspec.json.Decoder(StoredObject)


class FleetObjects(ObjectReader, Protocol):
    """The objects that pages are made of: a whole snapshot, or what one caller may see of it."""

    @property
    def revision(self) -> int:
        """Grows with each change of an object that is no Lease."""
        ...

    @property
    def hides_clusters(self) -> bool:
        """Whether of clusters only names and Ready are there."""
        ...


class HubSnapshot:
    """Objects by resource; `revision` grows with each change of one that is no Lease."""

    hides_clusters = False

    def __init__(self) -> None:
        self.revision = 0
        self.refused: set[str] = set()
        """The kinds that the hub does not show to this user."""
        self._objects: dict[str, dict[Key, StoredObject]] = {name: {} for name in _BY_PLURAL}
        self._held: dict[str, Counter[str]] = {name: Counter() for name in _BY_PLURAL}
        """How many objects of a kind a namespace holds."""
        self._decoded: dict[tuple[str, Any], dict[Key, tuple[StoredObject, Any]]] = {}
        self._handlers: list[Callable[[Resource, Key], None]] = []

    def add_handler(self, handler: Callable[[Resource, Key], None]) -> None:
        """Have it called with the resource and the key of each object that has changed."""
        self._handlers.append(handler)

    def change(self, res: Resource, old: StoredObject | None, new: StoredObject | None) -> None:
        """Take in a change, as an informer tells it."""
        key = (new or old or StoredObject()).metadata.key
        known_before = key in self._objects[res.plural]
        if new is None:
            self._objects[res.plural].pop(key, None)
            for (plural, _), known in self._decoded.items():
                if plural == res.plural:
                    known.pop(key, None)
        else:
            self._objects[res.plural][key] = new
        self._held[res.plural][key[0]] += (new is not None) - known_before
        if res != LEASES:  # they are renewed all the time
            self.revision += 1
            for handler in self._handlers:
                handler(res, key)

    def put(self, res: Resource, body: Mapping[str, Any]) -> None:
        self.change(res, None, _decoder.decode(msgspec.json.encode(body)))

    def each(
        self,
        res: Resource,
        as_: Any,
        namespace: str | None = None,
        *,
        among: Collection[str] | None = None,
    ) -> Iterator[Any]:
        """Yield the objects in the order of their names, of the namespaces `among` alone if given.

        Raises Forbidden as the hub did.
        """
        if res.plural in self.refused:
            raise Forbidden(code=403, reason="Forbidden", message=f"may not list {res.plural}")
        for key, stored in sorted(self._objects.get(res.plural, {}).items()):
            if namespace in (None, key[0]) and (among is None or key[0] in among):
                yield self._as(res, key, stored, as_)

    def namespaces(self, res: Resource) -> frozenset[str]:
        """Return the namespaces that hold an object of that kind."""
        return frozenset(name for name, number in self._held[res.plural].items() if number)

    def inhabited(self, namespace: str) -> bool:
        """Whether an object of ours is in that namespace, or was: its name may still be told."""
        return any(namespace in each for each in self._held.values())

    def has(self, res: Resource, key: Key) -> bool:
        return key in self._objects.get(res.plural, {})

    def named(self, res: Resource, name: str, among: Collection[str] | None) -> bool:
        """Whether an object of that kind has that name, in the namespaces `among` if given."""
        if among is None:
            return any(key[1] == name for key in self._objects.get(res.plural, {}))
        return any(self.has(res, (namespace, name)) for namespace in among)

    def read(self, res: Resource, name: str, namespace: str | None, as_: Any) -> Any:
        """Return one object. Raises NotFound."""
        key = (namespace or "" if res.namespaced else "", name)
        stored = self._objects.get(res.plural, {}).get(key)
        if stored is None:
            what = f"{res.plural} {'/'.join(filter(None, key))} not found"
            raise NotFound(code=404, reason="NotFound", message=what)
        return self._as(res, key, stored, as_)

    def _as(self, res: Resource, key: Key, stored: StoredObject, as_: Any) -> Any:
        if not isinstance(as_, type):  # JSON values belong to who asks for them
            return msgspec.json.decode(msgspec.json.encode(stored))
        known = self._decoded.setdefault((res.plural, as_), {})
        before = known.get(key)
        if before is None or before[0] is not stored:
            before = known[key] = (
                stored,
                msgspec.json.decode(msgspec.json.encode(stored), type=as_),
            )
        return before[1]

    def packed(self) -> bytes:
        """Return all objects in one piece, for another process."""
        every = {plural: list(found.values()) for plural, found in self._objects.items()}
        return msgspec.json.encode({"objects": every, "refused": sorted(self.refused)})


class _Packed(msgspec.Struct):
    objects: dict[str, list[StoredObject]]
    refused: list[str]


def unpacked(data: bytes) -> HubSnapshot:
    """Return the snapshot that `packed` has packed."""
    found, read = HubSnapshot(), msgspec.json.decode(data, type=_Packed)
    for plural, objects in read.objects.items():
        for each in objects:
            found.change(_BY_PLURAL[plural], None, each)
    found.refused = set(read.refused)
    return found
