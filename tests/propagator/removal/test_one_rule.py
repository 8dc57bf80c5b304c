"""Every removal goes through the one rule: found in the code, so that none is forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_architecture import modules

pytestmark = pytest.mark.proves("N1")

REMOVER, RULE = "propagator.removal.remover", "propagator.removal.rule"
OF_THE_HUB = {
    ("delete", f"propagator.{name}") for name in ("hub.agent_accounts", "pull.assignments")
}
"""What these take away is their own, on the hub: accounts of agents, and orders that are done."""
DELETES = {"delete", "delete_collection", "deletecollection"}


def removals(tree: ast.AST) -> Iterator[str]:
    """What of a module takes something away from a server, or lets itself do so."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in DELETES:
                yield "delete"
            case ast.Constant(value=str(text)) if text.upper() in ("DELETE", "DELETECOLLECTION"):
                yield "delete"
            case ast.Call(func=ast.Name(id="Grant") | ast.Attribute(attr="Grant")):
                yield "grant"
            case ast.Call(func=ast.Name(id="parting") | ast.Attribute(attr="parting")):
                yield "parting"
            case ast.Call(func=ast.Attribute(attr="_make" | "_replace" | "replace")) if any(
                isinstance(each, ast.Name) and each.id == "grant" for each in node.args
            ):
                yield "grant"


def test_only_the_remover_removes_and_only_the_rule_grants() -> None:
    found = {
        (what, name)
        for name, path in modules().items()
        if name.split(".")[0] == "propagator"
        for what in removals(ast.parse(path.read_text()))
    }
    assert found - OF_THE_HUB == {("delete", REMOVER), ("parting", REMOVER), ("grant", RULE)}


@pytest.mark.parametrize(
    "planted",
    [
        "async def f(c):\n    await c.delete(x, 'y')",
        "async def f(c):\n    await c.request('DELETE', path)",
        "do = client.delete",
        "def f():\n    return Grant('o', 'w', let_go=False)",
        "def f():\n    return rule.Grant('o', 'w', let_go=False)",
        "def f():\n    return dataclasses.replace(grant, let_go=False)",
        "async def f(c):\n    await c.merge_patch(x, 'y', parting(uid, last=True))",
    ],
)
def test_one_that_goes_past_the_rule_is_found(planted: str) -> None:
    assert [*removals(ast.parse(planted))]
