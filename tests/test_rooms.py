"""The rooms of the code: no module is too long, no circles, each with its promise.

Imports behind TYPE_CHECKING and inside of functions count as any other: a circle that only works
because one half is imported late is a circle all the same.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("crds", "machinery", "controller", "propagator", "stowage")
MOST_LINES = 800
MOST_DEPTH = 4
"""Folders below a package's top: two levels, and the features', each of which is a room."""


def named(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name, packages among them."""
    return {named(path): path for top in PACKAGES for path in sorted((ROOT / top).rglob("*.py"))}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


def imported(name: str) -> set[str]:
    """The modules of ours that it imports, wherever in it that stands."""
    found: set[str] = set()
    ours = modules().keys()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= whole & ours or {node.module}
    own = {name, *(name.rsplit(".", n)[0] for n in range(1, name.count(".") + 1))}
    return (found & ours) - own


def test_rooms_are_not_nested_deeply() -> None:
    assert not [name for name in modules() if name.count(".") > MOST_DEPTH]


def test_no_module_is_too_long() -> None:
    sizes = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    long = {name: lines for name, lines in sizes.items() if lines > MOST_LINES}
    assert not long, f"longer than {MOST_LINES} lines"


def test_no_circles_not_even_for_the_type_checker() -> None:
    graph = networkx.DiGraph((name, other) for name in modules() for other in imported(name))
    assert graph.number_of_edges() > 500
    assert not [each for each in networkx.strongly_connected_components(graph) if len(each) > 1]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_opens_with_its_promise(package: str) -> None:
    silent = [
        name
        for name in modules()
        if name.split(".")[0] == package and not (ast.get_docstring(tree_of(name)) or "").strip()
    ]
    assert not silent
