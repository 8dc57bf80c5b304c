"""The objects of the input: read as `stowage plan` reads them, bounded, and indexed by name.

A file may be built to do harm: aliases that unfold to gigabytes, nesting without end, values that
JSON does not have. This module refuses these, so its callers need no such checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from machinery.errors import ConfigurationError
from stowage.fleet import manifests
from stowage.fleet.manifests import Document

MOST_DEPTH = 64
MOST_VALUES = 200_000
MOST_CHARACTERS = 8 * 2**20
"""The bounds of one document, with its aliases unfolded; an API server accepts less."""
MOST_DOCUMENTS = 10_000


@dataclass(eq=False, slots=True)
class Source:
    """An object of the input; `taken` once something was made of it."""

    document: Document
    namespace: str
    """Its own, or the one of the command line."""
    taken: bool = False

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = str(self.document.body.get("apiVersion") or "").partition("/")
        return group if slash else ""

    @property
    def kind(self) -> str:
        return self.document.kind

    @property
    def name(self) -> str:
        return self.document.name

    def of(self, group: str, *kinds: str) -> bool:
        return self.group == group and self.kind in kinds


class Bundle:
    """All objects of the input, in their order.

    Raises ConfigurationError for an object that the input holds twice.
    """

    def __init__(self, documents: Sequence[Document], namespace: str) -> None:
        self.sources = [Source(each, _namespace(each, namespace)) for each in documents]
        self._by_name: dict[tuple[str, str, str, str], Source] = {}
        for each in self.sources:
            before = self._by_name.setdefault(_key(each), each)
            if before is not each:
                raise each.document.error(f"metadata.name: is in {before.document.place} already")

    def of(self, group: str, *kinds: str) -> Iterator[Source]:
        return (each for each in self.sources if each.of(group, *kinds))

    def find(self, group: str, kind: str, namespace: str, name: str) -> Source | None:
        return self._by_name.get((group, kind, namespace, name))

    def rest(self) -> Iterator[Source]:
        """Yield the objects that are not taken so far."""
        return (each for each in self.sources if not each.taken)


def dig(value: Any, *path: str) -> Any:
    """Return the value at a path of nested objects; None where the path leads nowhere."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read(files: Sequence[str], namespace: str) -> Bundle:
    """Return the objects of files, folders and standard input. Raises ConfigurationError."""
    documents = manifests.read(files)
    if not documents:
        raise ConfigurationError("there is no object in these files")
    if len(documents) > MOST_DOCUMENTS:
        raise ConfigurationError(f"more than {MOST_DOCUMENTS} objects: import them in parts")
    for each in documents:
        bounded(each)
        formed(each)
    return Bundle(documents, namespace)


def formed(document: Document) -> None:
    """Raise ConfigurationError for a document without apiVersion, kind or name."""
    body = document.body
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise document.error(f"{field}: is missing")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise document.error("metadata.name: is missing")
    if not isinstance(metadata.get("namespace") or "", str):
        raise document.error("metadata.namespace: must be a text")


def bounded(document: Document) -> None:
    """Raise ConfigurationError for a document that is too deep, too large unfolded, or no JSON."""
    values = characters = 0
    rest: list[tuple[Any, int]] = [(document.body, 1)]
    while rest:
        value, depth = rest.pop()
        values += 1
        if isinstance(value, dict):
            characters += sum(_key_length(document, key) for key in value)
            rest += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            rest += [(each, depth + 1) for each in value]
        elif isinstance(value, str):
            characters += len(value)
        elif not _json(value):
            raise document.error(f"{type(value).__name__} {value!r:.40}: JSON has no such value")
        if depth > MOST_DEPTH:
            raise document.error(f"nested more than {MOST_DEPTH} levels deep")
        if values + len(rest) > MOST_VALUES or characters > MOST_CHARACTERS:
            raise document.error("too large, once its aliases are unfolded")


def _key_length(document: Document, key: Any) -> int:
    if not isinstance(key, str):
        raise document.error(f"the key {key!r:.40} must be a text: write it in quotes")
    return len(key)


def _json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) < 2**63)


def _namespace(document: Document, default: str) -> str:
    return str(document.body["metadata"].get("namespace") or default)


def _key(source: Source) -> tuple[str, str, str, str]:
    return (source.group, source.kind, source.namespace, source.name)
