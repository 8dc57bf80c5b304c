"""Whether an object is still as our last apply left it, from its managedFields. Pure.

Our managedFields entry shrinks when, and only when, another manager takes a field, by whatever verb
or subresource. Defaults, added fields and normalized quantities do not change it. That holds over
restarts, and for kinds without a generation, such as ConfigMap.

Only a number over the paths of an entry is kept, and which paths have others below: the server
merges some maps and lists, and owns others as a whole. List items are not distinguished, because an
entry only shrinks. An empty merged list has no entry: each process re-applies it once, to no
effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from crds.names import FIELD_MANAGER
from machinery.types.bounds import NAME, clean

_MASK = 2**64 - 1
_ITEM = "[]"
_NOT_COMPARED = ("apiVersion", "kind", "metadata")
"""Labels and annotations are compared by value: an object may have those of several owners."""
_SERVERS = ("f:metadata", "f:status")
_MOST_MERGED = 500
"""An object with more nested paths gets no print; a Deployment has 30."""
_MOST_RIVALS = 5


class ManagedFieldsEntry(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    api_version: str = ""
    time: str = ""
    fields: Any = msgspec.field(default=None, name="fieldsV1")


class FieldPrint(NamedTuple):
    """A number over the paths of our entry, and the paths that have others below them."""

    number: int
    merged: frozenset[int]


def print_of(entries: list[ManagedFieldsEntry], kind: str) -> FieldPrint | None:
    """None without an apply of ours, or if it is too large."""
    ours = [entry for entry in entries if is_ours(entry)]
    if not ours:
        return None
    number, merged = 0, set()
    for entry in ours:
        for path, has_more in _owned(entry, kind):
            if has_more:
                merged.add(path)
            else:
                number += path
    if len(merged) > _MOST_MERGED:
        return None
    return FieldPrint(number & _MASK, _shared(frozenset(merged)))


def print_of_body(body: Mapping[str, Any], merged: frozenset[int]) -> int:
    """Return the number that our entry has right after an apply of that body."""
    compared = {key: value for key, value in body.items() if key not in _NOT_COMPARED}
    todo: list[tuple[int, Any]] = []
    if compared:  # an object may be nothing but its name
        todo.append((_root(body["apiVersion"], body["kind"]), compared))
    number = 0
    while todo:
        path, value = todo.pop()
        if isinstance(value, Mapping) and value and path in merged:
            todo += [(_below(path, str(key)), inner) for key, inner in value.items()]
        elif isinstance(value, list) and value and path in merged:
            item = _below(path, _ITEM)
            number += item * len(value)
            for inner in value:
                if isinstance(inner, Mapping):
                    todo += [(_below(item, str(key)), each) for key, each in inner.items()]
        else:
            number += path
    return number & _MASK


def rivals_of(entries: list[ManagedFieldsEntry]) -> tuple[str, ...]:
    """Without managers of metadata and status only."""
    names = {
        clean(f"{each.manager} ({each.subresource})" if each.subresource else each.manager, NAME)
        for each in entries
        if not is_ours(each)
        and isinstance(each.fields, dict)
        and any(key not in _SERVERS for key in each.fields)
    }
    return _shared_names(tuple(sorted(names)[:_MOST_RIVALS]))


def is_ours(entry: ManagedFieldsEntry) -> bool:
    return (entry.manager, entry.operation, entry.subresource) == (FIELD_MANAGER, "Apply", "")


def _owned(entry: ManagedFieldsEntry, kind: str) -> Iterator[tuple[int, bool]]:
    """Yield each path that the entry owns, and each on the way there (True)."""
    fields = entry.fields if isinstance(entry.fields, dict) else {}
    compared = {key: value for key, value in fields.items() if key != "f:metadata"}
    todo: list[tuple[int, Any]] = [(_root(entry.api_version, kind), compared)]
    while todo:
        path, node = todo.pop()
        if not isinstance(node, dict):
            continue
        yield path, True
        for key, below in node.items():
            mark, _, name = key.partition(":")
            if mark == ".":
                continue  # the item itself is owned, with fields in it: it counts below
            inner = _below(path, name if mark == "f" else _ITEM)
            if mark != "f" or not below:
                yield inner, False
            if below:
                todo.append((inner, below))


def _root(api_version: str, kind: str) -> int:
    return hash((api_version, kind)) & _MASK


def _below(path: int, name: str) -> int:
    return hash((path, name)) & _MASK


@lru_cache(maxsize=1024)
def _shared(merged: frozenset[int]) -> frozenset[int]:
    """Objects of one shape share theirs."""
    return merged


@lru_cache(maxsize=1024)
def _shared_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names
