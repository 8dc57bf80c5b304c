"""Print how large the parts of Stowage are: `python -m website.figures [FOLDER]`, of any checkout.

Lines and files of each package, words of its docstrings, structs that are declared more than once,
protocols, and what the propagator keeps in mutable containers. A struct that is written by hand in
place of a generated one counts once, as the tests hold its fields to those of the model. A private
one is no declaration of the API: it reads a part of some JSON. The way of a
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
    once = _written(root)
    twins = [n for n, many in structs.items() if many > 1 and n not in once and n[0] != "_"]
    print(f"structs declared in more than one place: {len(twins)}")
    ours, plugins = (
        _protocols(root, *names) for names in (PACKAGES[:5], ("controller/framework",))
    )
    print(f"protocols: {len(ours)}, of the plugins' interface: {len(plugins)}")
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


def _written(root: Path) -> set[str]:
    """Return the structs with methods, by the table of the generator."""
    source = root / "crds" / "structs.py"
    for node in ast.parse(source.read_text()).body if source.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "WRITTEN":
            return set(ast.literal_eval(node.value))
    return set()


def _protocols(root: Path, *packages: str) -> set[str]:
    trees = [tree for package in packages for _, tree in _trees(root, package)]
    return {node.name for node in _classes(trees) if "Protocol" in _bases(node)}


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
