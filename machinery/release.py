"""Which release of Stowage this is, as the installed package says."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def release() -> str:
    """`0.1.0`; empty where the code runs without being installed."""
    try:
        return metadata.version("stowage")
    except metadata.PackageNotFoundError:
        return ""
