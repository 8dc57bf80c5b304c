"""The core knows no plugin by name: not its own ones, not their kinds, not the words of theirs.

What a plugin is called stands in its own module, in the profile that enables it, and nowhere else.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import catalogue
from crds.names import BINDING_LABELS

ROOT = Path(__file__).resolve().parents[3] / "controller"
ROOMS = ("scheduling", "binding", "queue", "explain", "framework", "http", "cache", "snapshot")
MODEL = "model"
WORDS = (
    *("distributionWeights", "spreadConstraints", "maxReplicas", "minReplicas", "minDomains"),
    *("allocationPolicy", "policyRef", "mark_seconds", "markSeconds"),
    *("quota", "domain", "subset", "spread", "weights"),
)
"""What people write in a field, or read in a message, of one plugin alone."""
UNIT, OBJECTS = "controller/model/unit.py", "controller/model/objects.py"
FIELDS = {
    (UNIT, "distributionWeights"): "the numbers of all fields of a Workload are checked there",
    (UNIT, "spreadConstraints"): "the numbers of all fields of a Workload are checked there",
    (UNIT, "weights"): "a hash of all fields of a Workload, by names that never change",
    (UNIT, "spread"): "a hash of all fields of a Workload, by names that never change",
    (UNIT, "Single"): "a value of spec.distribution, which says how many units a cluster runs",
    (UNIT, "Duplicated"): "a value of spec.distribution, which says how many units a cluster runs",
    (OBJECTS, "Single"): "the default of spec.distribution, as the schema has it",
}
"""(module, word): why it may name a field: the kind's own, whoever reads it."""


def core() -> list[Path]:
    """The modules that may know no plugin. The catalogue is the list of them."""
    rooms = [path for room in (*ROOMS, MODEL) for path in (ROOT / room).rglob("*.py")]
    return [*rooms, *(path for path in ROOT.glob("*.py") if path.stem != "catalogue")]


def names() -> set[str]:
    """Every plugin's name, the kinds and plurals that the features bring, and the labels that bind."""
    theirs = {
        name
        for feature in catalogue.features()
        for watch in feature.watches
        if watch.type_.__module__.startswith("controller.features.")
        for name in (watch.resource.kind, watch.resource.plural)
    }
    assert {"WorkloadPolicy", "workloadspreads"} <= theirs
    return {*catalogue.registry().names, *theirs, *BINDING_LABELS}


def told(source: str) -> Iterator[tuple[int, str]]:
    """Every string that is no docstring, and every comment, with its line."""
    tree = ast.parse(source)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Every docstring with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def found(path: Path, searched: set[str], *, docs: bool = False) -> Iterator[tuple[str, str]]:
    """(place, word) for each of the words in the module."""
    where, source = str(path.relative_to(ROOT.parent)), path.read_text()
    pattern = re.compile(rf"(?<![A-Za-z])({'|'.join(map(re.escape, sorted(searched)))})(?![a-z])")
    for line, text in prose(source) if docs else told(source):
        for word in pattern.findall(text):
            if (where, word) not in FIELDS:
                yield f"{where}:{line}", word


@pytest.mark.proves("E1")
@pytest.mark.proves("E13")
def test_no_string_and_no_comment_of_the_core_names_a_plugin_or_what_is_its_own() -> None:
    searched = {*names(), *WORDS}
    assert len(searched) > 30
    assert len(core()) > 60
    assert [each for path in core() for each in found(path, searched)] == []


@pytest.mark.proves("E1")
def test_no_docstring_of_the_core_explains_itself_by_a_plugin() -> None:
    compounds = {name for name in names() if re.search("[a-z][A-Z]", name)}  # no words of English
    assert len(compounds) > 15
    assert [each for path in core() for each in found(path, compounds, docs=True)] == []


def test_the_core_imports_no_plugin_and_no_feature() -> None:
    wrong = []
    for path in core():
        for node in ast.walk(ast.parse(path.read_text())):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            wrong += [
                (path.name, each)
                for each in named
                if each.startswith(("controller.plugins", "controller.features"))
            ]
    assert wrong == []


def test_what_may_be_named_is_named_still() -> None:
    for (where, word), reason in FIELDS.items():
        assert reason
        assert f'"{word}"' in (ROOT.parent / where).read_text()
