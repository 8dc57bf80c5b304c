"""What becomes of each field of another system's object: carried, noted or lost.

A `Table` has a row for a field or for all below it. `account` looks up each field of a document and
notes as lost what no row and no note of the converter is about: no field is silent. `entries` is
the report: one entry a leaf.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stowage.fleet.manifests import Document
from stowage.importing.fields import UNKNOWN, Fate, ImportNote, Notes, nothing

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


@dataclass(frozen=True, slots=True)
class Row:
    """What becomes of a field: `text` says why it is noted or lost.

    A value that `harmless` has asks for nothing: it is noted, and no loss. A `quiet` note stands in
    the report alone.
    """

    fate: Fate
    becomes: str = ""
    text: str = ""
    harmless: tuple[Any, ...] = ()
    quiet: bool = False


Table = Mapping[str, Row]
"""Rows by path without indices, such as `spec.stages.name`. The longest path that leads to a field
counts; `` is the whole object, which has one entry then."""


def carried(becomes: str) -> Row:
    return Row(Fate.CARRIED, becomes)


def noted(text: str, becomes: str = "", *, quiet: bool = False) -> Row:
    return Row(Fate.NOTED, becomes, text, quiet=quiet)


def lost(text: str, *harmless: Any) -> Row:
    return Row(Fate.LOST, text=text, harmless=harmless)


SERVER = "written by the server that it comes from; left out"
METADATA: Table = {
    "apiVersion": carried("the kind that is read"),
    "kind": carried("the kind that is read"),
    "metadata": noted(SERVER, quiet=True),
    "metadata.name": carried("metadata.name"),
    "metadata.namespace": carried("metadata.namespace"),
    "metadata.labels": noted("are of the rule, and not of what it places; left out", quiet=True),
    "metadata.annotations": noted("are of the rule alone; left out", quiet=True),
    "metadata.finalizers": noted("hold the object for its own controllers; left out", quiet=True),
    "metadata.ownerReferences": noted("name something of the hub that it comes from", quiet=True),
    "status": noted("is what the hub that it comes from has seen; left out", quiet=True),
}
"""Rows of every kind that rules say something with."""


def whole(row: Row) -> Table:
    """Return the table of a kind that is lost, or noted, as a whole."""
    return {"": row}


def account(notes: Notes, document: Document, table: Table) -> None:
    """Note what the table says of the fields that no note is about; the rest is lost."""
    if (row := table.get("")) is not None:
        _say(notes, document, "", row)
        return
    said = notes.said(document)
    if "" in said and not said[""].leaves:
        return
    below = _above(table)
    todo: list[tuple[Any, str, str, Row | None]] = [(document.body, "", "", None)]
    while todo:
        value, path, keys, above = todo.pop()
        row = table.get(keys, above) if keys else None
        known = said.get(path) if path else None
        if keys in below and not (known and known.fate is Fate.LOST) and not nothing(value):
            todo += [(*each, row) for each in reversed(list(_inner(value, path, keys)))]
        elif known is None:
            _judge(notes, document, path, row, value)


def _judge(notes: Notes, document: Document, path: str, row: Row | None, value: Any) -> None:
    if row is None and not nothing(value):
        notes.lost(document, path, UNKNOWN)
    elif row is None or (row.fate is Fate.LOST and (nothing(value) or value in row.harmless)):
        notes.note(document, path, f"{json.dumps(value)[:40]} asks for nothing", quiet=True)
    else:
        _say(notes, document, path, row)


def _say(notes: Notes, document: Document, path: str, row: Row) -> None:
    if row.fate is Fate.LOST:
        notes.lost(document, path, row.text)
    elif row.fate is Fate.NOTED:
        notes.note(document, path, row.text, becomes=row.becomes, quiet=row.quiet)


_KNOWN_ABOVE: dict[int, frozenset[str]] = {}
"""By the id of a table; tables are constants."""


def _above(table: Table) -> frozenset[str]:
    """Return the paths that lead to a row below."""
    found = _KNOWN_ABOVE.get(id(table))
    if found is None:
        parts = [path.split(".") for path in table]
        paths = (".".join(each[:size]) for each in parts for size in range(1, len(each)))
        found = _KNOWN_ABOVE[id(table)] = frozenset(("", *paths))
    return found


def _inner(value: Any, path: str, keys: str) -> Iterator[tuple[Any, str, str]]:
    """Yield what is directly in a value: (value, path with indices, path without)."""
    if isinstance(value, list):
        yield from ((each, f"{path}[{n}]", keys) for n, each in enumerate(value))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield each, at(path, key), f"{keys}.{key}" if keys else key


def at(path: str, key: str) -> str:
    """Return the path of a key: `spec.name`, `labels["a.b/c"]`."""
    if not _NAME.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


# --- the report -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """A document of the input, its namespace, and the rows of its kind."""

    document: Document
    namespace: str
    table: Table | None


def entries(notes: Notes, subjects: Iterable[Subject]) -> list[dict[str, Any]]:
    """Return the report: an entry for each leaf of each document, in the order of the input."""
    found = []
    for subject in sorted(subjects, key=lambda s: (s.document.source, s.document.number)):
        document = subject.document
        head = {"file": document.source, "document": document.number, "kind": document.kind}
        head |= {"namespace": subject.namespace, "name": document.name}
        for field, note in _leaves(notes.said(document), subject):
            fate = {"fate": str(note.fate), "becomes": note.becomes, "text": note.text}
            found.append(head | {"field": field} | fate)
    return found


def written(listed: Iterable[Mapping[str, Any]]) -> str:
    """Return the report as JSON, an entry a line."""
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in listed)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def _leaves(said: Mapping[str, ImportNote], subject: Subject) -> Iterator[tuple[str, ImportNote]]:
    whole_note = said.get("")
    if whole_note is not None and not whole_note.leaves and len(said) == 1:
        yield "", whole_note
        return
    silent = ImportNote(subject.document, "", UNKNOWN, Fate.LOST)
    known = whole_note or (silent if subject.table else ImportNote(subject.document, "", ""))
    used = whole_note is None or whole_note.fate is Fate.CARRIED
    todo: list[tuple[Any, str, str, ImportNote]] = [(subject.document.body, "", "", known)]
    while todo:
        value, path, keys, note = todo.pop()
        row = subject.table.get(keys) if subject.table and note.field == "" else None
        if row is not None and row.fate is Fate.CARRIED and used:
            note = ImportNote(subject.document, "", "", becomes=row.becomes)
        note = said.get(path, note) if path else note
        inner = list(_inner(value, path, keys))
        if inner:
            todo += [(*each, note) for each in reversed(inner)]
        elif path:
            yield path, note
