"""No behaviour and no advice is read off a sentence: found in the code, so that none is forgotten.

Messages are for people, and any word of them may change. What programs tell apart has a reason, a
code or a field.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_architecture import modules

pytestmark = pytest.mark.proves("B21")

ROOTS = ("controller", "propagator", "stowage", "crds")
SENTENCES = {"message", "text", "texts", "sentence"}
"""Attributes of sentences; a variable named `text` may be anything that is parsed."""
CUTS = {
    *("startswith", "endswith", "partition", "rpartition", "split", "rsplit", "splitlines"),
    *("removeprefix", "removesuffix", "find", "rfind", "index", "rindex", "count"),
}
PATTERNS = {"search", "match", "fullmatch", "findall", "finditer", "split", "sub"}

HOLDS = re.compile(r"\bmessage\b|\.(texts?|sentence)\b")
"""Whether a module has any: parsing all of them takes a second."""

ALLOWED = {
    "propagator.access.namespaces._why": "an API server names the right that lacks in words alone",
    "propagator.apply.refusals._remedy": "RBAC names the right that lacks in words alone: advice",
    "propagator.errors._of_the_store": "an API server tells in words alone what its store refuses",
    "propagator.apply.refusals.rejected": "an API server tells what cannot be changed in words alone",
    "propagator.members.capacity.kept._without_node": "a kube-scheduler says in words alone why",
    "stowage.report.advice.without_node": "a kube-scheduler says in words alone why",
    "stowage.simulation.drain._state": "what stands before the colon is told beside it: cut, not judged",
}
"""By function: a sentence of another program, or one that is only shortened."""


def sentence(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in SENTENCES
        case ast.Name(id=name):
            return name == "message"
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key == "message"
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="message"), *_]):
            return True
        case ast.Call(func=ast.Name(id="str" | "clean"), args=[inner, *_]):
            return sentence(inner)
        case ast.BoolOp(values=[first, *_]):
            return sentence(first)
    return False


def fixed(node: ast.AST) -> bool:
    """Whether it is words that stand in the code."""
    match node:
        case ast.Constant(value=str(words)):
            return bool(words)
        case ast.Name(id=name):
            return name.isupper()
        case ast.JoinedStr():
            return True
    return False


def reads(node: ast.AST) -> bool:
    """Whether an expression takes something from the words of a sentence."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if isinstance(op, ast.In | ast.NotIn):
                return sentence(right) or sentence(left)
            return (sentence(left) and fixed(right)) or (sentence(right) and fixed(left))
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CUTS:
            if sentence(value):
                return True
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in PATTERNS:
            return any(map(sentence, args))
    return False


def readers(tree: ast.AST, module: str) -> Iterator[str]:
    """The functions of a module that read sentences."""
    for node in ast.iter_child_nodes(tree):
        if reads(node):
            yield module
        own = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from readers(node, f"{module}.{node.name}" if own else module)


def test_nothing_is_read_off_a_sentence() -> None:
    found = {
        reader
        for name, path in modules().items()
        if name.split(".")[0] in ROOTS
        if HOLDS.search(source := path.read_text())
        for reader in readers(ast.parse(source), name)
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "planted",
    [
        "def f(status):\n    return 'minMember is' in status.message",
        "def f(said):\n    return TOO_FEW in str(said.get('message') or '')",
        "def f(said):\n    return said['message'].startswith('cluster')",
        "def f(refusal):\n    return refusal.text == _CORDONED",
        "def f(message):\n    return WORDS.findall(message)",
        "def f(said):\n    return re.search('quota', said.message)",
        "def f(shortage):\n    return shortage.text.partition(':')[0]",
        "def f(each):\n    return each.message in KNOWN",
    ],
)
def test_a_reader_is_found_however_it_is_written(planted: str) -> None:
    assert list(readers(ast.parse(planted), "m")) == ["m.f"]


@pytest.mark.parametrize(
    "planted",
    [
        "def f(old, new):\n    return old.message == new.message",
        "def f(said):\n    return said.message == ''",
        "def f(said):\n    return f'{said.reason}: {said.message}'",
    ],
)
def test_what_compares_two_reports_or_tells_one_is_none(planted: str) -> None:
    assert not list(readers(ast.parse(planted), "m"))
