"""A walk through an object in which a field that no caller asks for is a loss.

The caller asks a `DocumentPart` for its fields one by one, or walks a table with a `Fate` for each.
In the end `DocumentPart.account` notes every other field, at any depth, so that no field of a later
version of the other system is dropped in silence. Nulls count as absent. A loss forbids the output,
unless the user accepts losses: without the field the units would not do what they did.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar, cast

from machinery.types.bounds import clean
from stowage.fleet.manifests import Document

T = TypeVar("T")

_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "a flag"}
UNKNOWN = "is not known to this version of Stowage, so that nothing was made of it"


class DocumentPart:
    """A mapping inside of a document, and the fields of it that were asked for."""

    def __init__(self, document: Document, notes: Notes, body: Any, path: str = "") -> None:
        self.document = document
        self.notes = notes
        self.path = path
        self._body: dict[str, Any] = self._typed(body, dict, path)
        # asked for, but its own fields must be asked for as well
        self._read: set[str] = set()
        # asked for with everything in it
        self._whole: set[str] = set()
        self._inner: dict[str, tuple[str, DocumentPart]] = {}

    def __contains__(self, key: str) -> bool:
        return self._body.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([key for key, value in self._body.items() if value is not None])

    def at(self, key: str) -> str:
        """Return the path of a field: `spec.subsets[1].name`."""
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return a copy of a field; None if absent. Raises ConfigurationError for another type."""
        self._whole.add(key)
        value = self._body.get(key)
        return None if value is None else copy.deepcopy(self._typed(value, kind, self.at(key)))

    def any(self, key: str) -> Any:
        """Return a copy of a field of any type; None if absent."""
        self._whole.add(key)
        return copy.deepcopy(self._body.get(key))

    def all(self) -> dict[str, Any]:
        return {key: self.any(key) for key in self}

    def skip(self, *keys: str) -> None:
        """Count these fields as asked for."""
        self._whole.update(keys)

    def need(self, key: str, kind: type[T]) -> T:
        """Return a copy of a field. Raises ConfigurationError if it is absent or empty."""
        self.demand(key)
        return cast("T", self.get(key, kind))

    def demand(self, key: str) -> None:
        """Raise ConfigurationError if the field is absent or empty."""
        if self._body.get(key) in (None, "", [], {}):
            raise self.document.error(f"{self.at(key)}: is missing")

    def part(self, key: str) -> DocumentPart:
        """Return the mapping at a field; an empty one if absent."""
        self._read.add(key)
        value = self._body.get(key)
        return self._below(key, {} if value is None else value, self.at(key))

    def parts(self, key: str) -> list[DocumentPart]:
        """Return the mappings in the list at a field."""
        self._read.add(key)
        value = self._body.get(key)
        listed = [] if value is None else self._typed(value, list, self.at(key))
        paths = (f"{self.at(key)}[{n}]" for n in range(len(listed)))
        return [self._below(key, *each) for each in zip(listed, paths, strict=True)]

    def note(self, key: str, text: str) -> None:
        self._read.add(key)
        self.notes.note(self.document, self.at(key), text)

    def lost(self, key: str, text: str) -> None:
        """Note that a field cannot be kept true; the fields in it get no further note."""
        self._whole.add(key)
        self.notes.lost(self.document, self.at(key), text)

    def account(self) -> None:
        """Note every field that was not asked for as lost."""
        for key in self:
            if key not in self._read | self._whole:
                self.lost(key, UNKNOWN)
        for key, each in self._inner.values():
            if key not in self._whole:  # else nothing of it can be missing
                each.account()

    def _below(self, key: str, body: Any, path: str) -> DocumentPart:
        """Return the part at that path, the same one at each call."""
        if path not in self._inner:
            self._inner[path] = key, DocumentPart(self.document, self.notes, body, path)
        return self._inner[path][1]

    def _typed(self, value: Any, kind: type[T], path: str) -> T:
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not fits:
            found = _NAMES.get(type(value), type(value).__name__)
            expected = _NAMES[kind]
            raise self.document.error(f"{path or 'the document'}: {expected}, not {found}")
        return cast("T", value)


FieldConverter = Callable[[DocumentPart, str, dict[str, Any]], None]
"""Converts a field: (the part that holds it, its name, the mapping that is being made)."""


def walk(part: DocumentPart, table: Mapping[str, FieldConverter]) -> dict[str, Any]:
    """Return what the table makes of a part; a field that it lacks is left for `account`."""
    made: dict[str, Any] = {}
    for key in part:
        if key in table:
            table[key](part, key, made)
    return made


def keep(kind: type[Any], note: str = "") -> FieldConverter:
    """Return a fate that keeps the field, with a note if it means something else now."""

    def fate(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
        made[key] = part.get(key, kind)
        if note:
            part.note(key, note)

    return fate


def keep_any(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
    made[key] = part.any(key)


def inside(table: Mapping[str, FieldConverter]) -> FieldConverter:
    """Return a fate for an object with a table of its own."""

    def fate(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
        if inner := walk(part.part(key), table):
            made[key] = inner

    return fate


def gone(note: str) -> FieldConverter:
    """Return a fate that drops the field with a note; no behaviour is missing."""

    def fate(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
        del made
        if not nothing(part.any(key)):
            part.note(key, note)

    return fate


def lost(text: str) -> FieldConverter:
    """Return a fate for a field without a counterpart; an empty value (0, false) is no loss."""

    def fate(part: DocumentPart, key: str, made: dict[str, Any]) -> None:
        del made
        if not nothing(part.any(key)):
            part.lost(key, text)

    return fate


def nothing(value: Any) -> bool:
    """Return whether a value has the meaning of an absent one."""
    return value in (None, False, 0, "", "0%", [], {})


def put(made: dict[str, Any], path: str, value: Any) -> None:
    """Set `a.b.c` in nested dicts."""
    *above, last = path.split(".")
    for key in above:
        made = made.setdefault(key, {})
    made[last] = value


def one_line(text: str) -> str:
    """Return the whole text in one line, so that no quoted line of a file looks like a note."""
    return clean(text, max(len(text), 1))


class Fate(StrEnum):
    """What becomes of a field."""

    CARRIED = "carried"
    NOTED = "noted"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ImportNote:
    """One sentence about one field; an empty field stands for the whole object."""

    document: Document
    field: str
    text: str
    fate: Fate = Fate.CARRIED
    becomes: str = ""
    quiet: bool = False
    leaves: bool = False
    """Of a whole object: its fields have a fate each."""

    def __str__(self) -> str:
        """Return `lost: web.yaml: CloneSet web: spec.lifecycle: why`."""
        what = " ".join(filter(None, (self.document.kind, self.document.name)))
        place = self.document.source if self.document.name else self.document.place
        said = ": ".join(filter(None, (place, what, self.field, self.text)))
        return one_line(f"{'lost' if self.fate is Fate.LOST else 'note'}: {said}")


_WEIGHT = {Fate.CARRIED: 0, Fate.NOTED: 1, Fate.LOST: 2}


@dataclass(slots=True)
class Notes:
    """All notes of one import, each once."""

    each: list[ImportNote] = field(default_factory=list)
    _known: set[tuple[int, str, str, Fate]] = field(default_factory=set)
    _said: dict[int, dict[str, ImportNote]] = field(default_factory=dict)

    def note(
        self,
        document: Document,
        where: str,
        text: str,
        *,
        becomes: str = "",
        quiet: bool = False,
    ) -> None:
        """Note what became of a field that lost nothing; a quiet one is for the report alone."""
        self._add(ImportNote(document, where, text, Fate.NOTED, becomes, quiet))

    def lost(self, document: Document, where: str, text: str) -> None:
        """Note that a field cannot be kept true."""
        self._add(ImportNote(document, where, text, Fate.LOST))

    def carry(self, document: Document, where: str, becomes: str) -> None:
        """Note where a field, or with an empty one a whole object, is in the output."""
        self._add(ImportNote(document, where, "", Fate.CARRIED, becomes, quiet=True, leaves=True))

    def unused(self, document: Document, text: str) -> None:
        """Note that nothing was made of an object, so that none of its fields is carried."""
        self._add(ImportNote(document, "", text, Fate.NOTED, leaves=True))

    def said(self, document: Document) -> Mapping[str, ImportNote]:
        """Return the gravest note on each field of a document."""
        return self._said.get(id(document), {})

    def _add(self, note: ImportNote) -> None:
        words = (id(note.document), note.field, note.text, note.fate)
        if words in self._known:  # an object may be converted for several others
            return
        self._known.add(words)
        if not note.quiet:
            self.each.append(note)
        said = self._said.setdefault(id(note.document), {})
        before = said.get(note.field)
        if before is None:
            said[note.field] = note
        else:
            graver = max(before, note, key=lambda each: _WEIGHT[each.fate])
            leaves, becomes = before.leaves or note.leaves, before.becomes or note.becomes
            said[note.field] = replace(graver, leaves=leaves, becomes=becomes)

    def in_order(self) -> list[ImportNote]:
        """Return losses last, the notes on one object together, in the order of the files."""
        first: dict[str, int] = {}
        for n, note in enumerate(self.each):
            first.setdefault(note.document.place, n)
        return sorted(self.each, key=lambda n: (n.fate is Fate.LOST, first[n.document.place]))

    @property
    def losses(self) -> int:
        return sum(note.fate is Fate.LOST for note in self.each)
