"""The page of what `stowage import` makes of each field, from the tables of `stowage.importing`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stowage.importing.command import SYSTEMS
from stowage.importing.fates import METADATA, Row, Table
from stowage.importing.fields import Fate
from stowage.importing.shapes import FOLDER, origin
from stowage.importing.systems import kubefed
from stowage.importing.workloads import System
from website.markdown import code, page, table


def import_fields() -> str:
    """Return the page."""
    return page(
        "Fields of other systems",
        "What [`stowage import`](../import.md) makes of each field of systems that place objects."
        " A row is about the field and all that is in it, unless a longer one is. A field without a"
        " row is lost, and named. A value that asks for nothing (0, false, an empty text, a default"
        " of the other system) is no loss.",
        [section for system in SYSTEMS if _listed(system) for section in _system(system)],
    )


def _listed(system: System) -> bool:
    return bool(system.tables)


def _system(system: System) -> Iterator[str]:
    yield f"## {system.name}"
    if (FOLDER / f"{system.shapes}.json").exists():
        yield f"The fields are those of {code(origin(system.shapes))}."
    tables = dict(system.tables)
    if system is kubefed.SYSTEM:
        tables = {(kubefed.TYPES, "Federated…"): kubefed.FEDERATED, **tables}
    for kinds, rows in _together(tables):
        yield f"### {', '.join(kinds)}"
        yield table(("field", "fate", "becomes"), [_row(path, row) for path, row in rows.items()])
    whole = {key: each[""] for key, each in tables.items() if "" in each}
    if whole:
        yield "### Whole kinds"
        yield table(
            ("kind", "fate", "why"),
            [(f"{kind} {group}", str(row.fate), row.text) for (group, kind), row in whole.items()],
        )


def _together(
    tables: Mapping[tuple[str, str], Table],
) -> Iterator[tuple[list[str], Mapping[str, Row]]]:
    """Yield the kinds that have one table, with its rows beside those of all metadata."""
    found: dict[int, tuple[list[str], Table]] = {}
    for (_, kind), each in tables.items():
        if "" not in each:
            found.setdefault(id(each), ([], each))[0].append(kind)
    for kinds, each in found.values():
        rows = {path: row for path, row in each.items() if METADATA.get(path) is not row}
        if rows:
            yield kinds, rows


def _row(path: str, row: Row) -> tuple[str, str, str]:
    told = row.text if row.fate is Fate.LOST else "; ".join(filter(None, (row.becomes, row.text)))
    harmless = ", ".join(code(each) for each in row.harmless if each not in ("", False))
    return code(path), str(row.fate), told + (f" ({harmless} is no loss)" if harmless else "")
