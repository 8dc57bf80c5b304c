"""What uv.lock says: which packages Stowage runs with, in which versions and with which hashes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parent.parent / "uv.lock"
Package = dict[str, Any]


def runtime() -> list[Package]:
    """The entries of all that Stowage needs, with its extras, and what these need in their turn."""
    entries = tomllib.loads(LOCK.read_text())["package"]
    (ours,) = (each for each in entries if each["name"] == "stowage")
    wanted = [
        *ours["dependencies"],
        *(d for e in ours["optional-dependencies"].values() for d in e),
    ]
    found: dict[tuple[str, str], Package] = {}
    while wanted:
        asked = wanted.pop()
        for each in entries:
            same = each["name"] == asked["name"]
            if not same or asked.get("version", each["version"]) != each["version"]:
                continue
            if (each["name"], each["version"]) not in found:
                found[each["name"], each["version"]] = each
                wanted += each.get("dependencies", ())
            for extra in asked.get("extra", ()):
                wanted += each.get("optional-dependencies", {}).get(extra, ())
    return list(found.values())
