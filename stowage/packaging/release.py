"""What a release must agree on: `python -m stowage.packaging.release v0.1.0`.

The workflow `release` runs it first. It exits 1, and names both, where the tag, the version of
pyproject.toml and the newest heading of CHANGELOG.md are not one version.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from stowage.packaging.forms import ROOT

_HEADING = re.compile(r"(?m)^## (?!Unreleased\b)v?(\S+)")


def differences(tag: str, project: str, changes: str) -> list[str]:
    """Return what speaks against a release under that tag.

    `project` and `changes` are the texts of pyproject.toml and CHANGELOG.md.
    """
    version = tomllib.loads(project)["project"]["version"]
    found = _HEADING.search(changes)
    newest = found[1] if found else "no release"
    told = []
    if tag != f"v{version}":
        told.append(f"the tag is {tag}, and pyproject.toml has {version}")
    if newest != version:
        told.append(
            f"the newest heading of CHANGELOG.md is {newest}, and pyproject.toml has {version}"
        )
    return told


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Print what differs; 1 when anything does."""
    parser = argparse.ArgumentParser(
        prog="python -m stowage.packaging.release", description=__doc__
    )
    parser.add_argument("tag", help="such as v0.1.0")
    texts = [
        (root / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CHANGELOG.md")
    ]
    told = differences(parser.parse_args(arguments).tag, *texts)
    for each in told:
        sys.stderr.write(f"error: {each}\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
