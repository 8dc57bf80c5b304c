"""Writes docs/reference/: `python -m website.reference`, or `--check` to compare only.

Each page comes from what it is about: the CRDs, the commands, the models of the configuration, the
registry of metrics, the enums of reasons, the profiles of kinds, the roles of deploy/, the
packages. So none of them forgets a field.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from website import importfields, knownkinds, processes, reasons, rooms, schemas

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


@cache
def rendered() -> dict[str, str]:
    """Return the text of each page, by file name."""
    return {
        **schemas.kinds(),
        "configuration.md": schemas.configuration(),
        "commands.md": processes.commands(),
        "metrics.md": processes.metrics(),
        "reasons.md": reasons.reasons(),
        "known-kinds.md": knownkinds.known_kinds(),
        "import-fields.md": importfields.import_fields(),
        "rights.md": processes.rights(),
        "rooms.md": rooms.rooms(),
    }


def main(arguments: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the pages, or with `--check` name those that differ; 1 when one does."""
    return written(rendered(), folder, arguments, about="python -m website.reference", text=__doc__)


def written(
    pages: Mapping[str, str],
    folder: Path,
    arguments: Sequence[str] | None,
    *,
    about: str,
    text: str | None,
    suffix: str = ".md",
) -> int:
    """Write generated pages, or with `--check` name those that differ; 1 when one does.

    What else lies in the folder with that suffix is none of them, and goes.
    """
    parser = argparse.ArgumentParser(prog=about, description=text)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    check = parser.parse_args(arguments).check
    there = {str(each.relative_to(folder)): each for each in folder.rglob(f"*{suffix}")}
    changed = {
        name
        for name, text in pages.items()
        if name not in there or there[name].read_text(encoding="utf-8") != text
    }
    gone = there.keys() - pages.keys()
    if check:
        sys.stdout.writelines(
            f"{each} differs: run make reference\n" for each in sorted(changed | gone)
        )
        return 1 if changed | gone else 0
    for name in changed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(pages[name], encoding="utf-8")
    for name in gone:
        there[name].unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
