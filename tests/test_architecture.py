"""What docs/architecture.md names is there, and every room says what belongs in it."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("crds", "machinery", "controller", "propagator", "stowage")
TEXT = (ROOT / "docs" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`", TEXT)))
GROUPS = {"stowage.features", "stowage.plugins"}
"""Of entry points: named like modules, and none."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name, packages among them."""
    paths = [path for top in PACKAGES for path in sorted((ROOT / top).rglob("*.py"))]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


def found(name: str) -> Any:
    """The module, class or function of that dotted name. Raises where there is none."""
    parts = name.split(".")
    length = max(n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in modules())
    value = importlib.import_module(".".join(parts[:length]))
    for part in parts[length:]:
        value = getattr(value, part)
    return value


def missing(name: str) -> bool:
    try:
        found(name)
    except (AttributeError, ImportError):
        return True
    return False


def test_every_module_and_function_that_is_named_exists() -> None:
    assert len(NAMED) > 40
    assert not [name for name in NAMED if missing(name) and name not in GROUPS]
    assert missing("controller.scheduling.cycle.no_such_function")


def test_every_room_is_in_the_table_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "rooms.md").read_text()
    told = re.findall(r"^\| `([\w/]+)/` \| \S", page, flags=re.MULTILINE)
    there = {
        path.parent.relative_to(ROOT).as_posix()
        for path in modules().values()
        if path.name == "__init__.py"
    }
    assert sorted(told) == sorted(there)


def test_files_and_pages_that_it_names_exist() -> None:
    paths = re.findall(r"`((?:tests|docs)/[\w/.]+)`", TEXT) + [
        f"docs/{page}" for page in re.findall(r"\]\(([\w.]+\.md)\)", TEXT)
    ]
    assert paths
    assert not [path for path in paths if not Path(ROOT / path).exists()]
