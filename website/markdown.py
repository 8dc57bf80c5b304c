"""Markdown of the generated pages: headings, tables, and the words that stand beside code."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

GENERATED = "<!-- Generated: `make reference` writes it. -->"


def page(title: str, intro: str, sections: Iterable[str]) -> str:
    """Return a whole page of those sections."""
    return "\n\n".join((GENERATED, f"# {title}", intro.strip(), *sections)) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell is Markdown of one line."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def code(text: object) -> str:
    """Return text as code; empty for none."""
    return f"`{text}`" if text != "" else ""


def attribute_docs(of: type) -> dict[str, str]:
    """Return the docstrings below a class's own attributes, by the attribute's name."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(of))).body
    assert isinstance(node, ast.ClassDef)  # noqa: S101 - the source of a class
    found = {}
    for each, after in zip(node.body, node.body[1:], strict=False):
        text = _text(after)
        if text and isinstance(each, ast.Assign | ast.AnnAssign):
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            found[ast.unparse(target)] = text
    return found


def sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return sentence(str(node.value.value))
    return ""


def _cell(text: str) -> str:
    plain = " ".join(text.split())
    # Outside code a bracket would be HTML, and a bar anywhere ends the cell.
    parts = re.split(r"(`[^`]*`)", plain)
    safe = [part if part.startswith("`") else part.replace("<", "&lt;") for part in parts]
    return "".join(safe).replace("|", "\\|")
