"""Print how large the parts of Stowage are: `python -m website.figures [FOLDER]`, of any checkout.

Lines and files of each package, words of its docstrings, structs that are declared more than once,
protocols with one implementer, and what the propagator keeps in mutable containers. The way of a
Workload is what runs while one simple Workload is decided: modules, and classes of which a method
is called. It is measured in this checkout alone, by the scenario `single` of `tests/truth`.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("controller", "propagator", "machinery", "stowage", "crds", "tests", "e2e")
ENDS = {"ended", "removed", "forget", "clear", "went", "gone", "left", "drop", "discard", "close"}
"""Names of methods that end an entry."""
CONTAINERS = {"dict", "set", "list", "defaultdict", "deque", "Counter", "OrderedDict"}
OURS = {"KeyedBackoff"}
WEAK = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for package in PACKAGES:
        trees = [*_trees(root, package)]
        lines = sum(text.count("\n") for text, _ in trees)
        words = sum(_words(tree) for _, tree in trees)
        print(f"{package:<12}{lines:>8} lines{len(trees):>6} files{words:>8} words in docstrings")
    product = [tree for package in PACKAGES[:5] for _, tree in _trees(root, package)]
    structs = Counter(node.name for node in _classes(product) if _bases(node) & STRUCTS)
    print(f"structs declared in more than one place: {sum(n > 1 for n in structs.values())}")
    protocols = {node.name for node in _classes(product) if "Protocol" in _bases(node)}
    print(f"protocols: {len(protocols)}")
    propagator = [tree for _, tree in _trees(root, "propagator")]
    print(f"mutable containers in the propagator: {sum(map(_containers, propagator))}")
    print(f"methods that end their entries: {sum(map(_endings, propagator))}")
    if root.resolve() == Path.cwd():
        modules, classes = _way()
        print(f"on the way of one simple Workload: {modules} modules, {classes} classes")


STRUCTS = frozenset({"Struct", "BaseModel", "Model", "Object", "NamedTuple"})


def _trees(root: Path, package: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the files that people write."""
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text()
        if not text.startswith("# Generated"):
            yield text, ast.parse(text)


def _words(tree: ast.Module) -> int:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return sum(len((text or "").split()) for text in found)


def _classes(trees: list[ast.Module]) -> Iterator[ast.ClassDef]:
    for tree in trees:
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases}


def _containers(tree: ast.Module) -> int:
    """Count the attributes that begin as an empty container, or as one of ours."""
    return sum(
        isinstance(target, ast.Attribute) and _empties(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )


def _empties(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict | ast.List | ast.Set):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    if not isinstance(value, ast.Call):
        return False
    name = ast.unparse(value.func).split("[")[0].rpartition(".")[2]
    return name in CONTAINERS | WEAK | OURS


def _endings(tree: ast.Module) -> int:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for n in c.body]
    return sum(isinstance(node, kinds) and node.name.strip("_") in ENDS for node in nodes)


def _way() -> tuple[int, int]:
    """Decide one Workload on a hub in memory; count what of the controller runs from then on."""
    from tests.truth.recording import recorded  # noqa: PLC0415 - tests are in a checkout alone

    seen: set[tuple[str, str]] = set()
    folder = str(Path("controller").resolve())

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folder):
            seen.add((code.co_filename, code.co_qualname))

    async def play(stage: Any, _: Any) -> None:
        await stage.calm(2)  # until it leads, and all at rest
        sys.setprofile(look)
        stage.workload("web", replicas=3)
        await stage.calm(2)
        sys.setprofile(None)

    asyncio.run(recorded(play))
    classes = {(file, name.split(".")[0]) for file, name in seen if "." in name}
    return len({file for file, _ in seen}), len({each for each in classes if "<" not in each[1]})


if __name__ == "__main__":
    main()
