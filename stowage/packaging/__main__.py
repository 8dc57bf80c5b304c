"""Writes the forms in which Stowage is installed: `python -m stowage.packaging`.

With `--check` it writes nothing, names each file that differs, and exits 1 when there is one.
`--image` names another image than `stowage:VERSION`, as a release does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from machinery.errors import StowageError
from stowage.packaging import forms


def main(arguments: Sequence[str] | None = None, folder: Path = forms.ROOT / "deploy") -> int:
    """Write the files below `folder`, or compare them; 1 when one differs or cannot be made."""
    parser = argparse.ArgumentParser(prog="python -m stowage.packaging", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    parser.add_argument("--image", metavar="REF", help="the image of both processes")
    asked = parser.parse_args(arguments)
    try:
        files = forms.printed(asked.image)
    except StowageError as e:
        sys.stderr.write(f"error: {e}\n")
        return 1
    strays = list(forms.stray(folder, files))
    changed = [name for name, text in files.items() if _read(folder / name) != text]
    if asked.check:
        for name in sorted([*changed, *strays]):
            sys.stdout.write(f"{name} differs: run `python -m stowage.packaging`\n")
        return 1 if changed or strays else 0
    for name in changed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(files[name], encoding="utf-8")
    for name in strays:
        (folder / name).unlink()
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
