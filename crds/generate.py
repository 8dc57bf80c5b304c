"""Writes what follows from the models: `python -m crds.generate`, or `--check` to compare only.

That is the manifests beside them, and the structs that the processes read objects with. After a
change of a model run it (`make crds`); the tests run `--check`, so that the models, the installed
manifests and the structs are never two things.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from crds import structs
from crds.admission import policies
from crds.definition import KINDS, definition

GUARD = "zz-guard.yaml"
"""The last file of the folder: `kubectl delete -f crds/` deletes the kinds before it."""
HEADER = "# Generated from the models beside it; `make crds` writes it.\n"


def documents() -> dict[str, list[dict[str, Any]]]:
    """Return the documents of each file, by file name."""
    kinds = {f"{each.__name__.lower()}.yaml": [definition(each)] for each in KINDS}
    policed = {"admission.yaml": policies.manifests(), GUARD: policies.guard_manifests()}
    return {**kinds, **policed}


def rendered() -> dict[str, str]:
    """Return the text of each file, by its path from this folder."""
    manifests = {name: HEADER + _dump(items) for name, items in documents().items()}
    read = {f"../{name.replace('.', '/')}.py": text for name, text in structs.modules().items()}
    return {**manifests, **read}


def differences(folder: Path) -> str:
    """Return a unified diff from the files in the folder to the rendered ones; empty when equal."""
    return "".join(
        line
        for name, text in rendered().items()
        for line in difflib.unified_diff(
            _read(folder / name).splitlines(keepends=True),
            text.splitlines(keepends=True),
            fromfile=name,
            tofile=f"{name} (generated)",
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with `--check` print what differs; 1 when something does."""
    parser = argparse.ArgumentParser(prog="python -m crds.generate", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    folder = Path(__file__).parent
    if parser.parse_args(arguments).check:
        difference = differences(folder)
        sys.stdout.write(difference)
        return 1 if difference else 0
    for name, text in rendered().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


class _Dumper(yaml.SafeDumper):
    """Writes a value each time it occurs, and long text as blocks, for people who read diffs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def _dump(items: list[dict[str, Any]]) -> str:
    return yaml.dump_all(items, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
