"""The output of a command: a table for people, JSON or YAML for programs.

Names, messages and labels come from servers and files that others control, and a terminal obeys
control sequences in them. JSON and YAML escape these; text goes through `terminal.say`.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from stowage.console.terminal import say

GAP = "   "
LEAST = 24
"""Characters that the last column needs; with less room it starts on the next line."""


def show(data: Any, output: str, *, text: str) -> None:
    """Print `data` as JSON or YAML, or `text` for any other `output`."""
    if output == "json":
        click.echo(json.dumps(data, indent=2))
    elif output == "yaml":
        from stowage.console import yamltext  # noqa: PLC0415 - slow, and most are read by people

        click.echo(yamltext.dump([data], width=80), nl=False)
    else:
        say(text)


def named_objects(kind: str, names: Iterable[str]) -> None:
    """Print `kind/name` for each, as kubectl does for `-o name`."""
    for name in names:
        say(f"{kind}/{name}")


def manifests(objects: Iterable[Mapping[str, Any]]) -> None:
    """Print objects as one YAML stream for `kubectl apply -f -`."""
    from stowage.console import yamltext  # noqa: PLC0415 - slow, and only a dry run needs it

    click.echo(yamltext.dump(objects, width=100), nl=False)


_HEADINGS = {"units": "replicas"}
"""Headings of columns that have another name in what programs read."""


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    head: bool = True,
    indent: int = 0,
    below: Iterable[Iterable[str]] = (),
) -> str:
    """Return rows under upper-case headings, columns as wide as needed, as kubectl prints them.

    A terminal's width breaks the last column. Elsewhere each row is one line, so that grep finds it
    whole. `below` are the lines that follow each row.
    """
    cells = [[_HEADINGS.get(column, column).upper() for column in columns]] if head else []
    cells += [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns) - 1)]
    start = indent + sum(widths) + len(GAP) * len(widths)
    room = width()
    lines = [_line(line, widths, indent, start, room) for line in cells]
    for at, more in enumerate(below, start=len(lines) - len(rows)):
        lines[at] = "\n".join((lines[at], *(f"  {line}" for line in more)))
    return "\n".join(lines)


def left_out(rows: int) -> str:
    """Return the line below a table that lacks so many rows; empty for none."""
    return f"\n… {rows} more (--all shows them)" if rows > 0 else ""


def named(names: Sequence[str], most: int) -> str:
    """Return `a, b, c and 4 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def width() -> int | None:
    """Return the columns of the terminal; None without one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _line(
    cells: Sequence[str], widths: Sequence[int], indent: int, start: int, room: int | None
) -> str:
    first = "".join(cell.ljust(size) + GAP for cell, size in zip(cells, widths, strict=False))
    whole = " " * indent + first + cells[-1]
    if room is None or len(whole) <= room:
        return whole.rstrip()
    if room - start < LEAST:
        start = indent + 4
        return whole[: -len(cells[-1]) or None].rstrip() + "\n" + wrapped(cells[-1], start, room)
    return whole[:start] + wrapped(cells[-1], start, room).lstrip()


def wrapped(text: str, indent: int, room: int | None) -> str:
    """Return the text indented by so many columns, broken at words after `room` columns."""
    if room is None:
        return " " * indent + text
    return textwrap.fill(
        text,
        max(room, indent + LEAST),
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
