"""The page of rooms: each package, and what belongs in it, by its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from website import markdown

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("crds", "machinery", "controller", "propagator", "stowage")
INTRO = """
Imports go one way: `crds` ◀ `machinery` ◀ `controller`, `propagator` ◀ `stowage`, and within each
from a room to those below it; `pyproject.toml` has the orders.
[Architecture](../architecture.md) shows the way of a Workload through the rooms.
"""


def rooms() -> str:
    return markdown.page("Rooms", INTRO, [markdown.table(("room", "what belongs in it"), _rows())])


def _rows() -> Iterator[tuple[str, str]]:
    for top in PACKAGES:
        for path in sorted((ROOT / top).rglob("__init__.py")):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            room = path.parent.relative_to(ROOT).as_posix()
            yield markdown.code(f"{room}/"), markdown.sentence(docstring)
