"""A cache of one kind's objects as an API server last showed them, compared by resourceVersion.

Handlers see a gapless sequence for each key: added, changed, deleted. They never see an older
version, nor one object turn into another (another uid, or a restored server's) without a deletion
in between.

resourceVersions compare only within one resource of one server, where they are growing integers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable
from typing import Generic, TypeAlias, TypeVar

from machinery.types.metadata import Key, Object

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

Handler: TypeAlias = Callable[[T | None, T | None], None]


class Cache(Generic[T]):
    """The objects of one resource. `version` is the moment up to which everything was seen."""

    def __init__(self) -> None:
        self.version = ""
        self._objects: dict[Key, T] = {}
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[str, _Index[T]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __bool__(self) -> bool:
        return True  # an empty cache must not pass for a missing one

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def values(self) -> Collection[T]:
        """Return a copy of all objects, in no order."""
        return list(self._objects.values())

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` for every change, in the event loop; it must not block.

        `old` is None for a new object, `new` None for a deleted one. Cached objects are reported at
        once, as new. A fault in a handler is logged and changes nothing.
        """
        self._handlers.append(handler)
        for obj in self.values():
            _tell(handler, None, obj)

    def add_index(self, name: str, values: Callable[[T], Iterable[str]]) -> None:
        """Index objects by the values of `values(obj)`, a pure function of the object.

        Raises ValueError if an index has that name.
        """
        if name in self._indexes:
            raise ValueError(f"there is an index {name} already")
        index = self._indexes[name] = _Index(values)
        for key, obj in self._objects.items():
            index.replace(key, None, obj)

    def by_index(self, name: str, value: str) -> Collection[T]:
        """Return a copy of the objects under that value. Raises KeyError for an unknown index."""
        keys = self._indexes[name].keys.get(value, ())
        return [self._objects[key] for key in keys]

    def index_values(self, name: str) -> Collection[str]:
        """Return a copy of the values with objects. Raises KeyError for an unknown index."""
        return [*self._indexes[name].keys]

    def observe(self, obj: T) -> None:
        """Store an object that the server shows; ignored unless newer than the cached one."""
        held = self._objects.get(obj.metadata.key)
        if held is None or _is_news(obj, held):
            self._set(held, obj)

    def lose(self, obj: Object) -> None:
        """Drop an object whose deletion the server shows; ignored if a newer one is cached."""
        held = self._objects.get(obj.metadata.key)
        if held is not None and order(_version(obj), _version(held)) != -1:
            self._drop(held)

    def replace(self, obj: T) -> None:
        """Store an object whose version does not compare with the cached one's."""
        held = self._objects.get(obj.metadata.key)
        if held is None or not _same(held, obj):
            self._set(held, obj)

    def restore(self, obj: T) -> None:
        """Store an object of a restored server, reported as another object than the cached one."""
        held = self._objects.get(obj.metadata.key)
        if held is not None and _same(held, obj):
            return
        # Its generation may be that of another edit in the lost history. A handler that compares
        # generations would see no change.
        if held is not None:
            self._drop(held)
        self._set(None, obj)

    def renew(self, obj: T) -> None:
        """Store another reading of the cached object: what it is read by has changed."""
        if (held := self._objects.get(obj.metadata.key)) is not None:
            self._set(held, obj)

    def missing(
        self, keys: Container[Key], *, unless_after: str | None = None
    ) -> list[tuple[Key, T]]:
        """Return all objects except `keys`, and except those newer than `unless_after`."""
        return [
            (key, held)
            for key, held in self._objects.items()
            if key not in keys
            and (unless_after is None or order(_version(held), unless_after) != 1)
        ]

    def give_up(self, key: Key, held: T) -> None:
        if self._objects.get(key) is held:
            self._drop(held)

    def _set(self, held: T | None, obj: T) -> None:
        if held is not None and _uids_differ(held, obj):
            self._drop(held)
            held = None
        key = obj.metadata.key
        self._objects[key] = obj
        self._changed(key, held, obj)

    def _drop(self, held: T) -> None:
        key = held.metadata.key
        del self._objects[key]
        self._changed(key, held, None)

    def _changed(self, key: Key, old: T | None, new: T | None) -> None:
        for index in self._indexes.values():
            index.replace(key, old, new)
        for handler in self._handlers:
            _tell(handler, old, new)


class _Index(Generic[T]):
    def __init__(self, values: Callable[[T], Iterable[str]]) -> None:
        self.keys: dict[str, dict[Key, None]] = {}
        self._values = values

    def replace(self, key: Key, old: T | None, new: T | None) -> None:
        before = self._of(old)
        after = self._of(new)
        for value in before - after:
            found = self.keys.get(value, {})
            found.pop(key, None)
            if not found:
                self.keys.pop(value, None)
        for value in after - before:
            self.keys.setdefault(value, {})[key] = None

    def _of(self, obj: T | None) -> set[str]:
        if obj is None:
            return set()
        try:
            return set(self._values(obj))
        except Exception:
            log.exception("an index failed", extra={"object": text(obj.metadata.key)})
            return set()


def order(version: str, other: str) -> int | None:
    """Return -1, 0 or 1: `version` is older, the same or newer than `other`; None: unknown."""
    one, two = number(version), number(other)
    return None if one is None or two is None else (one > two) - (one < two)


def number(version: str) -> int | None:
    """Return a resourceVersion as an integer; None if it is none."""
    try:
        return int(version)
    except ValueError:
        return None


def text(key: Key) -> str:
    return "/".join(part for part in key if part)


def _version(obj: Object) -> str:
    return obj.metadata.resource_version


def _is_news(shown: Object, held: Object) -> bool:
    known = order(_version(shown), _version(held))
    return known == 1 if known is not None else not _same(shown, held)


def _same(one: Object, other: Object) -> bool:
    return _version(one) == _version(other) != "" and not _uids_differ(one, other)


def _uids_differ(one: Object, other: Object) -> bool:
    return one.metadata.uid != other.metadata.uid


def _tell(handler: Handler[T], old: T | None, new: T | None) -> None:
    try:
        handler(old, new)
    except Exception:
        obj = new or old
        key = text(obj.metadata.key) if obj is not None else ""
        log.exception("a handler failed", extra={"object": key})
